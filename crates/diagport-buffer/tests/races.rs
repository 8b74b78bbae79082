//! Threads that write, wait and end while another reads and a third aborts and closes, again and again; then the accounts must be exact.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use diagport_buffer::{
    BufferTotals, BufferingMode, EventBuffer, LaneWrite, Parking, Producer, ReaderSignal, Record, WakeReader,
    WakeReason,
};

struct Silent;

impl WakeReader for Silent {
    fn wake(&self, _reason: WakeReason) {}
}

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Writes until the session is over; returns what was written and what was dropped.
fn produce(buffer: &Arc<EventBuffer>, id: u64, lives: u64, random: &mut Random) -> (u64, u64) {
    let (mut written, mut dropped) = (0, 0);
    for life in 0..lives {
        let mut producer = Producer::new(id * 1_000 + life, String::new(), Parking::Allowed);
        let lane = buffer.add_lane(producer.enter().thread());
        let Some(lane) = lane else { return (written, dropped) };
        // The last life goes on to the end.
        let count = if life + 1 == lives { u64::MAX } else { random.below(20) };
        for _ in 0..count {
            let payload = vec![1; random.below(400) as usize];
            let outcome = loop {
                let outcome = lane.write(&mut producer.enter(), 0, &Record::new(0, &payload));
                if outcome != LaneWrite::Blocked {
                    break outcome;
                }
                producer.thread().park();
            };
            match outcome {
                LaneWrite::Written => written += 1,
                LaneWrite::Dropped => dropped += 1,
                LaneWrite::Disabled => {
                    assert!(lane.is_closed(), "its thread may forget it");
                    return (written, dropped);
                }
                LaneWrite::Blocked => unreachable!(),
            }
        }
        producer.thread().mark_dead();
    }
    (written, dropped)
}

/// What the reader has seen of each lane.
#[derive(Default)]
struct Seen {
    records: u64,
    last_attempt: BTreeMap<u64, u64>,
    attempts: BTreeMap<u64, u64>,
}

impl Seen {
    fn collect(&mut self, buffer: &EventBuffer) {
        buffer.collect(|take| {
            let lane = take.lane.id();
            for mut chunk in take.chunks.drain(..) {
                while let Some(record) = chunk.front() {
                    let before = self.last_attempt.insert(lane, record.attempt);
                    assert!(before.is_none_or(|before| before < record.attempt), "attempts of a lane go up");
                    assert!(record.attempt <= take.attempts, "a take holds no more than it says");
                    self.records += 1;
                    chunk.pop_front();
                }
                buffer.release(chunk);
            }
            self.attempts.insert(lane, take.attempts);
        });
        buffer.end_round();
    }
}

#[test]
fn invariants_1_and_5_hold_wherever_an_abort_and_a_close_come() {
    for seed in 1..=100_u64 {
        let mut random = Random(seed);
        let mode = if seed % 4 == 0 { BufferingMode::Drop } else { BufferingMode::Block };
        let buffer = EventBuffer::new(mode, [300, 2_000, 20_000][random.below(3) as usize], Arc::new(Silent));
        let (begin, over) = (Barrier::new(4), AtomicBool::new(false));
        let (counts, mut seen) = thread::scope(|scope| {
            let producers: Vec<_> = (0..3)
                .map(|id| {
                    let (buffer, begin) = (&buffer, &begin);
                    let mut random = Random(seed * 10 + id + 1);
                    scope.spawn(move || {
                        begin.wait();
                        produce(buffer, id, 1 + random.below(4), &mut random)
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                let mut seen = Seen::default();
                while !over.load(Ordering::Acquire) {
                    seen.collect(&buffer);
                    thread::yield_now();
                }
                seen
            });
            begin.wait();
            (0..random.below(40)).for_each(|_| thread::yield_now());
            // As a stop request on one thread and the drain on another do.
            let aborts = scope.spawn(|| buffer.abort());
            (0..random.below(3)).for_each(|_| thread::yield_now());
            buffer.close();
            aborts.join().unwrap();
            over.store(true, Ordering::Release);
            let counts: Vec<_> = producers.into_iter().map(|producer| producer.join().unwrap()).collect();
            (counts, reader.join().unwrap())
        });
        seen.collect(&buffer);
        let written: u64 = counts.iter().map(|(written, _)| written).sum();
        let dropped: u64 = counts.iter().map(|(_, dropped)| dropped).sum();
        assert_eq!(
            buffer.totals(),
            BufferTotals { attempts: written + dropped, drops: dropped },
            "seed {seed}"
        );
        assert_eq!(seen.records, written, "seed {seed}: every written record is read");
        assert_eq!(
            seen.attempts.values().sum::<u64>(),
            written + dropped,
            "seed {seed}: the last takes tell all"
        );
        assert_eq!(
            (buffer.waiting_count(), buffer.held_bytes(), buffer.lane_count()),
            (0, 0, 0),
            "seed {seed}"
        );
    }
}

/// The work is done under a lock, like a write into a lane, and the bell rung after it. A ring that got lost would show as a reader
/// that sleeps until it looks by itself.
// spec-test: SES-DRAIN-2
#[test]
fn no_ring_is_lost_between_two_rounds() {
    const PRODUCERS: usize = 3;
    const IDLE: Duration = Duration::from_millis(200);
    const EVENTS: u64 = 4_000;
    let signal = Arc::new(ReaderSignal::default());
    let written: Vec<_> = (0..PRODUCERS).map(|_| Arc::new(Mutex::new(0_u64))).collect();
    let seen: Vec<_> = (0..PRODUCERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let slept = thread::scope(|scope| {
        for (written, seen) in written.iter().zip(&seen) {
            let signal = &signal;
            scope.spawn(move || {
                for event in 1..=EVENTS {
                    *written.lock().unwrap() = event;
                    signal.wake(WakeReason::FillLevel);
                    // Only while its lane is empty does a producer depend on its own ring.
                    while seen.load(Ordering::Acquire) < event {
                        thread::yield_now();
                    }
                }
            });
        }
        let mut slept = 0;
        while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < EVENTS) {
            signal.arm();
            for (written, seen) in written.iter().zip(&seen) {
                seen.store(*written.lock().unwrap(), Ordering::Release);
            }
            let begin = Instant::now();
            if seen.iter().any(|seen| seen.load(Ordering::Relaxed) < EVENTS) {
                signal.wait(Duration::ZERO, IDLE);
                slept += u32::from(begin.elapsed() >= IDLE);
            }
        }
        slept
    });
    // A machine that stands still for that long has slept too; a protocol that loses rings does so often.
    assert!(slept <= 2, "the reader slept {slept} times with work to do");
}

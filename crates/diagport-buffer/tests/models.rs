//! The protocols between producers, reader, waiters and the end, checked over all their schedules: `cargo xtask loom`.
//!
//! Each model runs with its roles on threads of their own, and with one of them on the model's main thread; says how many schedules it explored,
//! and fails if that are too few or if an outcome that should occur never did. Each names the mutants (one ordering or step left out, see
//! `sync::mutant`) under which it must fail.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "models talk to the person who runs them"
)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::sync::{Arc, Mutex as StdMutex};

use diagport_buffer::{
    BufferTotals, BufferingMode, EventBuffer, Lane, LaneWrite, Liveness, Parking, ProducerThread, Record,
    WakeReader, WakeReason,
};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// A record without a payload, and so the whole of a chunk in buffers as small as these.
const RECORD_BYTES: usize = 24;

/// What the drain sleeps on.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

impl WakeReader for Bell {
    fn wake(&self, _reason: WakeReason) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Calls nobody: the model's reader looks by itself.
struct Silent;

impl WakeReader for Silent {
    fn wake(&self, _reason: WakeReason) {}
}

/// One producer's side.
#[derive(Clone)]
struct Producer {
    thread: Arc<ProducerThread>,
    lane: Arc<Lane>,
}

impl Producer {
    fn new(buffer: &Arc<EventBuffer>, id: u64) -> Self {
        let thread = Arc::new(ProducerThread::new(id, String::new(), Parking::Allowed));
        let lane = buffer.add_lane(&thread).unwrap();
        Self { thread, lane }
    }

    /// One event, stamped by `clock`; waits if it must.
    fn write(&self, clock: &AtomicU64) -> LaneWrite {
        loop {
            let guard = self.thread.enter();
            let stamp = clock.load(Ordering::SeqCst);
            let outcome = if self.lane.write_in_place(&guard, stamp, 0, |_| {}) {
                LaneWrite::Written
            } else {
                self.lane.write(&guard, stamp, &Record::new(0, &[]))
            };
            drop(guard);
            if outcome != LaneWrite::Blocked {
                return outcome;
            }
            self.thread.park();
        }
    }

    fn end(&self) {
        self.thread.mark_dead();
        self.lane.buffer().thread_ended();
    }
}

/// What a reader saw.
#[derive(Default)]
struct Seen {
    /// Lane, attempt and stamp of each record, in order.
    records: Vec<(u64, u64, u64)>,
    /// Attempts of each lane as of the last take.
    attempts: Vec<(u64, u64)>,
    ended: usize,
}

impl Seen {
    fn collect(&mut self, buffer: &EventBuffer) {
        buffer.collect(|take| {
            for mut chunk in take.chunks.drain(..) {
                while let Some(record) = chunk.front() {
                    self.records.push((take.lane.id(), record.attempt, record.ticks));
                    chunk.pop_front();
                }
                buffer.release(chunk);
            }
            self.attempts.retain(|(lane, _)| *lane != take.lane.id());
            self.attempts.push((take.lane.id(), take.attempts));
            self.ended += usize::from(take.liveness == Liveness::Ended);
        });
    }

    /// Received and lost make the attempts, lane by lane, and each lane's records are in order.
    fn check(&self, totals: BufferTotals) {
        let mut attempts = 0;
        for (lane, of_lane) in &self.attempts {
            let numbers: Vec<u64> =
                self.records.iter().filter(|record| record.0 == *lane).map(|record| record.1).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "lane {lane}: {numbers:?}");
            assert!(
                numbers.last().is_none_or(|last| last <= of_lane),
                "lane {lane}: {numbers:?} of {of_lane}"
            );
            attempts += of_lane;
        }
        assert_eq!(totals.attempts, attempts);
        assert_eq!(totals.attempts - totals.drops, self.records.len() as u64);
    }
}

/// Explores `model`, which answers what happened in its schedule.
fn explore(
    name: &str,
    at_least: usize,
    outcomes: &[&str],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    if let Ok(mistake) = std::env::var("DIAGPORT_MUTANT") {
        diagport_buffer::plant_mistake(&mistake);
    }
    let schedules = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(StdMutex::new(BTreeSet::new()));
    let (counted, noted) = (Arc::clone(&schedules), Arc::clone(&seen));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(move || {
        counted.fetch_add(1, StdOrdering::Relaxed);
        let outcome = model();
        noted.lock().unwrap().insert(outcome);
    });
    let (schedules, seen) = (schedules.load(StdOrdering::Relaxed), seen.lock().unwrap().clone());
    println!("loom: {name}: {schedules} schedules, outcomes {seen:?}");
    assert!(schedules >= at_least, "{name}: only {schedules} schedules were explored");
    assert_eq!(seen, outcomes.iter().copied().collect(), "{name}: outcomes");
}

/// Which role has the model's main thread.
#[derive(Clone, Copy)]
enum MainIs {
    Nobody,
    Reader,
    Producer,
}

/// Runs two roles at once.
fn two_roles(main: MainIs, producer: impl FnOnce() + Send + 'static, reader: impl FnOnce() + Send + 'static) {
    match main {
        MainIs::Nobody => {
            let (producer, reader) = (thread::spawn(producer), thread::spawn(reader));
            producer.join().unwrap();
            reader.join().unwrap();
        }
        MainIs::Reader => {
            let producer = thread::spawn(producer);
            reader();
            producer.join().unwrap();
        }
        MainIs::Producer => {
            let reader = thread::spawn(reader);
            producer();
            reader.join().unwrap();
        }
    }
}

/// A thread writes while the reader takes. Nothing is read while it is written, nothing comes twice or out of order, and a record stamped
/// before the reader's moment is in its take.
///
/// Mutants: take_without_revoke, take_inside_gate, gate_without_fence, reader_without_fence, leave_relaxed, give_back_relaxed.
fn take_against_write(name: &str, main: MainIs) {
    explore(name, 1_000, &["all at once", "in parts", "nothing at first"], move || {
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(10));
        let seen = Arc::new(StdMutex::new((Seen::default(), 0)));
        let (of_reader, clock_of_reader, buffer_of_reader) =
            (Arc::clone(&seen), Arc::clone(&clock), Arc::clone(&buffer));
        let of_producer = producer.clone();
        let clock_of_producer = Arc::clone(&clock);
        two_roles(
            main,
            move || {
                for _ in 0..2 {
                    assert_eq!(of_producer.write(&clock_of_producer), LaneWrite::Written);
                }
            },
            move || {
                let mut taken = Seen::default();
                let moment = clock_of_reader.fetch_add(1, Ordering::SeqCst) + 1;
                taken.collect(&buffer_of_reader);
                let first = taken.records.len();
                taken.collect(&buffer_of_reader);
                assert!(
                    taken.records[first..].iter().all(|record| record.2 >= moment),
                    "a late record: {:?}",
                    taken.records
                );
                *of_reader.lock().unwrap() = (taken, first);
            },
        );
        let (mut taken, first) = std::mem::take(&mut *seen.lock().unwrap());
        taken.collect(&buffer);
        taken.check(buffer.totals());
        assert_eq!(taken.records.len(), 2);
        match first {
            0 => "nothing at first",
            2 => "all at once",
            _ => "in parts",
        }
    });
}

#[test]
fn take_against_write_both_spawned() {
    take_against_write("take against write, both spawned", MainIs::Nobody);
}

#[test]
fn take_against_write_reader_on_main() {
    take_against_write("take against write, reader on main", MainIs::Reader);
}

#[test]
fn take_against_write_producer_on_main() {
    take_against_write("take against write, producer on main", MainIs::Producer);
}

/// A thread ends while the reader takes: the last take has all it wrote, and its lane goes.
///
/// Mutants: those of a take.
fn end_of_a_thread(name: &str, main: MainIs) {
    explore(name, 100, &["found alive", "found dead"], move || {
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let seen = Arc::new(StdMutex::new(Seen::default()));
        let (of_reader, buffer_of_reader) = (Arc::clone(&seen), Arc::clone(&buffer));
        two_roles(
            main,
            move || {
                // The first write has the lane's lock and the second has not.
                for _ in 0..2 {
                    assert_eq!(producer.write(&clock), LaneWrite::Written);
                }
                producer.end();
            },
            move || of_reader.lock().unwrap().collect(&buffer_of_reader),
        );
        let mut taken = std::mem::take(&mut *seen.lock().unwrap());
        let found = taken.ended;
        if found == 1 {
            assert_eq!(taken.records.len(), 2, "the last take has everything");
        }
        taken.collect(&buffer);
        taken.check(buffer.totals());
        assert_eq!((taken.records.len(), taken.ended, buffer.lane_count()), (2, 1, 0));
        if found == 1 { "found dead" } else { "found alive" }
    });
}

#[test]
fn end_of_a_thread_both_spawned() {
    end_of_a_thread("end of a thread, both spawned", MainIs::Nobody);
}

#[test]
fn end_of_a_thread_reader_on_main() {
    end_of_a_thread("end of a thread, reader on main", MainIs::Reader);
}

/// The session is closed while a thread writes: what is written before is in the last take, what comes after is not counted.
fn close_against_write(name: &str, main: MainIs) {
    explore(name, 1_000, &["both", "first", "none"], move || {
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let seen = Arc::new(StdMutex::new((Seen::default(), BufferTotals::default())));
        let (of_reader, buffer_of_reader) = (Arc::clone(&seen), Arc::clone(&buffer));
        two_roles(
            main,
            move || {
                let first = producer.write(&clock);
                let second = producer.write(&clock);
                assert!(first == LaneWrite::Written || second == LaneWrite::Disabled, "{first:?} {second:?}");
            },
            move || {
                buffer_of_reader.close();
                let mut taken = Seen::default();
                taken.collect(&buffer_of_reader);
                *of_reader.lock().unwrap() = (taken, buffer_of_reader.totals());
            },
        );
        let (mut taken, totals) = std::mem::take(&mut *seen.lock().unwrap());
        taken.check(totals);
        let last = taken.records.len();
        taken.collect(&buffer);
        assert_eq!((taken.records.len(), buffer.totals(), buffer.held_bytes()), (last, totals, 0));
        ["none", "first", "both"][last]
    });
}

#[test]
fn close_against_write_both_spawned() {
    close_against_write("close against write, both spawned", MainIs::Nobody);
}

#[test]
fn close_against_write_reader_on_main() {
    close_against_write("close against write, reader on main", MainIs::Reader);
}

/// One chunk of capacity, and a thread that needs two: it waits, and the reader's release lets it go on. No wake-up is lost on either side, or loom
/// finds all asleep.
///
/// Mutant: release_without_wake.
fn wait_for_capacity(name: &str, main: MainIs) {
    explore(name, 1_000, &["done"], move || {
        let bell = Arc::new(Bell::default());
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::clone(&bell) as _);
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let buffer_of_reader = Arc::clone(&buffer);
        two_roles(
            main,
            move || {
                for _ in 0..2 {
                    assert_eq!(producer.write(&clock), LaneWrite::Written);
                }
                producer.end();
            },
            move || {
                let mut taken = Seen::default();
                while taken.records.len() < 2 {
                    bell.wait();
                    taken.collect(&buffer_of_reader);
                }
                taken.collect(&buffer_of_reader);
                taken.check(buffer_of_reader.totals());
                assert_eq!(buffer_of_reader.totals(), BufferTotals { attempts: 2, drops: 0 });
            },
        );
        assert_eq!(buffer.waiting_count(), 0);
        "done"
    });
}

#[test]
fn wait_for_capacity_both_spawned() {
    wait_for_capacity("wait for capacity, both spawned", MainIs::Nobody);
}

#[test]
fn wait_for_capacity_producer_on_main() {
    wait_for_capacity("wait for capacity, producer on main", MainIs::Producer);
}

/// Two threads wait, in an order that is known, and capacity for both is freed before either runs: the first wakes the second, and nobody overtakes.
///
/// Mutant: no_chained_wake.
#[test]
fn chain_of_wake_ups() {
    explore("chain of wake-ups", 1_000, &["done"], || {
        let buffer = EventBuffer::new(BufferingMode::Block, 2 * RECORD_BYTES, Arc::new(Silent));
        let clock = Arc::new(AtomicU64::new(1));
        let filler = Producer::new(&buffer, 1);
        for _ in 0..2 {
            assert_eq!(filler.write(&clock), LaneWrite::Written);
        }
        let waiters: Vec<_> = (2..4).map(|id| Producer::new(&buffer, id)).collect();
        // Both are queued before anything runs.
        for waiter in &waiters {
            let guard = waiter.thread.enter();
            assert_eq!(waiter.lane.write(&guard, 1, &Record::new(0, &[])), LaneWrite::Blocked);
        }
        assert_eq!(buffer.waiting_count(), 2);
        let threads: Vec<_> = waiters
            .iter()
            .map(|waiter| {
                let (waiter, clock, buffer) = (waiter.clone(), Arc::clone(&clock), Arc::clone(&buffer));
                thread::spawn(move || {
                    waiter.thread.park();
                    assert_eq!(waiter.write(&clock), LaneWrite::Written);
                    buffer.waiting_count()
                })
            })
            .collect();
        let mut taken = Seen::default();
        taken.collect(&buffer);
        for thread in threads {
            thread.join().unwrap();
        }
        taken.collect(&buffer);
        taken.check(buffer.totals());
        assert_eq!(taken.records.len(), 4);
        "done"
    });
}

/// The session aborts while a thread waits, or is about to: it gives its event up as one counted drop, whoever comes first.
///
/// Mutant: abort_without_wake.
fn abort_against_wait(name: &str, main: MainIs) {
    explore(name, 20, &["done"], move || {
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let buffer_of_aborter = Arc::clone(&buffer);
        two_roles(
            main,
            move || {
                assert_eq!(producer.write(&clock), LaneWrite::Written);
                assert_eq!(producer.write(&clock), LaneWrite::Dropped);
            },
            move || buffer_of_aborter.abort(),
        );
        buffer.close();
        let mut taken = Seen::default();
        taken.collect(&buffer);
        taken.check(buffer.totals());
        assert_eq!(buffer.totals(), BufferTotals { attempts: 2, drops: 1 });
        "done"
    });
}

#[test]
fn abort_against_wait_both_spawned() {
    abort_against_wait("abort against wait, both spawned", MainIs::Nobody);
}

#[test]
fn abort_against_wait_producer_on_main() {
    abort_against_wait("abort against wait, producer on main", MainIs::Producer);
}

/// A stop on one thread aborts while the drain closes and takes the rest: a waiting event is counted once, and the last take knows of it.
#[test]
fn abort_against_close() {
    explore("abort against close", 1_000, &["counted", "not counted"], || {
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        assert_eq!(producer.write(&clock), LaneWrite::Written);
        let of_producer = producer.clone();
        let writer = thread::spawn(move || of_producer.write(&clock));
        let buffer_of_aborter = Arc::clone(&buffer);
        let aborter = thread::spawn(move || buffer_of_aborter.abort());
        buffer.close();
        let mut taken = Seen::default();
        taken.collect(&buffer);
        let totals = buffer.totals();
        taken.check(totals);
        let outcome = writer.join().unwrap();
        aborter.join().unwrap();
        assert_eq!(buffer.totals(), totals);
        match outcome {
            LaneWrite::Dropped => {
                assert_eq!(totals, BufferTotals { attempts: 2, drops: 1 });
                "counted"
            }
            LaneWrite::Disabled => {
                assert_eq!(totals, BufferTotals { attempts: 1, drops: 0 });
                "not counted"
            }
            other => panic!("{other:?}"),
        }
    });
}

//! The reader sleeps: no ring that it needs is lost on the way, or loom finds all asleep.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diagport_buffer::{BufferTotals, BufferingMode, EventBuffer, LaneWrite, ReaderSignal};
use loom::sync::atomic::AtomicU64;

use crate::explore::{Extent, MainIs, arrangements, explore, run_roles};
use crate::roles::{Producer, RECORD_BYTES, Seen};

/// Rounds until one says that it is the last; how many there were. Never wakes by itself: loom's condition variables have no time-outs.
fn sleep_until(signal: &ReaderSignal, mut round: impl FnMut() -> bool) -> usize {
    for rounds in 1.. {
        signal.arm();
        if round() {
            return rounds;
        }
        signal.wait(Duration::ZERO, Duration::from_secs(3_600));
    }
    unreachable!("the counter has no end")
}

/// `produce` on one thread, and on the other a reader that sleeps until `is_over`; then it has `records`.
fn against_sleep(
    name: &str,
    main: MainIs,
    records: usize,
    produce: fn(&Producer, &AtomicU64),
    is_over: fn(&Seen, &EventBuffer) -> bool,
) {
    const OUTCOMES: [&str; 3] = ["1 round", "2 rounds", "3 rounds"];
    explore(name, &Extent::bounded(500), &OUTCOMES, move || {
        let signal = Arc::new(ReaderSignal::default());
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::clone(&signal) as _);
        let producer = Producer::new(&buffer, 1);
        let rounds = Arc::new(Mutex::new(0));
        let of_reader = Arc::clone(&rounds);
        run_roles(main, vec![Box::new(move || produce(&producer, &AtomicU64::new(1)))], move || {
            let mut taken = Seen::default();
            let rounds = sleep_until(&signal, || {
                taken.collect(&buffer);
                is_over(&taken, &buffer)
            });
            assert_eq!(taken.records.len(), records);
            *of_reader.lock().unwrap() = rounds;
        });
        let rounds = *rounds.lock().unwrap();
        OUTCOMES[rounds - 1]
    });
}

/// A thread writes while the reader sleeps, or is about to.
///
/// Mutants: wait_forgets, and those of a take.
fn record_against_sleep(name: &str, main: MainIs) {
    let produce = |producer: &Producer, clock: &AtomicU64| {
        for _ in 0..2 {
            assert_eq!(producer.write(clock), LaneWrite::Written);
        }
    };
    against_sleep(name, main, 2, produce, |taken, _| taken.records.len() == 2);
}

arrangements!(record_against_sleep);

/// A thread ends while the reader sleeps, or is about to: its lane goes.
///
/// Mutants: end_without_fence, wait_forgets, and those of a take.
fn end_against_sleep(name: &str, main: MainIs) {
    let produce = |producer: &Producer, clock: &AtomicU64| {
        assert_eq!(producer.write(clock), LaneWrite::Written);
        producer.end();
    };
    against_sleep(name, main, 1, produce, |_, buffer| buffer.lane_count() == 0);
}

arrangements!(end_against_sleep);

/// One chunk of capacity, and a thread that needs two: it waits, and the reader's release lets it go on. No wake-up is lost on either side, or loom
/// finds all asleep.
///
/// Mutants: release_without_wake, wait_forgets.
fn wait_for_capacity(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(1_000), &["done"], move || {
        let signal = Arc::new(ReaderSignal::default());
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::clone(&signal) as _);
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let buffer_of_reader = Arc::clone(&buffer);
        run_roles(
            main,
            vec![Box::new(move || {
                for _ in 0..2 {
                    assert_eq!(producer.write(&clock), LaneWrite::Written);
                }
                producer.end();
            })],
            move || {
                let mut taken = Seen::default();
                sleep_until(&signal, || {
                    taken.collect(&buffer_of_reader);
                    taken.records.len() == 2
                });
                taken.collect(&buffer_of_reader);
                taken.check(buffer_of_reader.totals());
                assert_eq!(buffer_of_reader.totals(), BufferTotals { attempts: 2, drops: 0 });
            },
        );
        assert_eq!(buffer.waiting_count(), 0);
        "done"
    });
}

arrangements!(wait_for_capacity);

//! Threads wait for capacity, and are let go.

use std::sync::{Arc, Mutex};

use diagport_buffer::{BufferTotals, BufferingMode, EventBuffer, LaneWrite, Parking, Record};
use loom::sync::atomic::AtomicU64;

use crate::explore::{Extent, MainIs, arrangements, explore, run_roles};
use crate::roles::{Producer, RECORD_BYTES, Seen, Silent};

/// Two threads wait, in an order that is known, and capacity for both is freed before either runs: the first wakes the second.
///
/// Mutant: no_chained_wake.
fn chain_of_wake_ups(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(1_000), &["done"], move || {
        let buffer = EventBuffer::new(BufferingMode::Block, 2 * RECORD_BYTES, Arc::new(Silent));
        let clock = Arc::new(AtomicU64::new(1));
        let filler = Producer::new(&buffer, 1);
        for _ in 0..2 {
            assert_eq!(filler.write(&clock), LaneWrite::Written);
        }
        // Both are queued before anything runs.
        let waiters = (2..4).map(|id| {
            let waiter = Producer::new(&buffer, id);
            assert_eq!(waiter.try_write(&clock), LaneWrite::Blocked);
            let clock = Arc::clone(&clock);
            Box::new(move || {
                waiter.thread.park();
                assert_eq!(waiter.write(&clock), LaneWrite::Written);
            }) as _
        });
        let waiters = waiters.collect();
        assert_eq!(buffer.waiting_count(), 2);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (of_reader, buffer_of_reader) = (Arc::clone(&seen), Arc::clone(&buffer));
        run_roles(main, waiters, move || of_reader.lock().unwrap().collect(&buffer_of_reader));
        let mut taken = std::mem::take(&mut *seen.lock().unwrap());
        taken.collect(&buffer);
        taken.check(buffer.totals());
        assert_eq!(taken.records.len(), 4);
        "done"
    });
}

arrangements!(chain_of_wake_ups);

/// A thread waits for a chunk of three records, and a round frees one record's room and no more: its end lets the thread go on with that.
///
/// Mutant: no_end_of_round.
fn end_of_a_round_against_waiter(name: &str, main: MainIs) {
    explore(name, &Extent::all(3), &["done"], move || {
        let buffer = EventBuffer::new(BufferingMode::Block, 48 * RECORD_BYTES, Arc::new(Silent));
        let clock = Arc::new(AtomicU64::new(1));
        // One that does not wait fills it: a record of four records' size, fourteen chunks of three, and one of what is left.
        let mut side = diagport_buffer::Producer::new(1, String::new(), Parking::Never);
        let filler = buffer.add_lane(side.thread()).unwrap();
        let large = [0; 3 * RECORD_BYTES];
        assert_eq!(filler.write(&mut side.enter(), 1, &Record::new(0, &large)), LaneWrite::Written);
        let mut small = 0;
        while filler.write(&mut side.enter(), 1, &Record::new(0, &[])) == LaneWrite::Written {
            small += 1;
        }
        assert_eq!(small, 14 * 3 + 1);
        let waiter = Producer::new(&buffer, 2);
        assert_eq!(waiter.try_write(&clock), LaneWrite::Blocked);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (of_reader, buffer_of_reader) = (Arc::clone(&taken), Arc::clone(&buffer));
        run_roles(
            main,
            vec![Box::new(move || {
                waiter.thread.park();
                assert_eq!(waiter.write(&clock), LaneWrite::Written);
            })],
            move || {
                let mut taken = of_reader.lock().unwrap();
                buffer_of_reader.collect(|take| taken.append(take.chunks));
                buffer_of_reader.release(taken.pop().unwrap());
                buffer_of_reader.end_round();
            },
        );
        let taken = std::mem::take(&mut *taken.lock().unwrap());
        taken.into_iter().for_each(|chunk| buffer.release(chunk));
        assert_eq!((buffer.waiting_count(), buffer.totals().drops), (0, 1));
        "done"
    });
}

arrangements!(end_of_a_round_against_waiter);

/// A thread waits for the only chunk, and another comes while it is freed: the one that waited has it, at its first look.
///
/// Mutant: overtake.
fn newcomer_against_waiter(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(500), &["queued", "found room"], move || {
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::new(Silent));
        let clock = Arc::new(AtomicU64::new(1));
        let filler = Producer::new(&buffer, 1);
        assert_eq!(filler.write(&clock), LaneWrite::Written);
        let (waiter, newcomer) = (Producer::new(&buffer, 2), Producer::new(&buffer, 3));
        assert_eq!(waiter.try_write(&clock), LaneWrite::Blocked);
        let found_room = Arc::new(Mutex::new(false));
        let of_newcomer = Arc::clone(&found_room);
        let clock_of_waiter = Arc::clone(&clock);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (of_reader, buffer_of_reader) = (Arc::clone(&seen), Arc::clone(&buffer));
        run_roles(
            main,
            vec![
                Box::new(move || {
                    waiter.thread.park();
                    assert_eq!(waiter.try_write(&clock_of_waiter), LaneWrite::Written);
                }),
                // There is room once the same take has emptied the waiter's lane too.
                Box::new(move || {
                    *of_newcomer.lock().unwrap() = newcomer.try_write(&clock) == LaneWrite::Written
                }),
            ],
            move || of_reader.lock().unwrap().collect(&buffer_of_reader),
        );
        let found_room = *found_room.lock().unwrap();
        assert_eq!(buffer.waiting_count(), usize::from(!found_room));
        buffer.close();
        let mut taken = std::mem::take(&mut *seen.lock().unwrap());
        taken.collect(&buffer);
        taken.check(buffer.totals());
        assert_eq!(buffer.totals(), BufferTotals { attempts: 3, drops: u64::from(!found_room) });
        if found_room { "found room" } else { "queued" }
    });
}

arrangements!(newcomer_against_waiter);

/// The session aborts while a thread waits, or is about to: it gives its event up as one counted drop, whoever comes first.
///
/// Mutant: abort_without_wake.
fn abort_against_wait(name: &str, main: MainIs) {
    explore(name, &Extent::all(5), &["done"], move || {
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let buffer_of_aborter = Arc::clone(&buffer);
        run_roles(
            main,
            vec![Box::new(move || {
                assert_eq!(producer.write(&clock), LaneWrite::Written);
                assert_eq!(producer.write(&clock), LaneWrite::Dropped);
            })],
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

arrangements!(abort_against_wait);

/// A stop on one thread aborts while the drain closes and takes the rest: a waiting event is counted once, and the last take knows of it.
///
/// Mutant: abandoned_uncounted.
fn abort_against_close(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(1_000), &["counted", "not counted"], move || {
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        assert_eq!(producer.write(&clock), LaneWrite::Written);
        let (buffer_of_aborter, buffer_of_reader) = (Arc::clone(&buffer), Arc::clone(&buffer));
        let outcome = Arc::new(Mutex::new(None));
        let of_producer = Arc::clone(&outcome);
        let last_totals = Arc::new(Mutex::new(BufferTotals::default()));
        let of_reader = Arc::clone(&last_totals);
        run_roles(
            main,
            vec![
                Box::new(move || buffer_of_aborter.abort()),
                Box::new(move || *of_producer.lock().unwrap() = Some(producer.write(&clock))),
            ],
            move || {
                buffer_of_reader.close();
                let mut taken = Seen::default();
                taken.collect(&buffer_of_reader);
                let totals = buffer_of_reader.totals();
                taken.check(totals);
                *of_reader.lock().unwrap() = totals;
            },
        );
        let totals = *last_totals.lock().unwrap();
        assert_eq!(buffer.totals(), totals);
        let outcome = *outcome.lock().unwrap();
        match outcome {
            Some(LaneWrite::Dropped) => {
                assert_eq!(totals, BufferTotals { attempts: 2, drops: 1 });
                "counted"
            }
            Some(LaneWrite::Disabled) => {
                assert_eq!(totals, BufferTotals { attempts: 1, drops: 0 });
                "not counted"
            }
            other => panic!("{other:?}"),
        }
    });
}

arrangements!(abort_against_close);

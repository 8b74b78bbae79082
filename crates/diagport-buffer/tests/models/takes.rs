//! A reader takes while a thread writes, ends or is closed out.

use std::sync::{Arc, Mutex};

use diagport_buffer::{BufferTotals, BufferingMode, EventBuffer, LaneWrite};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::explore::{Extent, MainIs, arrangements, explore, run_roles};
use crate::roles::{Producer, RECORD_BYTES, Seen, Silent};

/// A thread writes while the reader takes. Nothing is read while it is written, nothing comes twice or out of order, and a record stamped
/// before the reader's moment is in its take.
///
/// Mutants: take_without_revoke, take_inside_gate, gate_without_fence, reader_without_fence, leave_relaxed, give_back_relaxed.
fn take_against_write(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(1_000), &["all at once", "in parts", "nothing at first"], move || {
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(10));
        let seen = Arc::new(Mutex::new((Seen::default(), 0)));
        let (of_reader, clock_of_reader, buffer_of_reader) =
            (Arc::clone(&seen), Arc::clone(&clock), Arc::clone(&buffer));
        let of_producer = producer;
        let clock_of_producer = Arc::clone(&clock);
        run_roles(
            main,
            vec![Box::new(move || {
                for _ in 0..2 {
                    assert_eq!(of_producer.write(&clock_of_producer), LaneWrite::Written);
                }
            })],
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

arrangements!(take_against_write);

/// A thread ends while the reader takes: the last take has all it wrote, and its lane goes.
///
/// Mutants: those of a take.
fn end_of_a_thread(name: &str, main: MainIs) {
    explore(name, &Extent::all(1_000), &["found alive", "found dead"], move || {
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (of_reader, buffer_of_reader) = (Arc::clone(&seen), Arc::clone(&buffer));
        run_roles(
            main,
            vec![Box::new(move || {
                // The first write has the lane's lock and the second has not.
                for _ in 0..2 {
                    assert_eq!(producer.write(&clock), LaneWrite::Written);
                }
                producer.end();
            })],
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

arrangements!(end_of_a_thread);

/// The session is closed while a thread writes: what is written before is in the last take, what comes after is not written and not counted.
///
/// Mutants: close_without_mark, and those of a take.
fn close_against_write(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(1_000), &["both", "first", "none"], move || {
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(1));
        let closed = Arc::new(AtomicBool::new(false));
        let of_closer = Arc::clone(&closed);
        let seen = Arc::new(Mutex::new((Seen::default(), BufferTotals::default())));
        let (of_reader, buffer_of_reader) = (Arc::clone(&seen), Arc::clone(&buffer));
        run_roles(
            main,
            vec![Box::new(move || {
                let first = producer.write(&clock);
                let is_closed = closed.load(Ordering::Acquire);
                let second = producer.write(&clock);
                let over = is_closed || first == LaneWrite::Disabled;
                assert!(!over || second == LaneWrite::Disabled, "{first:?} {second:?}");
            })],
            move || {
                buffer_of_reader.close();
                of_closer.store(true, Ordering::Release);
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

arrangements!(close_against_write);

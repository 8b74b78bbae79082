//! The protocols between producers, reader, waiters and the end, checked by `cargo xtask loom` over all schedules of up to three preemptions, and
//! over all schedules where a model says so.
//!
//! Each model runs with its roles on threads of their own, and with each of them on the model's main thread; says how many schedules it
//! explored, and fails if that are too few or if an outcome that should occur never did. Each names the mutants (one ordering or step left out, see
//! `sync::mutant`) under which it must fail; `cargo xtask loom` wants every model failed by one at least, and every mutant noticed.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "models talk to the person who runs them"
)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::sync::{Arc, Mutex as StdMutex};

use diagport_buffer::{
    BufferTotals, BufferingMode, EventBuffer, Lane, LaneWrite, Liveness, Parking, ProducerThread, Record,
    WakeReader, WakeReason,
};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
struct Producer {
    side: RefCell<diagport_buffer::Producer>,
    thread: Arc<ProducerThread>,
    lane: Arc<Lane>,
}

impl Producer {
    fn new(buffer: &Arc<EventBuffer>, id: u64) -> Self {
        let side = diagport_buffer::Producer::new(id, String::new(), Parking::Allowed);
        let lane = buffer.add_lane(side.thread()).unwrap();
        Self { thread: Arc::clone(side.thread()), side: RefCell::new(side), lane }
    }

    /// One event, stamped by `clock`; never waits.
    fn try_write(&self, clock: &AtomicU64) -> LaneWrite {
        let mut side = self.side.borrow_mut();
        let mut guard = side.enter();
        let stamp = clock.load(Ordering::SeqCst);
        if self.lane.write_in_place(&mut guard, stamp, 0, |_| {}) {
            return LaneWrite::Written;
        }
        self.lane.write(&mut guard, stamp, &Record::new(0, &[]))
    }

    /// One event, stamped by `clock`; waits if it must.
    fn write(&self, clock: &AtomicU64) -> LaneWrite {
        loop {
            let outcome = self.try_write(clock);
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

/// Preemptions of a schedule in most models.
const BOUND: Option<usize> = Some(3);

/// How far a model is explored.
struct Extent {
    /// Times that a schedule may take the processor from a thread that could go on; none is no bound.
    preemptions: Option<usize>,
    at_least: usize,
}

impl Extent {
    /// All schedules of up to three preemptions.
    fn bounded(at_least: usize) -> Self {
        Self { preemptions: BOUND, at_least }
    }

    fn all(at_least: usize) -> Self {
        Self { preemptions: None, at_least }
    }
}

/// Explores `model`, which answers what happened in its schedule.
fn explore(
    name: &str,
    extent: &Extent,
    outcomes: &[&str],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    let mistake = std::env::var("DIAGPORT_MUTANT").ok();
    if let Some(mistake) = &mistake {
        diagport_buffer::plant_mistake(mistake);
    }
    let schedules = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(StdMutex::new(BTreeSet::new()));
    let (counted, noted) = (Arc::clone(&schedules), Arc::clone(&seen));
    let mut builder = loom::model::Builder::new();
    // A mistake need only be found, and two preemptions suffice for those there are.
    builder.preemption_bound = if mistake.is_some() { Some(2) } else { extent.preemptions };
    builder.max_branches = 20_000;
    builder.check(move || {
        counted.fetch_add(1, StdOrdering::Relaxed);
        let outcome = model();
        noted.lock().unwrap().insert(outcome);
    });
    let (schedules, seen) = (schedules.load(StdOrdering::Relaxed), seen.lock().unwrap().clone());
    let bound = extent.preemptions.map_or_else(String::new, |most| format!(" of up to {most} preemptions"));
    println!("loom: {name}: all {schedules} schedules{bound}, outcomes {seen:?}");
    if mistake.is_some() {
        // What must fail is the model: a mistake that only makes it smaller went unnoticed.
        return;
    }
    assert!(schedules >= extent.at_least, "{name}: only {schedules} schedules were explored");
    assert_eq!(seen, outcomes.iter().copied().collect(), "{name}: outcomes");
}

/// Which role has the model's main thread: loom may overlook an access of one that has it.
#[derive(Clone, Copy)]
enum MainIs {
    Nobody,
    Reader,
    /// The last of them.
    Producer,
}

/// Runs `producers` and `reader` at once.
fn run_roles(
    main: MainIs,
    mut producers: Vec<Box<dyn FnOnce() + Send>>,
    reader: impl FnOnce() + Send + 'static,
) {
    let here: Option<Box<dyn FnOnce()>> = match main {
        MainIs::Producer => producers.pop().map(|producer| producer as _),
        MainIs::Nobody | MainIs::Reader => None,
    };
    let mut threads: Vec<_> = producers.into_iter().map(thread::spawn).collect();
    match main {
        MainIs::Reader => reader(),
        MainIs::Nobody | MainIs::Producer => threads.push(thread::spawn(reader)),
    }
    if let Some(role) = here {
        role();
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The tests of one model: each arrangement of its roles.
macro_rules! arrangements {
    ($model:ident) => {
        mod $model {
            use super::MainIs;

            #[test]
            fn all_spawned() {
                super::$model(concat!(stringify!($model), "::all_spawned"), MainIs::Nobody);
            }

            #[test]
            fn reader_on_main() {
                super::$model(concat!(stringify!($model), "::reader_on_main"), MainIs::Reader);
            }

            #[test]
            fn producer_on_main() {
                super::$model(concat!(stringify!($model), "::producer_on_main"), MainIs::Producer);
            }
        }
    };
}

/// A thread writes while the reader takes. Nothing is read while it is written, nothing comes twice or out of order, and a record stamped
/// before the reader's moment is in its take.
///
/// Mutants: take_without_revoke, take_inside_gate, gate_without_fence, reader_without_fence, leave_relaxed, give_back_relaxed.
fn take_against_write(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(1_000), &["all at once", "in parts", "nothing at first"], move || {
        let buffer = EventBuffer::new(BufferingMode::Drop, 64 * RECORD_BYTES, Arc::new(Silent));
        let producer = Producer::new(&buffer, 1);
        let clock = Arc::new(AtomicU64::new(10));
        let seen = Arc::new(StdMutex::new((Seen::default(), 0)));
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
        let seen = Arc::new(StdMutex::new(Seen::default()));
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
        let seen = Arc::new(StdMutex::new((Seen::default(), BufferTotals::default())));
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

/// One chunk of capacity, and a thread that needs two: it waits, and the reader's release lets it go on. No wake-up is lost on either side, or loom
/// finds all asleep.
///
/// Mutant: release_without_wake.
fn wait_for_capacity(name: &str, main: MainIs) {
    explore(name, &Extent::bounded(1_000), &["done"], move || {
        let bell = Arc::new(Bell::default());
        let buffer = EventBuffer::new(BufferingMode::Block, RECORD_BYTES, Arc::clone(&bell) as _);
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

arrangements!(wait_for_capacity);

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
        let seen = Arc::new(StdMutex::new(Seen::default()));
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
        let found_room = Arc::new(StdMutex::new(false));
        let of_newcomer = Arc::clone(&found_room);
        let clock_of_waiter = Arc::clone(&clock);
        let seen = Arc::new(StdMutex::new(Seen::default()));
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
        let outcome = Arc::new(StdMutex::new(None));
        let of_producer = Arc::clone(&outcome);
        let last_totals = Arc::new(StdMutex::new(BufferTotals::default()));
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

//! Threads that come and go.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::thread;

use diagport_session::WriteOutcome;
use support::*;

/// W18 and invariant 9.
// spec-test: SES-THREAD-1
#[test]
fn invariant_9_ten_thousand_short_threads_leave_nothing_behind() {
    for block in [true, false] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let session = if block { block_session(&pipe, 1 << 20) } else { drop_session(&pipe, 1 << 20) };
        let peer = MemoryPeer::reading();
        session.start(peer.sink());
        let mut most_lanes = 0;
        for round in 0..200 {
            thread::scope(|scope| {
                for worker in 0..50 {
                    let tick = &tick;
                    scope.spawn(move || {
                        for index in 0..4 {
                            let _ = tick.write((index, round * 50 + worker, "short"));
                        }
                    });
                }
            });
            most_lanes = most_lanes.max(session.lane_count());
        }
        until("the lanes of ended threads are gone", || session.lane_count() == 0);
        let (reading, end) = stop_and_account(&session, &peer);
        assert_eq!(end.statistics.emitted, 40_000);
        println!("block {block}: most lanes {most_lanes}, dropped {}", end.statistics.dropped);
        if block {
            assert_eq!(end.statistics.dropped, 0);
            assert_eq!(reading.indexes().len(), 10_000);
        }
        let ids = reading.events.iter().map(|event| event.capture_thread).max().unwrap();
        assert!(ids <= 5_000, "capture ids are taken over: {ids}");
    }
}

/// Readers keep 5,000 ids: with more live threads than that, some share, and the account of each is exact nevertheless.
// spec-test: SES-NUM-4, SES-LOSS-2
#[test]
fn invariant_1_more_live_threads_than_capture_ids() {
    const THREADS: usize = 5_200;
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, 256 << 10);
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    let (all_have_begun, lost) = (Barrier::new(THREADS), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let body = || {
                let mut own = 0;
                for index in 0..6 {
                    own += u64::from(tick.write((index, thread_id(), "")) == WriteOutcome::Dropped);
                    if index == 1 {
                        all_have_begun.wait();
                    }
                }
                if own > 0 {
                    assert_eq!(lost.lock().unwrap().insert(thread_id() as u64, own), None);
                }
                // None ends before all have written, so that no id of the system comes back.
                all_have_begun.wait();
            };
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, body).unwrap();
        }
    });
    let (reading, end) = stop_and_account(&session, &peer);
    assert_eq!(end.statistics.emitted, 6 * THREADS as u64);
    assert_eq!(reading.lost_by_thread, lost.into_inner().unwrap());
    let ids = reading.events.iter().map(|event| event.capture_thread).max().unwrap();
    println!("{} of {} lost, {ids} ids", reading.lost, end.statistics.emitted);
    assert!(ids <= 5_000, "{ids}");
}

thread_local! {
    static LAST_WORDS: RefCell<Option<LastWords>> = const { RefCell::new(None) };
}

struct LastWords(Tick);

impl Drop for LastWords {
    fn drop(&mut self) {
        // By now the thread's own state may be gone.
        assert_eq!(self.0.write((1, thread_id(), "bye")), WriteOutcome::Written);
    }
}

// spec-test: SES-THREAD-2
#[test]
fn invariant_1_events_of_a_thread_that_is_being_torn_down_count() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, 1 << 20);
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    for first in ["state", "words"] {
        let tick = tick.clone();
        thread::spawn(move || {
            // Destructors run in one order or the other; both are tried.
            if first == "state" {
                tick.write((0, thread_id(), "hello"));
            }
            LAST_WORDS.set(Some(LastWords(tick.clone())));
            tick.write((0, thread_id(), "hello"));
        })
        .join()
        .unwrap();
    }
    let (reading, end) = stop_and_account(&session, &peer);
    assert_eq!((end.statistics.emitted, end.statistics.dropped), (5, 0));
    for event in reading.ticks() {
        assert_eq!(event.payload[8..16], event.thread_id.to_le_bytes());
    }
}

thread_local! {
    static LONG_GOODBYE: RefCell<Option<LongGoodbye>> = const { RefCell::new(None) };
}

struct LongGoodbye(Tick);

impl Drop for LongGoodbye {
    fn drop(&mut self) {
        // Far more than the budget: it has to wait for the drain, as any thread.
        (0..500)
            .for_each(|index| assert_eq!(self.0.write((index, thread_id(), "bye")), WriteOutcome::Written));
    }
}

/// A destructor of a thread may have to wait for capacity like the thread itself.
// spec-test: SES-THREAD-2, SES-BLOCK-1
#[test]
fn invariant_2_a_thread_that_is_being_torn_down_loses_nothing_in_block_mode() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (session, peer) = (block_session(&pipe, 4 << 10), MemoryPeer::reading());
    session.start(peer.sink());
    let threads = (0..8).map(|number| {
        let tick = tick.clone();
        thread::spawn(move || {
            // Destructors run in one order or the other; both are tried.
            if number % 2 == 0 {
                tick.write((-1, thread_id(), "hello"));
            }
            LONG_GOODBYE.set(Some(LongGoodbye(tick.clone())));
            tick.write((-1, thread_id(), "hello"));
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    let (reading, end) = stop_and_account(&session, &peer);
    assert_eq!((end.statistics.written, end.statistics.dropped), (8 * 501 + 4, 0));
    for (thread, indexes) in reading.indexes() {
        assert!(
            indexes.iter().copied().filter(|index| *index >= 0).eq(0..500),
            "thread {thread}: {indexes:?}"
        );
    }
}

/// The kernel's own way to say which id comes next, for programs that restore processes; root may write it.
#[cfg(target_os = "linux")]
const LAST_ID: &str = "/proc/sys/kernel/ns_last_pid";

/// Threads one after the other that all have the same id of the system, each with losses: the account of that id is the sum, and numbers
/// never fall (`read` looks at all of them).
// spec-test: SES-LOSS-2, SES-NUM-5, SES-THREAD-3
#[test]
#[cfg(target_os = "linux")]
fn invariant_9_numbers_are_right_when_ids_of_the_system_come_back() {
    use std::io::Write as _;
    const LIVES: u64 = 8;
    for block in [false, true] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let session = if block { block_session(&pipe, 2_000) } else { drop_session(&pipe, 2_000) };
        let peer = MemoryPeer::reading();
        session.start(peer.sink());
        let live = |life: i64| {
            let counts =
                (0..200).map(|index| tick.write((index, life, "some text"))).fold((0, 0), |sum, outcome| {
                    (
                        sum.0 + u64::from(outcome == WriteOutcome::Written),
                        sum.1 + u64::from(outcome == WriteOutcome::Dropped),
                    )
                });
            (thread_id() as u64, counts)
        };
        let (wanted, mut counts) = thread::scope(|scope| scope.spawn(|| live(0)).join().unwrap());
        let (mut lives, mut others) = (1, BTreeMap::<u64, u64>::new());
        for _ in 0..200 {
            if lives == LIVES {
                break;
            }
            let asked = std::fs::OpenOptions::new().write(true).open(LAST_ID);
            if asked.and_then(|mut file| write!(file, "{}", wanted - 1)).is_err() {
                // Past the capture of the harness, like the skips of other tests.
                writeln!(
                    std::io::stderr(),
                    "skipped: ids of the system that come back: only root can ask for one"
                )
                .unwrap();
                break;
            }
            // Whoever else starts a thread just now may get the id.
            let (id, (written, dropped)) =
                thread::scope(|scope| scope.spawn(|| live(lives as i64)).join().unwrap());
            if id == wanted {
                lives += 1;
                counts = (counts.0 + written, counts.1 + dropped);
            } else {
                *others.entry(id).or_default() += dropped;
            }
        }
        let (reading, end) = stop_and_account(&session, &peer);
        let received = reading.ticks().filter(|event| event.thread_id == wanted).count() as u64;
        let lost = reading.lost_by_thread.get(&wanted).copied().unwrap_or(0);
        println!("block {block}: {lives} lives of thread {wanted}: {received} received, {lost} lost");
        assert_eq!((received, lost), counts, "block {block}: received and lost of the id in {lives} lives");
        for (id, dropped) in others {
            assert_eq!(reading.lost_by_thread.get(&id).copied().unwrap_or(0), dropped, "thread {id}");
        }
        assert!(!block || end.statistics.dropped == 0);
    }
}

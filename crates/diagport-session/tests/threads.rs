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

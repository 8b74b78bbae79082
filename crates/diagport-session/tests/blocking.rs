//! Block mode: nothing is lost while a reader reads, and nobody waits for one that does not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use diagport_session::{BufferingMode, EnableCause, EndReason, EventPipe, SessionConfig, WriteOutcome};
use support::*;

// spec-test: SES-BLOCK-1
#[test]
fn invariant_2_block_loses_nothing_at_a_tiny_budget() {
    for budget in [300, 4 << 10, 64 << 10] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let session = block_session(&pipe, budget);
        let peer = MemoryPeer::reading();
        session.start(peer.sink());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let id = thread_id();
                    (0..500)
                        .for_each(|index| assert_eq!(tick.write((index, id, "text")), WriteOutcome::Written));
                });
            }
        });
        let (reading, end) = stop_and_account(&session, &peer);
        assert_eq!((end.statistics.written, end.statistics.dropped, reading.infos()), (2_000, 0, 0));
        assert!(reading.indexes().values().all(|indexes| indexes.iter().copied().eq(0..500)));
    }
}

/// A Block session whose buffer is full, and whose threads are parked.
struct Parked {
    pipe: EventPipe,
    session: diagport_session::Session,
    peer: MemoryPeer,
    threads: Vec<thread::JoinHandle<()>>,
}

fn parked(threads: usize, change: impl FnOnce(&mut SessionConfig)) -> Parked {
    let (pipe, clock) = pipe();
    let tick = tick(&pipe);
    let mut config = config(BufferingMode::Block, 2_000);
    config.stall_limit = None;
    change(&mut config);
    let session = pipe.create_session(config).unwrap();
    let peer = MemoryPeer::new(Peer::Reads, Some(&clock));
    session.start(peer.sink());
    peer.wait_for_start();
    peer.hold(&tick);
    let threads = (0..threads)
        .map(|_| {
            let tick = tick.clone();
            thread::spawn(move || {
                while tick.write((0, thread_id(), "a text of some length")) == WriteOutcome::Written {}
            })
        })
        .collect::<Vec<_>>();
    until("all threads are parked", || session.waiting_count() == threads.len());
    peer.set(Peer::Stalls);
    Parked { pipe, session, peer, threads }
}

impl Parked {
    /// All threads have come back, and what was lost is counted.
    fn released(self, reason: EndReason) {
        let count = self.threads.len() as u64;
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let end = finish(&self.session);
        assert_eq!(end.reason, reason);
        assert_eq!(end.statistics.emitted, end.statistics.written + end.statistics.dropped);
        assert!(end.statistics.dropped >= count, "each gave up its event as a counted drop");
        let reading = read(&self.peer.bytes());
        assert!(reading.ticks().count() as u64 <= end.statistics.written);
    }
}

// spec-test: SES-STOP-1, SES-STOP-3
#[test]
fn invariant_5_a_stop_releases_parked_producers_at_once() {
    let parked = parked(8, |_| {});
    parked.session.request_stop();
    assert_eq!(parked.session.waiting_count(), 0, "on return already");
    parked.released(EndReason::StopGraceOver);
}

// spec-test: SES-FAIL-1
#[test]
fn invariant_5_a_vanished_reader_releases_parked_producers() {
    let parked = parked(8, |_| {});
    parked.peer.set(Peer::Closed);
    parked.released(EndReason::PeerClosed);
}

// spec-test: SES-FAIL-1
#[test]
fn invariant_5_a_failing_sink_releases_parked_producers() {
    let parked = parked(3, |_| {});
    parked.peer.set(Peer::Fails);
    parked.released(EndReason::SinkFailed("disk on fire".into()));
}

// spec-test: SES-FAIL-2
#[test]
fn invariant_5_the_stall_limit_releases_parked_producers() {
    parked(3, |config| config.stall_limit = Some(Duration::from_secs(30))).released(EndReason::Stalled);
}

// spec-test: SES-STOP-4
#[test]
fn invariant_5_an_abort_releases_parked_producers() {
    let parked = parked(3, |_| {});
    parked.session.abort("no reply could be sent");
    parked.released(EndReason::Aborted("no reply could be sent".into()));
}

/// The exit of the process: the pipe is shut down while a reader stands still.
// spec-test: SES-STOP-1, SES-STOP-5
#[test]
fn invariant_5_a_shutdown_releases_parked_producers() {
    let parked = parked(8, |_| {});
    parked.pipe.shutdown(PATIENCE);
    assert_eq!(parked.pipe.statistics().live_sessions, 0);
    parked.released(EndReason::StopGraceOver);
}

/// Two connections ask for the same stop, and the reader vanishes meanwhile: one end, whoever comes first.
// spec-test: SES-STOP-1, SES-FAIL-1
#[test]
fn invariant_5_stops_from_all_sides_release_parked_producers_once() {
    for round in 0..8 {
        // Both ends that are asked for here come, however long this thread is kept from its own part.
        let parked = parked(4, |config| config.stop_grace = Duration::MAX);
        let begin = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                let (session, begin) = (&parked.session, &begin);
                scope.spawn(move || {
                    begin.wait();
                    session.request_stop();
                    finish(session)
                });
            }
            begin.wait();
            parked.peer.set(if round % 2 == 0 { Peer::Closed } else { Peer::Reads });
        });
        assert_eq!(parked.pipe.statistics().live_sessions, 0);
        assert_eq!((parked.session.waiting_count(), parked.session.held_bytes()), (0, 0));
        let reason = finish(&parked.session).reason;
        if reason == EndReason::Stopped {
            account(&parked.peer, &finish(&parked.session));
        } else {
            assert_eq!(reason, EndReason::PeerClosed, "round {round}");
        }
        // The next session is not touched by any of that.
        let (next, peer) = (block_session(&parked.pipe, 2_000), MemoryPeer::reading());
        next.start(peer.sink());
        let tick = tick(&parked.pipe);
        (0..100).for_each(|index| assert_eq!(tick.write((index, -1, "next")), WriteOutcome::Written));
        let (reading, _) = stop_and_account(&next, &peer);
        assert!(reading.indexes()[&-1].iter().copied().eq(0..100));
        // Those that the reader let go before the stop came went on, up to the end of the next session.
        parked.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let sums = parked.pipe.statistics();
        assert_eq!(sums.emitted, sums.written + sums.dropped);
    }
}

// spec-test: SES-STOP-4
#[test]
fn an_abort_ends_a_stop_that_a_stalled_reader_holds_up() {
    let parked = parked(1, |config| config.stop_grace = Duration::MAX);
    parked.session.request_stop();
    parked.session.abort("the stop's own deadline");
    parked.released(EndReason::Aborted("the stop's own deadline".into()));
}

// spec-test: SES-FAIL-3
#[test]
fn invariant_14_a_panicking_sink_ends_only_its_session() {
    let parked = parked(3, |_| {});
    parked.peer.set(Peer::Panics);
    parked.released(EndReason::Panicked("sink panics".into()));
}

// spec-test: SES-BLOCK-2
#[test]
fn invariant_4_a_parked_producer_goes_on_when_its_reader_does() {
    let parked = parked(4, |_| {});
    parked.peer.set(Peer::Reads);
    parked.peer.wait_for_events(2_000);
    parked.session.request_stop();
    parked.threads.into_iter().for_each(|thread| thread.join().unwrap());
    let end = finish(&parked.session);
    assert_eq!(end.reason, EndReason::Stopped);
    let reading = account(&parked.peer, &end);
    assert_eq!(reading.ticks().count() as u64, end.statistics.written);
}

/// An event that waits for one session and tries again is in the others once.
// spec-test: SES-LOSS-1, SES-BLOCK-1
#[test]
fn invariant_1_a_wait_in_one_session_repeats_nothing_in_another() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let sessions = [
        (block_session(&pipe, 600), MemoryPeer::reading()),
        (drop_session(&pipe, 4 << 10), MemoryPeer::reading()),
        (block_session(&pipe, 1 << 20), MemoryPeer::reading()),
    ];
    sessions.iter().for_each(|(session, peer)| session.start(peer.sink()));
    thread::scope(|scope| {
        for number in 0..3 {
            let tick = &tick;
            scope.spawn(move || {
                (0..500).for_each(|index| {
                    assert_ne!(tick.write((index, number, "text")), WriteOutcome::Disabled)
                });
            });
        }
    });
    for (session, peer) in &sessions {
        let (reading, end) = stop_and_account(session, peer);
        assert_eq!(end.statistics.emitted, 1_500);
        let is_block = session.config().buffering_mode == BufferingMode::Block;
        assert!(!is_block || end.statistics.dropped == 0);
        for indexes in reading.indexes().values() {
            assert!(indexes.windows(2).all(|pair| pair[0] < pair[1]), "{indexes:?}");
        }
    }
}

// spec-test: SES-CALLBACK-4
#[test]
fn invariant_8_a_callback_may_emit_ten_times_the_budget() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = block_session(&pipe, 4 << 10);
    let done = Arc::new(AtomicBool::new(false));
    let (walker, is_done) = (tick.clone(), Arc::clone(&done));
    pipe.provider("Load").on_enable_change(move |change| {
        if change.cause == EnableCause::SessionStarted {
            let id = thread_id();
            (0..1_000).for_each(|index| {
                assert_eq!(walker.write((index, id, "a node of the heap")), WriteOutcome::Written)
            });
            is_done.store(true, Ordering::SeqCst);
        }
    });
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    until("the callback is through", || done.load(Ordering::SeqCst));
    let (reading, end) = stop_and_account(&session, &peer);
    assert_eq!((end.statistics.written, end.statistics.dropped), (1_000, 0));
    assert!(reading.indexes().values().next().unwrap().iter().copied().eq(0..1_000));
    assert!(peer.bytes().len() > 10 * (4 << 10));
}

// spec-test: SES-DRAIN-3
#[test]
fn invariant_6_the_drain_thread_never_waits_for_itself() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = pipe
        .create_session(SessionConfig { rundown_keyword: 1, ..config(BufferingMode::Block, 2_000) })
        .unwrap();
    let bystander = block_session(&pipe, 2_000);
    let stalled = MemoryPeer::new(Peer::Stalls, None);
    bystander.start(stalled.sink());
    // A rundown hook that writes as a producer: into the other session, which nobody reads.
    pipe.on_rundown(move |_| while tick.write((0, 0, "from the drain")) == WriteOutcome::Written {});
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    peer.wait_for_start();
    stop_and_account(&session, &peer);
    assert!(bystander.statistics().dropped > 0);
    bystander.abort("over");
    assert_eq!(finish(&bystander).reason, EndReason::Aborted("over".into()));
}

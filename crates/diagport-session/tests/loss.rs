//! Invariant 1: every attempt that an enabled session sees is received or shown as lost, in total and thread by thread.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use diagport_session::{BufferingMode, EndReason, WriteOutcome};
use support::*;

// spec-test: SES-LOSS-1, SES-LOSS-2, SES-DRAIN-1
#[test]
fn invariant_1_random_producers_at_a_tiny_budget_are_accounted_for() {
    for seed in 1..=40 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let session = drop_session(&pipe, [600, 2_000, 8_000, 100_000][random.below(4) as usize]);
        let peer = MemoryPeer::reading();
        session.enable();
        if seed % 2 == 0 {
            session.start(peer.sink());
        }
        let dropped = Mutex::new(BTreeMap::<u64, u64>::new());
        thread::scope(|scope| {
            for worker in 0..1 + random.below(12) {
                let (tick, dropped, mut random) = (&tick, &dropped, Random(seed * 100 + worker + 1));
                scope.spawn(move || {
                    let mut own = 0;
                    for index in 0..random.below(400) {
                        let text = "x".repeat(random.below(60) as usize);
                        if tick.write((index as i64, thread_id(), &text)) == WriteOutcome::Dropped {
                            own += 1;
                        }
                    }
                    // Ids come back: a later thread may have the id of an earlier one.
                    if own > 0 {
                        *dropped.lock().unwrap().entry(thread_id() as u64).or_default() += own;
                    }
                });
            }
        });
        if seed % 2 == 1 {
            session.start(peer.sink());
        }
        let (reading, _) = stop_and_account(&session, &peer);
        assert_eq!(reading.lost_by_thread, dropped.into_inner().unwrap());
        for event in reading.ticks() {
            assert_eq!(
                event.payload[8..16],
                event.thread_id.to_le_bytes(),
                "each event shows its own thread"
            );
        }
    }
}

// spec-test: SES-LOSS-2
#[test]
fn invariant_1_a_thread_that_loses_everything_is_seen() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, 600);
    session.enable();
    while tick.write((0, 0, "fill")) == WriteOutcome::Written {}
    let silent = thread::scope(|scope| {
        let lose = || {
            (0..7).for_each(|_| assert_eq!(tick.write((0, 0, "lost")), WriteOutcome::Dropped));
            thread_id() as u64
        };
        scope.spawn(lose).join().unwrap()
    });
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    let (reading, _) = stop_and_account(&session, &peer);
    assert_eq!(reading.lost_by_thread[&silent], 7);
    assert_eq!(reading.infos(), 1, "only the thread without an event needs one");
}

// spec-test: SES-LOSS-3
#[test]
fn a_lossless_stream_holds_no_info_event() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, 1 << 20);
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                (0..50)
                    .for_each(|index| assert_eq!(tick.write((index, thread_id(), "")), WriteOutcome::Written))
            });
        }
    });
    let (reading, end) = stop_and_account(&session, &peer);
    assert_eq!((end.statistics.written, reading.infos(), reading.lost), (400, 0, 0));
}

// spec-test: SES-LOSS-4
#[test]
fn an_oversize_event_is_a_counted_drop_in_both_modes() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    for session in [drop_session(&pipe, 1 << 20), block_session(&pipe, 1 << 20)] {
        let peer = MemoryPeer::reading();
        session.start(peer.sink());
        let large = "x".repeat(40_000);
        assert_eq!(tick.write((0, 0, &large)), WriteOutcome::Dropped);
        assert_eq!(tick.write((1, 0, &large[..32_000])), WriteOutcome::Written);
        let (reading, end) = stop_and_account(&session, &peer);
        assert_eq!((end.statistics.emitted, reading.lost, reading.infos()), (2, 1, 1));
    }
}

// spec-test: SES-LIFE-6
#[test]
fn invariant_11_sessions_that_come_and_go_cost_the_others_nothing() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let lasting = block_session(&pipe, 64 << 10);
    let lasting_peer = MemoryPeer::reading();
    lasting.start(lasting_peer.sink());
    let begin = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..3 {
            let (tick, begin) = (&tick, &begin);
            scope.spawn(move || {
                begin.wait();
                (0..3_000).for_each(|index| {
                    assert_ne!(tick.write((index, thread_id(), "x")), WriteOutcome::Disabled)
                });
            });
        }
        begin.wait();
        for round in 0..30 {
            let budget = [600, 4 << 10, 1 << 20][round % 3];
            let session =
                if round % 2 == 0 { drop_session(&pipe, budget) } else { block_session(&pipe, budget) };
            let peer = MemoryPeer::reading();
            session.start(peer.sink());
            peer.wait_for_start();
            stop_and_account(&session, &peer);
        }
    });
    let (reading, end) = stop_and_account(&lasting, &lasting_peer);
    assert_eq!(end.statistics.dropped, 0);
    let indexes = reading.indexes();
    assert_eq!(indexes.len(), 3);
    for (thread, indexes) in indexes {
        assert!(indexes.iter().copied().eq(0..3_000), "thread {thread} is complete and in order");
    }
    let sums = pipe.statistics();
    assert_eq!((sums.live_sessions, sums.emitted), (0, sums.written + sums.dropped));
}

/// All slots but a few are taken by sessions that record, and in the others sessions come and go, and are refused.
// spec-test: SES-LIFE-1, SES-LIFE-6
#[test]
fn invariant_11_sixty_sessions_lose_nothing_while_others_come_and_go() {
    const LASTING: usize = 60;
    const EVENTS: i64 = 400;
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let lasting: Vec<_> = (0..LASTING)
        .map(|_| {
            let (session, peer) = (block_session(&pipe, 16 << 10), MemoryPeer::reading());
            session.start(peer.sink());
            (session, peer)
        })
        .collect();
    let over = AtomicBool::new(false);
    let (mut ended, mut refused) = (0, 0);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|number| {
                let tick = &tick;
                scope.spawn(move || {
                    (0..EVENTS).for_each(|index| {
                        assert_ne!(tick.write((index, number, "x")), WriteOutcome::Disabled)
                    });
                })
            })
            .collect();
        let (pipe, over) = (&pipe, &over);
        let comers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    let (mut ended, mut refused) = (0, 0);
                    while !over.load(Ordering::Relaxed) {
                        // Two for each thread, of which there are four slots for all.
                        let few = [(); 2].map(|()| pipe.create_session(config(BufferingMode::Drop, 4 << 10)));
                        for session in few {
                            let Ok(session) = session else {
                                refused += 1;
                                continue;
                            };
                            session.start(MemoryPeer::reading().sink());
                            session.request_stop();
                            ended += usize::from(finish(&session).reason == EndReason::Stopped);
                        }
                    }
                    (ended, refused)
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        over.store(true, Ordering::Relaxed);
        for comer in comers {
            let (some_ended, some_refused) = comer.join().unwrap();
            (ended, refused) = (ended + some_ended, refused + some_refused);
        }
    });
    println!("{ended} sessions came and went, {refused} were refused");
    for (session, peer) in lasting {
        session.request_stop();
        assert_eq!(finish(&session).statistics.dropped, 0);
        let indexes = read(&peer.bytes()).indexes();
        assert_eq!(indexes.len(), 2);
        assert!(indexes.values().all(|indexes| indexes.iter().copied().eq(0..EVENTS)));
    }
    assert_eq!(pipe.statistics().live_sessions, 0);
}

// spec-test: SES-FAIL-3
#[test]
fn invariant_1_a_cut_stream_counts_what_its_reader_did_not_get() {
    for seed in 1..=30 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let session = drop_session(&pipe, 1 << 20);
        session.enable();
        for index in 0..300 {
            let text = "x".repeat(random.below([20, 200, 10_000][index % 3]) as usize);
            let _ = tick.write((index as i64, thread_id(), &text));
        }
        let emitted = session.statistics().emitted;
        let peer = MemoryPeer::new(Peer::BreaksAfter(random.below(300_000) as usize), None);
        session.start(peer.sink());
        let end = finish(&session);
        assert_eq!(end.reason, EndReason::PeerClosed);
        assert_eq!(
            (end.statistics.emitted, end.statistics.written + end.statistics.dropped),
            (emitted, emitted)
        );
        assert_eq!(read(&peer.bytes()).ticks().count() as u64, end.statistics.written);
    }
}

//! Invariants 8 and 14: provider callbacks over many sessions, and callbacks that do whatever a program likes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use diagport_session::{
    BufferingMode, EnableCause, EventDefinition, EventPipe, ProviderConfig, Session, SessionConfig,
    SessionId, SessionType, StartSessionError, WriteOutcome,
};
use support::*;

/// Pairs of a start and a stop.
const PAIRS: u64 = 10_000;
const STARTERS: u64 = 4;

type Told = Arc<Mutex<Vec<(SessionId, EnableCause)>>>;

fn listen(pipe: &EventPipe, provider: &str) -> Told {
    let told = Told::default();
    let log = Arc::clone(&told);
    pipe.provider(provider).on_enable_change(move |change| {
        log.lock().unwrap().push((change.session_id, change.cause));
    });
    told
}

/// A session of both providers or of one, that is stopped at a random moment and in a random way.
fn start_and_stop(pipe: &EventPipe, tick: &Tick, random: &mut Random) -> (Session, bool) {
    let both = random.below(2) == 0;
    let mut providers = vec![ProviderConfig::everything("Load")];
    if both {
        providers.push(ProviderConfig::everything("Load-Two"));
    }
    let mode = [BufferingMode::Drop, BufferingMode::Block][random.below(2) as usize];
    let config = SessionConfig {
        providers,
        buffering_mode: mode,
        budget_bytes: 1 << 16,
        ..SessionConfig::new(SessionType::IpcStream, vec![])
    };
    let session = loop {
        match pipe.create_session(config.clone()) {
            Ok(session) => break session,
            Err(StartSessionError::TooManySessions) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    let peer = MemoryPeer::reading();
    match random.below(4) {
        // Stopped by another thread, while it starts.
        0 => {
            session.enable();
            let enabled = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    enabled.wait();
                    session.request_stop();
                });
                enabled.wait();
                session.start(peer.sink());
            });
        }
        1 => session.start(peer.sink()),
        2 => {
            session.start(peer.sink());
            peer.wait_for_start();
        }
        _ => {
            session.start(peer.sink());
            let _ = tick.write((0, 0, "seen by some"));
        }
    }
    match random.below(3) {
        0 => session.abort("given up"),
        _ => session.request_stop(),
    }
    (session, both)
}

/// What a callback heard: each of `sessions` once, and its start before its stop.
fn check(name: &str, told: &Told, sessions: &[SessionId]) {
    let mut heard = HashMap::<SessionId, Vec<EnableCause>>::new();
    for (session, cause) in told.lock().unwrap().iter() {
        heard.entry(*session).or_default().push(*cause);
    }
    for session in sessions {
        let causes = heard.remove(session).unwrap_or_default();
        assert_eq!(
            causes,
            [EnableCause::SessionStarted, EnableCause::SessionStopped],
            "{name} heard this of session {session}"
        );
    }
    assert!(heard.is_empty(), "{name} heard of {heard:?} too");
}

// spec-test: SES-CALLBACK-2
#[test]
fn invariant_8_enable_comes_before_its_disable_over_random_pairs() {
    let pipe = EventPipe::new(description());
    let tick = tick(&pipe);
    let (one, two) = (listen(&pipe, "Load"), listen(&pipe, "Load-Two"));
    // Panics of another callback of the same provider change nothing.
    pipe.provider("Load").on_enable_change(|change| {
        let panics = change.session_id.as_u64() % 500 == 0;
        assert!(!panics, "a callback panics");
    });
    let sessions: Vec<(SessionId, bool)> = thread::scope(|scope| {
        let starters: Vec<_> = (0..STARTERS)
            .map(|starter| {
                let (pipe, tick) = (&pipe, &tick);
                let mut random = Random(7_000 + starter);
                scope.spawn(move || {
                    (0..PAIRS / STARTERS)
                        .map(|_| {
                            let (session, both) = start_and_stop(pipe, tick, &mut random);
                            if random.below(2) == 0 {
                                finish(&session);
                            }
                            (session.id(), both)
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        starters.into_iter().flat_map(|starter| starter.join().unwrap()).collect()
    });
    pipe.shutdown(PATIENCE);
    until("the callbacks have run", || {
        one.lock().unwrap().len() >= 2 * sessions.len()
            && two.lock().unwrap().len() >= 2 * sessions.iter().filter(|(_, both)| *both).count()
    });
    let ids: Vec<_> = sessions.iter().map(|(id, _)| *id).collect();
    check("Load", &one, &ids);
    let ids: Vec<_> = sessions.iter().filter(|(_, both)| *both).map(|(id, _)| *id).collect();
    check("Load-Two", &two, &ids);
    assert_eq!(pipe.statistics().live_sessions, 0);
}

/// A callback that waits holds up later callbacks, and neither a start nor a stop nor an event of any session.
// spec-test: SES-CALLBACK-1, SES-LIFE-6
#[test]
fn invariant_8_a_callback_that_waits_holds_up_no_session() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (entered, is_in) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    pipe.provider("Load").on_enable_change(move |change| {
        if change.cause == EnableCause::SessionStarted {
            entered.send((change.session_id, thread::current().id())).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
    });
    let (first, first_peer) = (block_session(&pipe, 1 << 20), MemoryPeer::reading());
    first.start(first_peer.sink());
    let (id, callback_thread) = is_in.recv_timeout(PATIENCE).unwrap();
    assert_eq!(id, first.id());
    assert_ne!(callback_thread, thread::current().id(), "not on the thread that starts a session");
    for round in 0..3 {
        let (session, peer) = (block_session(&pipe, 4 << 10), MemoryPeer::reading());
        session.start(peer.sink());
        peer.wait_for_start();
        for index in 0..200 {
            assert_eq!(tick.write((index, round, "seen by both")), WriteOutcome::Written);
        }
        let (_, end) = stop_and_account(&session, &peer);
        assert_eq!((end.statistics.written, end.statistics.dropped), (200, 0));
    }
    let (_, end) = stop_and_account(&first, &first_peer);
    assert_eq!((end.statistics.written, end.statistics.dropped), (600, 0));
    (0..4).for_each(|_| release.send(()).unwrap());
    let later = (0..3).map(|_| is_in.recv_timeout(PATIENCE).unwrap());
    assert!(later.map(|(_, thread)| thread).all(|thread| thread == callback_thread), "all on one thread");
}

/// Under no lock: a callback may define events, add callbacks, and start, stop and await sessions.
// spec-test: SES-CALLBACK-1
#[test]
fn invariant_8_a_callback_may_use_the_whole_pipe() {
    let (pipe, _) = pipe();
    let (done, is_done) = mpsc::channel();
    let inner = pipe.clone();
    pipe.provider("Load").on_enable_change(move |change| {
        if change.cause == EnableCause::SessionStopped || inner.provider("Inner").name() != "Inner" {
            return;
        }
        let event =
            inner.provider("Inner").define::<(i64,)>(EventDefinition::new(9, "Nine"), ["index"]).unwrap();
        inner.provider("Inner").on_enable_change(|_| {});
        let config = SessionConfig {
            buffering_mode: BufferingMode::Block,
            budget_bytes: 2_000,
            ..SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::everything("Inner")])
        };
        let (session, peer) = (inner.create_session(config).unwrap(), MemoryPeer::reading());
        session.start(peer.sink());
        (0..1_000).for_each(|index| assert_eq!(event.write((index,)), WriteOutcome::Written));
        session.request_stop();
        let end = finish(&session);
        account(&peer, &end);
        done.send((end.statistics.written, inner.statistics().live_sessions)).unwrap();
    });
    let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    session.start(peer.sink());
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok((1_000, 1)));
    stop_and_account(&session, &peer);
}

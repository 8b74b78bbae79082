//! How often an event looks at the clock: once, whatever the number of sessions; and not at all where nobody wants it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use diagport_session::{BufferingMode, Clock, EventPipe, SessionConfig, StackWalk, WriteOutcome};
use support::*;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Another time at each look, and a count of the looks of each thread: the drain looks too.
#[derive(Default)]
struct CountedClock(AtomicI64);

impl Clock for CountedClock {
    fn ticks(&self) -> i64 {
        LOOKS.set(LOOKS.get() + 1);
        1_000_000_000 + self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn utc_unix_millis(&self) -> i64 {
        1_796_000_000_000
    }
}

fn looks_of(work: impl FnOnce()) -> u64 {
    let before = LOOKS.get();
    work();
    LOOKS.get() - before
}

/// Sessions of both modes, with and without stacks: for each event one look, and the same time in every stream.
// spec-test: SES-EVENT-5
#[test]
fn invariant_13_several_sessions_share_one_stamp() {
    const EVENTS: i64 = 1_000;
    for sessions in [1, 3, 64] {
        let pipe = EventPipe::with_clock(description(), Arc::new(CountedClock::default()));
        let tick = tick(&pipe);
        let running: Vec<_> = (0..sessions)
            .map(|number| {
                let mode = [BufferingMode::Drop, BufferingMode::Block][number % 2];
                let stack_walk = if number % 3 == 0 { StackWalk::On } else { StackWalk::Off };
                let config = SessionConfig { stack_walk, ..config(mode, 1 << 20) };
                let (session, peer) = (pipe.create_session(config).unwrap(), MemoryPeer::reading());
                session.start(peer.sink());
                (session, peer)
            })
            .collect();
        let looks = looks_of(|| {
            for index in 0..EVENTS {
                assert_eq!(tick.write((index, 0, "seen by all")), WriteOutcome::Written);
            }
        });
        assert_eq!(looks, EVENTS as u64, "{sessions} sessions");
        let stamps: Vec<Vec<i64>> = running
            .iter()
            .map(|(session, peer)| {
                session.request_stop();
                assert_eq!(finish(session).statistics.written, EVENTS as u64);
                read(&peer.bytes()).ticks().map(|event| event.ticks).collect()
            })
            .collect();
        assert_eq!(stamps[0].len(), EVENTS as usize);
        assert!(stamps[0].windows(2).all(|pair| pair[0] < pair[1]), "each event has a time of its own");
        for (number, other) in stamps.iter().enumerate() {
            assert_eq!(*other, stamps[0], "session {number} of {sessions}");
        }
    }
}

/// One session and nothing else, which is the usual case: also where a chunk is full, the drain asks for the lane, or there is no room.
// spec-test: SES-EVENT-5
#[test]
fn invariant_13_one_session_has_one_stamp_an_event() {
    const EVENTS: i64 = 30_000;
    for budget_bytes in [1 << 20, 20 << 10, 600] {
        let pipe = EventPipe::with_clock(description(), Arc::new(CountedClock::default()));
        let tick = tick(&pipe);
        let (session, peer) = (drop_session(&pipe, budget_bytes), MemoryPeer::reading());
        session.start(peer.sink());
        assert_ne!(tick.write((-1, 0, "finds its lane")), WriteOutcome::Disabled);
        let looks = looks_of(|| {
            (0..EVENTS).for_each(|index| assert_ne!(tick.write((index, 0, "event")), WriteOutcome::Disabled));
        });
        assert_eq!(looks, EVENTS as u64, "a budget of {budget_bytes}");
        stop_and_account(&session, &peer);
    }
}

// spec-test: SES-EVENT-1
#[test]
fn invariant_13_a_disabled_event_does_not_look_at_the_clock() {
    let pipe = EventPipe::with_clock(description(), Arc::new(CountedClock::default()));
    let tick = tick(&pipe);
    let write_all =
        || (0..1_000).for_each(|index| assert_eq!(tick.write((index, 0, "")), WriteOutcome::Disabled));
    assert_eq!(looks_of(write_all), 0, "before any session");
    let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    assert_eq!(looks_of(write_all), 0, "a session that is not enabled");
    session.start(peer.sink());
    assert_eq!(tick.write((0, 0, "")), WriteOutcome::Written);
    stop_and_account(&session, &peer);
    assert_eq!(looks_of(write_all), 0, "after the last session");
}

/// An event that was dropped has had its one look as well: nobody decides by the clock.
// spec-test: SES-EVENT-5
#[test]
fn invariant_13_a_dropped_event_has_one_look_at_most() {
    let pipe = EventPipe::with_clock(description(), Arc::new(CountedClock::default()));
    let tick = tick(&pipe);
    let sessions = [drop_session(&pipe, 600), drop_session(&pipe, 600)];
    sessions.iter().for_each(diagport_session::Session::enable);
    while tick.write((0, 0, "fill")) == WriteOutcome::Written {}
    let looks =
        looks_of(|| (0..100).for_each(|_| assert_eq!(tick.write((0, 0, "lost")), WriteOutcome::Dropped)));
    assert!(looks <= 100, "{looks} looks for 100 events");
    sessions.iter().for_each(|session| session.abort("over"));
}

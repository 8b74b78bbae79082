//! The life of sessions: start, enable, callbacks, stop, rundown, failure.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use diagport_session::{
    BufferingMode, DefineEventError, EnableCause, EnableChange, EndReason, EventContext, EventDefinition,
    EventLevel, ProviderConfig, ProviderControl, SessionConfig, SessionId, SessionType, StackWalk,
    StartSessionError, WaitFinished, WriteOutcome,
};
use support::*;

// spec-test: SES-LIFE-3
#[test]
fn invariant_7_block_needs_a_drain() {
    let (pipe, _) = pipe();
    for session_type in
        [SessionType::File, SessionType::Listener, SessionType::Synchronous, SessionType::UserEvents]
    {
        let config = SessionConfig { session_type, ..config(BufferingMode::Block, 1 << 20) };
        let refused = pipe.create_session(config).unwrap_err();
        assert_eq!(refused, StartSessionError::BlockWithoutDrain(session_type));
    }
    let zero = config(BufferingMode::Drop, 0);
    assert_eq!(pipe.create_session(zero).unwrap_err(), StartSessionError::ZeroBudget);
    let nobody = SessionConfig { providers: vec![], ..config(BufferingMode::Drop, 1 << 20) };
    assert_eq!(pipe.create_session(nobody).unwrap_err(), StartSessionError::NoProviders);
    // None of them holds a slot.
    let all: Vec<_> = (0..64).map(|_| drop_session(&pipe, 1 << 20)).collect();
    all.iter().for_each(|session| session.abort("not needed"));
}

// spec-test: SES-LIFE-1, SES-LIFE-2
#[test]
fn invariant_11_the_65th_session_is_refused() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let mut running: Vec<_> = (0..64)
        .map(|_| {
            let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
            session.start(peer.sink());
            (session, peer)
        })
        .collect();
    let refused = pipe.create_session(config(BufferingMode::Drop, 1 << 20)).unwrap_err();
    assert_eq!(refused, StartSessionError::TooManySessions);
    assert_eq!(tick.write((1, 2, "for all")), WriteOutcome::Written);
    let (session, peer) = running.swap_remove(17);
    stop_and_account(&session, &peer);
    assert!(pipe.session(session.id()).is_none());
    let late = drop_session(&pipe, 1 << 20);
    assert!(running.iter().all(|(session, _)| session.id() != late.id()) && late.id() != session.id());
    late.abort("not needed");
    assert_eq!(finish(&late).reason, EndReason::Aborted("not needed".into()));
    for (session, peer) in running {
        let (_, end) = stop_and_account(&session, &peer);
        assert_eq!((end.statistics.emitted, end.statistics.written), (1, 1));
    }
    let sums = pipe.statistics();
    assert_eq!((sums.live_sessions, sums.emitted, sums.dropped), (0, 64, 0));
    assert_eq!(SessionId::from_u64(0), None);
}

// spec-test: SES-LIFE-4, SES-STREAM-1, SES-EVENT-1
#[test]
fn an_inert_session_sees_nothing_and_an_enabled_one_buffers() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, 1 << 20);
    assert!(!tick.is_enabled());
    assert_eq!(tick.write((0, 0, "")), WriteOutcome::Disabled);
    assert_eq!(pipe.statistics().live_sessions, 0);
    session.enable();
    assert_eq!(pipe.statistics().live_sessions, 1);
    assert!(tick.is_enabled());
    assert_eq!(tick.write((1, 0, "before the start")), WriteOutcome::Written);
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    peer.wait_for_start();
    assert_eq!(peer.bytes()[..8], *b"Nettrace");
    let (reading, _) = stop_and_account(&session, &peer);
    assert!(!tick.is_enabled());
    assert_eq!(tick.write((2, 0, "")), WriteOutcome::Disabled);
    let texts: Vec<_> = reading.events.iter().map(|event| event.definition.event_name.as_str()).collect();
    assert_eq!(texts, ["ProcessInfo", "Tick"]);
    let info = &reading.events[0];
    assert_eq!((info.definition.version, info.definition.level, info.definition.keywords), (1, 0, 0));
    let text: Vec<_> = info.payload.chunks(2).map(|unit| unit[0]).take_while(|unit| *unit != 0).collect();
    assert_eq!(text, b"load --fast");
    assert_eq!(reading.points, [vec![(1, 1), (2, 1)]]);
}

// spec-test: SES-LIFE-4
#[test]
fn a_session_that_is_stopped_before_its_start_closes_the_sink() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, 1 << 20);
    session.enable();
    tick.write((0, 0, ""));
    session.request_stop();
    let end = finish(&session);
    assert_eq!((end.statistics.emitted, end.statistics.written, end.statistics.dropped), (1, 0, 1));
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    assert!(peer.is_closed() && peer.bytes().is_empty());
    assert!(!tick.is_enabled());
}

// spec-test: SES-DRAIN-2
#[test]
fn invariant_12_an_idle_stop_is_quick_and_delivery_prompt() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, 64 << 20);
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    peer.wait_for_start();
    let mut round = 0;
    is_kept("delivery", Duration::from_millis(100), || {
        let begin = Instant::now();
        round += 1;
        tick.write((round, 0, "now"));
        peer.wait_for_events(round as usize);
        begin.elapsed()
    });
    // An idle drain looks by itself after 200 ms: this one was woken.
    is_kept("idle stop", Duration::from_millis(100), || {
        let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
        session.start(peer.sink());
        peer.wait_for_start();
        let begin = Instant::now();
        session.request_stop();
        finish(&session);
        begin.elapsed()
    });
    stop_and_account(&session, &peer);
}

fn watch(pipe: &diagport_session::EventPipe, provider: &str) -> mpsc::Receiver<EnableChange> {
    let (sender, receiver) = mpsc::channel();
    pipe.provider(provider).on_enable_change(move |change| sender.send(change.clone()).unwrap());
    receiver
}

fn next(changes: &mpsc::Receiver<EnableChange>) -> EnableChange {
    changes.recv_timeout(PATIENCE).expect("a callback is due")
}

// spec-test: SES-CALLBACK-1, SES-CALLBACK-2, SES-ENABLE-6
#[test]
fn invariant_8_each_start_is_told_once_and_before_its_stop() {
    let (pipe, _) = pipe();
    let early = watch(&pipe, "Load");
    let other = watch(&pipe, "Other");
    let start = |keywords, level, arguments: Option<&str>| {
        let entry = ProviderConfig {
            arguments: arguments.map(str::to_owned),
            ..ProviderConfig::new("Load", keywords, level)
        };
        let config = SessionConfig::new(SessionType::IpcStream, vec![entry]);
        let (session, peer) = (pipe.create_session(config).unwrap(), MemoryPeer::reading());
        session.start(peer.sink());
        peer.wait_for_start();
        session
    };
    let told =
        |cause, control, session: &diagport_session::Session, level, keywords, arguments: Option<&str>| {
            EnableChange {
                session_id: session.id(),
                cause,
                control,
                level,
                keywords,
                arguments: arguments.map(str::to_owned),
            }
        };
    use EnableCause::{SessionStarted, SessionStopped};
    use EventLevel::{Error, LogAlways, Warning};
    use ProviderControl::{Disabled, Enabled};
    let a = start(1, Warning, Some("x=1"));
    assert_eq!(next(&early), told(SessionStarted, Enabled, &a, Warning, 1, Some("x=1")));
    let b = start(2, LogAlways, None);
    assert_eq!(next(&early), told(SessionStarted, Enabled, &b, LogAlways, 3, None));
    let late = watch(&pipe, "Load");
    let both = [next(&late), next(&late)];
    assert_eq!(
        both.map(|change| (change.session_id, change.cause)),
        [(a.id(), SessionStarted), (b.id(), SessionStarted)]
    );
    let c = start(4, Error, None);
    assert_eq!(next(&early), told(SessionStarted, Enabled, &c, LogAlways, 7, None));
    assert_eq!(next(&late).session_id, c.id());
    b.request_stop();
    finish(&b);
    for changes in [&early, &late] {
        assert_eq!(
            next(changes),
            told(SessionStopped, Enabled, &b, Warning, 5, None),
            "the union is of those that are left"
        );
    }
    a.request_stop();
    finish(&a);
    assert_eq!(next(&early), told(SessionStopped, Enabled, &a, Error, 4, Some("x=1")));
    c.request_stop();
    finish(&c);
    assert_eq!(next(&early), told(SessionStopped, Disabled, &c, LogAlways, 0, None));
    assert_eq!(late.iter().take(2).count(), 2);
    assert!(early.try_recv().is_err() && late.try_recv().is_err() && other.try_recv().is_err());
}

// spec-test: SES-CALLBACK-2
#[test]
fn invariant_8_stops_at_any_moment_leave_callbacks_balanced() {
    let (pipe, _) = pipe();
    let changes = watch(&pipe, "Load");
    let mut expected = Vec::new();
    for round in 0..100 {
        let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
        session.start(peer.sink());
        if round % 3 == 0 {
            peer.wait_for_start();
        }
        session.request_stop();
        finish(&session);
        expected.push(session.id());
    }
    // One more, as a mark in the dispatcher's order.
    let (last, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    last.start(peer.sink());
    let mut open = None;
    let mut told = Vec::new();
    loop {
        let change = next(&changes);
        match change.cause {
            EnableCause::SessionStarted if change.session_id == last.id() => break,
            EnableCause::SessionStarted => {
                assert_eq!(open.replace(change.session_id), None);
                told.push(change.session_id);
            }
            EnableCause::SessionStopped => {
                assert_eq!(open.take(), Some(change.session_id), "a stop follows its start")
            }
        }
    }
    assert_eq!(told, expected, "each session is told of, however early its stop came");
    stop_and_account(&last, &peer);
}

/// A tool that waits for the first bytes is not kept by what a callback does.
// spec-test: SES-LIFE-5
#[test]
fn invariant_8_the_head_of_the_stream_comes_before_the_callbacks() {
    let (pipe, _) = pipe();
    let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    let (seen, bytes) = mpsc::channel();
    let watched = peer.clone();
    pipe.provider("Load").on_enable_change(move |_| seen.send(watched.bytes().len()).unwrap());
    session.start(peer.sink());
    let bytes = bytes.recv_timeout(PATIENCE).unwrap();
    assert!(bytes > 102, "{bytes} bytes: the head has 102, and ProcessInfo follows");
    stop_and_account(&session, &peer);
}

// spec-test: SES-CALLBACK-3
#[test]
fn invariant_14_a_panicking_callback_disturbs_nobody() {
    let (pipe, _) = pipe();
    pipe.provider("Load").on_enable_change(|_| panic!("callback panics"));
    let changes = watch(&pipe, "Load");
    let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    session.on_finished(Box::new(|_| panic!("end callback panics")));
    let (sender, receiver) = mpsc::channel();
    session.on_finished(Box::new(move |end| sender.send(end).unwrap()));
    session.start(peer.sink());
    assert_eq!(next(&changes).cause, EnableCause::SessionStarted);
    let (_, end) = stop_and_account(&session, &peer);
    assert_eq!(next(&changes).cause, EnableCause::SessionStopped);
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), end);
    let (sender, receiver) = mpsc::channel();
    session.on_finished(Box::new(move |end| sender.send(end).unwrap()));
    assert_eq!(receiver.try_recv().unwrap(), end, "it is over already");
}

// spec-test: SES-RUNDOWN-1, SES-STOP-2
#[test]
fn invariant_6_a_rundown_larger_than_the_budget_is_complete() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let method = pipe
        .provider("Microsoft-Windows-DotNETRuntimeRundown")
        .define::<(i64, String)>(
            EventDefinition::new(144, "MethodDCEndVerbose").keywords(0x30),
            ["index", "name"],
        )
        .unwrap();
    let other =
        pipe.provider("Rundown").define::<()>(EventDefinition::new(1, "Other").keywords(8), []).unwrap();
    let sessions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sessions);
    pipe.on_rundown(|_| panic!("hook panics"));
    pipe.on_rundown(move |writer| {
        seen.lock().unwrap().push((writer.session_id(), writer.keyword()));
        for index in 0..20_000 {
            assert_eq!(writer.write(&method, (index, "method")), WriteOutcome::Written);
        }
        assert_eq!(writer.write(&other, ()), WriteOutcome::Disabled);
    });
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        let config = SessionConfig { rundown_keyword: 0x10, ..config(mode, 4 << 10) };
        let (session, peer) = (pipe.create_session(config).unwrap(), MemoryPeer::reading());
        session.start(peer.sink());
        tick.write((0, 0, "before"));
        let (reading, end) = stop_and_account(&session, &peer);
        assert_eq!((end.statistics.emitted, end.statistics.dropped), (1, 0), "a rundown is not counted");
        let rundown: Vec<_> =
            reading.events.iter().filter(|event| event.definition.event_id == 144).collect();
        assert_eq!(rundown.len(), 20_000);
        let index = |payload: &[u8]| i64::from_le_bytes(payload[..8].try_into().unwrap());
        assert!(rundown.iter().map(|event| index(&event.payload)).eq(0..20_000));
        assert_eq!(sessions.lock().unwrap().pop(), Some((session.id(), 0x10)));
    }
    let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    session.start(peer.sink());
    stop_and_account(&session, &peer);
    assert!(sessions.lock().unwrap().is_empty(), "keyword 0 asks for no rundown");
}

/// A budget that holds a handful of events, a reader that takes a little at a time, and another session whose producers write meanwhile: each event of
/// the rundown arrives.
// spec-test: SES-RUNDOWN-1
#[test]
fn invariant_6_a_rundown_is_complete_at_its_readers_pace() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let method = EventDefinition::new(144, "MethodDCEndVerbose").keywords(0x10);
    let method = pipe.provider("Rundown").define::<(i64, String)>(method, ["index", "name"]).unwrap();
    pipe.on_rundown(move |writer| {
        let name = "a method with a name of some length";
        (0..3_000).for_each(|index| assert_eq!(writer.write(&method, (index, name)), WriteOutcome::Written));
    });
    for mode in [BufferingMode::Block, BufferingMode::Drop] {
        let other = block_session(&pipe, 4 << 10);
        let other_peer = MemoryPeer::reading();
        other.start(other_peer.sink());
        let config = SessionConfig { rundown_keyword: 0x10, ..config(mode, 600) };
        let (session, peer) =
            (pipe.create_session(config).unwrap(), MemoryPeer::new(Peer::Crawls(500), None));
        session.start(peer.sink());
        peer.wait_for_start();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    assert_ne!(tick.write((0, 0, "meanwhile")), WriteOutcome::Disabled);
                }
            });
            session.request_stop();
            finish(&session);
            over.store(true, Ordering::Relaxed);
        });
        let end = finish(&session);
        assert_eq!(end.reason, EndReason::Stopped);
        let reading = account(&peer, &end);
        let rundown = reading.events.iter().filter(|event| event.definition.event_id == 144);
        let index = |payload: &[u8]| i64::from_le_bytes(payload[..8].try_into().unwrap());
        assert!(rundown.map(|event| index(&event.payload)).eq(0..3_000), "{mode:?}");
        let (_, end) = stop_and_account(&other, &other_peer);
        assert_eq!(end.statistics.dropped, 0);
    }
}

// spec-test: SES-RUNDOWN-1, SES-STOP-3
#[test]
fn a_rundown_whose_reader_stands_still_is_cut() {
    let (pipe, clock) = pipe();
    let method = pipe.provider("R").define::<(String,)>(EventDefinition::new(1, "M"), ["name"]).unwrap();
    let peer = MemoryPeer::new(Peer::Reads, Some(&clock));
    let stall = peer.clone();
    pipe.on_rundown(move |writer| {
        stall.set(Peer::Stalls);
        while writer.write(&method, ("method",)) == WriteOutcome::Written {}
    });
    let session = pipe
        .create_session(SessionConfig { rundown_keyword: 1, ..config(BufferingMode::Block, 1 << 20) })
        .unwrap();
    session.start(peer.sink());
    peer.wait_for_start();
    session.request_stop();
    assert_eq!(finish(&session).reason, EndReason::StopGraceOver);
}

// spec-test: SES-FAIL-1
#[test]
fn a_vanished_reader_ends_an_idle_session() {
    let (pipe, _) = pipe();
    is_kept("the end of an idle session", Duration::from_secs(1), || {
        let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
        session.start(peer.sink());
        peer.wait_for_start();
        let begin = Instant::now();
        peer.set(Peer::Closed);
        assert_eq!(finish(&session).reason, EndReason::PeerClosed);
        assert_eq!(pipe.statistics().live_sessions, 0);
        begin.elapsed()
    });
}

// spec-test: SES-STOP-5
#[test]
fn a_shutdown_stops_all_and_refuses_more() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let running: Vec<_> = (0..3)
        .map(|_| {
            let (session, peer) = (block_session(&pipe, 1 << 20), MemoryPeer::reading());
            session.start(peer.sink());
            (session, peer)
        })
        .collect();
    tick.write((0, 0, ""));
    pipe.shutdown(PATIENCE);
    for (session, peer) in running {
        let (_, end) = stop_and_account(&session, &peer);
        assert_eq!(end.statistics.written, 1);
    }
    let refused = pipe.create_session(config(BufferingMode::Drop, 1)).unwrap_err();
    assert_eq!(refused, StartSessionError::ShuttingDown);
}

/// "For ever" is a wait like any other.
// spec-test: SES-STOP-5
#[test]
fn waits_without_an_end_are_possible() {
    let (pipe, _) = pipe();
    let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    session.start(peer.sink());
    session.request_stop();
    assert!(matches!(session.wait_finished(Duration::MAX), WaitFinished::Finished(_)));
    let (session, peer) = (drop_session(&pipe, 1 << 20), MemoryPeer::reading());
    session.start(peer.sink());
    pipe.shutdown(Duration::MAX);
    assert_eq!(finish(&session).reason, EndReason::Stopped);
}

// spec-test: SES-EVENT-2
#[test]
fn one_layout_per_provider_and_event_id() {
    let (pipe, _) = pipe();
    let define = |id, version| {
        let definition = EventDefinition::new(id, "E").version(version);
        pipe.provider("P").define::<(i32,)>(definition, ["a"]).map(|_| ())
    };
    assert_eq!(define(1, 0), Ok(()));
    assert_eq!(define(1, 0), Ok(()), "the same again");
    assert_eq!(define(1, 1), Ok(()), "another version of the same fields");
    assert_eq!(define(65_536, 0), Err(DefineEventError::EventIdTooLarge { event_id: 65_536 }));
    let other_type = pipe.provider("P").define::<(i64,)>(EventDefinition::new(1, "E"), ["a"]).unwrap_err();
    assert_eq!(other_type, DefineEventError::LayoutConflict { provider: "P".into(), event_id: 1 });
    let other_name = pipe.provider("P").define::<(i32,)>(EventDefinition::new(1, "E"), ["b"]).unwrap_err();
    assert_eq!(other_name, DefineEventError::LayoutConflict { provider: "P".into(), event_id: 1 });
    assert!(pipe.provider("Q").define::<(i64,)>(EventDefinition::new(1, "E"), ["a"]).is_ok());
}

// spec-test: SES-ENABLE-5, SES-ENABLE-7
#[test]
fn late_and_same_name_providers_are_enabled_too() {
    let (pipe, _) = pipe();
    let everything = SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::everything("*")]);
    let named =
        SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::new("Late", 2, EventLevel::Warning)]);
    let [all, one] = [everything, named].map(|config| pipe.create_session(config).unwrap());
    let peers = [MemoryPeer::reading(), MemoryPeer::reading()];
    all.start(peers[0].sink());
    one.start(peers[1].sink());
    let (first, second) = (pipe.provider("Late"), pipe.provider("Late"));
    let level = EventLevel::Warning;
    let wanted = EventDefinition::new(1, "Wanted").keywords(0x8000_0000_0002).level(level);
    let wanted = first.define::<()>(wanted, []).unwrap();
    let other = second.define::<()>(EventDefinition::new(2, "Other").keywords(1).level(level), []).unwrap();
    let verbose =
        second.define::<()>(EventDefinition::new(3, "Verbose").level(EventLevel::Verbose), []).unwrap();
    for event in [&wanted, &other, &verbose] {
        assert_eq!(event.write(()), WriteOutcome::Written);
    }
    let names = |peer: &MemoryPeer, session: &diagport_session::Session| {
        session.request_stop();
        let reading = account(peer, &finish(session));
        reading.events[1..].iter().map(|event| event.definition.event_name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&peers[1], &one), ["Wanted"]);
    assert!(other.is_enabled());
    assert_eq!(names(&peers[0], &all), ["Wanted", "Other", "Verbose"]);
    assert!(!wanted.is_enabled() && !other.is_enabled());
}

// spec-test: SES-EVENT-3
#[test]
fn an_event_carries_its_context() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    for stack_walk in [StackWalk::On, StackWalk::Off] {
        let config = SessionConfig { stack_walk, ..config(BufferingMode::Drop, 1 << 20) };
        let (session, peer) = (pipe.create_session(config).unwrap(), MemoryPeer::reading());
        session.start(peer.sink());
        let context = EventContext {
            activity_id: [1; 16],
            related_activity_id: [2; 16],
            stack: &[0x1000, 0x2000],
            thread_id: Some(77),
        };
        tick.write_with(&context, (1, 2, ""));
        tick.write((3, 4, ""));
        let (reading, _) = stop_and_account(&session, &peer);
        let [with, without] = [1, 2].map(|at| &reading.events[at]);
        assert_eq!((with.activity_id, with.related_activity_id, with.thread_id), ([1; 16], [2; 16], 77));
        assert_eq!((without.activity_id, without.related_activity_id), ([0; 16], [0; 16]));
        assert_eq!(without.thread_id, thread_id() as u64);
        assert_eq!(with.stack_id != without.stack_id, stack_walk == StackWalk::On);
    }
}

// spec-test: SES-STREAM-3
#[test]
fn a_long_stream_has_points_on_its_way() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (session, peer) = (block_session(&pipe, 1 << 20), MemoryPeer::reading());
    session.start(peer.sink());
    let text = "x".repeat(30_000);
    for index in 0..600 {
        assert_eq!(tick.write((index, thread_id(), &text)), WriteOutcome::Written);
    }
    let (reading, _) = stop_and_account(&session, &peer);
    assert_eq!(reading.points.len(), peer.bytes().len() / (10 << 20) + 1, "{} bytes", peer.bytes().len());
}

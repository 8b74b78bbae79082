//! Streams that end too early: what their reader got is what the session says it delivered, and nothing is sent twice.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diagport_session::{
    BufferingMode, EndReason, EventContext, EventDefinition, SessionConfig, Sink, StackWalk, WriteOutcome,
};
use support::*;

/// Whatever events are made of, and wherever the stream breaks.
// spec-test: SES-FAIL-3
#[test]
fn invariant_1_a_cut_stream_counts_whatever_its_events_carry() {
    for seed in 1..=120 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let kinds: Vec<_> = (2..300)
            .map(|id| {
                let name = "N".repeat(random.below(200) as usize);
                pipe.provider("Load")
                    .define::<(i64, i64, String)>(EventDefinition::new(id, name), ["a", "b", "c"])
                    .unwrap()
            })
            .collect();
        let config = SessionConfig { stack_walk: StackWalk::On, ..config(BufferingMode::Drop, 4 << 20) };
        let session = pipe.create_session(config).unwrap();
        session.enable();
        let shape = random.below(8).min(4);
        for index in 0..if shape == 4 { 100 } else { 4_000_u64 } {
            let depth = if shape == 1 { random.below(100) } else { 0 };
            let stack: Vec<u64> = (0..depth).map(|frame| frame + random.below(1_000)).collect();
            let ids = shape == 2;
            let context = EventContext {
                activity_id: [if ids { index as u8 } else { 0 }; 16],
                related_activity_id: [if ids { index as u8 ^ 0xFF } else { 0 }; 16],
                stack: &stack,
                thread_id: ids.then_some(1 << 60 | index),
            };
            let event = if shape == 3 { &kinds[random.below(kinds.len() as u64) as usize] } else { &tick };
            let chars = if shape == 4 { random.below([100, 20_000, 32_000][index as usize % 3]) } else { 0 };
            let _ = event.write_with(&context, (index as i64, 0, &"x".repeat(chars as usize)));
        }
        let emitted = session.statistics().emitted;
        let peer = MemoryPeer::new(Peer::BreaksAfter(random.below(1_000_000) as usize), None);
        session.start(peer.sink());
        session.request_stop();
        let end = finish(&session);
        let reading =
            if end.reason == EndReason::Stopped { account(&peer, &end) } else { read(&peer.bytes()) };
        assert_eq!(end.statistics.emitted, emitted);
        assert_eq!(reading.ticks().count() as u64, end.statistics.written);
    }
}

/// What a sink of a test may not do well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Write,
    PeerClosed,
    Close,
    /// `write`, and then its destructor too.
    WriteAndDrop,
}

/// Takes a few bytes of each write, and panics where it is told to once `after_bytes` have come.
struct FaultySink {
    fault: Fault,
    after_bytes: usize,
    taken: Arc<Mutex<Vec<u8>>>,
    closed: Arc<Mutex<bool>>,
}

impl FaultySink {
    fn is_due(&self) -> bool {
        self.taken.lock().unwrap().len() >= self.after_bytes
    }
}

impl Sink for FaultySink {
    fn write(&mut self, bytes: &[u8], _wait: Duration) -> io::Result<usize> {
        if self.is_due() && matches!(self.fault, Fault::Write | Fault::WriteAndDrop) {
            // Once: whoever asks again gets an answer, and would send bytes twice.
            self.after_bytes = usize::MAX;
            panic!("write panics");
        }
        let taken = bytes.len().min(700);
        self.taken.lock().unwrap().extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn peer_closed(&mut self) -> bool {
        assert!(!self.is_due() || self.fault != Fault::PeerClosed, "peer_closed panics");
        false
    }

    fn close(self: Box<Self>) {
        *self.closed.lock().unwrap() = true;
        assert!(self.fault != Fault::Close, "close panics");
    }
}

impl Drop for FaultySink {
    fn drop(&mut self) {
        assert!(self.fault != Fault::WriteAndDrop, "drop panics");
    }
}

// spec-test: SES-FAIL-3
#[test]
fn invariant_14_no_panic_of_a_sink_leaves_its_session() {
    for (fault, said) in [
        (Fault::Write, "write panics"),
        (Fault::PeerClosed, "peer_closed panics"),
        (Fault::Close, "close panics"),
        (Fault::WriteAndDrop, "write panics"),
    ] {
        // At the head of the stream, among its events, in the rundown.
        for after_bytes in [0, 10_000, 200_000] {
            let (pipe, _) = pipe();
            let tick = tick(&pipe);
            let method =
                pipe.provider("R").define::<(String,)>(EventDefinition::new(1, "M"), ["name"]).unwrap();
            pipe.on_rundown(move |writer| {
                for _ in 0..5_000 {
                    writer.write(&method, ("a method of some length",));
                }
            });
            let config = SessionConfig { rundown_keyword: 1, ..config(BufferingMode::Drop, 1 << 20) };
            let session = pipe.create_session(config).unwrap();
            let (taken, closed) = (Arc::default(), Arc::default());
            session.enable();
            for index in 0..1_000 {
                assert_eq!(tick.write((index, 0, "a text of some length")), WriteOutcome::Written);
            }
            session.start(Box::new(FaultySink {
                fault,
                after_bytes,
                taken: Arc::clone(&taken),
                closed: Arc::clone(&closed),
            }));
            // A panic of `peer_closed` needs a session that lives long enough to ask.
            if fault != Fault::PeerClosed || after_bytes > 10_000 {
                session.request_stop();
            }
            let end = finish(&session);
            let taken = taken.lock().unwrap();
            let complete =
                taken.ends_with(&[6, 1]) && fault == Fault::Close || end.reason == EndReason::Stopped;
            let reading = if complete { account_bytes(&taken, &end) } else { read(&taken) };
            assert_eq!(reading.ticks().count() as u64, end.statistics.written, "{fault:?} {after_bytes}");
            let reached = fault != Fault::PeerClosed || after_bytes <= 10_000;
            let reason = if reached { EndReason::Panicked(said.into()) } else { EndReason::Stopped };
            assert_eq!(end.reason, reason, "{fault:?} {after_bytes}");
            assert!(*closed.lock().unwrap(), "{fault:?} {after_bytes}: every sink is closed");
            assert_eq!(session.held_bytes(), 0, "{fault:?} {after_bytes}: nothing is held after the end");
            assert_eq!(pipe.statistics().live_sessions, 0);
        }
    }
}

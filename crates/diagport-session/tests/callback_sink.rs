//! A session into a function of the program: what the function is called with, and what its errors and panics do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use diagport_session::{CallbackSink, EndReason};
use support::*;

/// Enough for many rounds of a budget of 1 MB.
const EVENTS: i64 = 100_000;

/// Where the object that starts at `at` ends. Blocks say their size; the trace object has a fixed one.
fn object_end(bytes: &[u8], at: usize) -> Option<usize> {
    let number = |at: usize| {
        let raw = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(raw.try_into().unwrap()) as usize)
    };
    if bytes[at] == 1 {
        return Some(at + 1);
    }
    let name_bytes = number(at + 11)?;
    let name = bytes.get(at + 15..at + 15 + name_bytes)?;
    let body = at + 15 + name_bytes + 1;
    let end = if name == b"Trace" {
        body + 48
    } else {
        // Padded to four bytes of the stream.
        let size = number(body)?;
        (body + 4).next_multiple_of(4) + size
    };
    (bytes.get(end) == Some(&6)).then_some(end + 1)
}

/// Every piece begins and ends between two objects of the stream, and the pieces make the whole of it.
#[test]
fn a_callback_gets_whole_objects_and_every_event() {
    let pieces = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
    let (pipe, _) = pipe();
    let (tick, session) = (tick(&pipe), block_session(&pipe, 1 << 20));
    let kept = Arc::clone(&pieces);
    session.start(Box::new(CallbackSink::new(move |piece: &[u8]| {
        kept.lock().unwrap().push(piece.to_vec());
        Ok(())
    })));
    for index in 0..EVENTS {
        let _ = tick.write((index, 0, "a text of some length"));
    }
    session.request_stop();
    let end = finish(&session);
    assert_eq!((end.reason.clone(), end.statistics.dropped), (EndReason::Stopped, 0));
    let pieces = std::mem::take(&mut *pieces.lock().unwrap());
    assert!(pieces.len() > 10, "only {} pieces", pieces.len());
    let whole = pieces.concat();
    assert_eq!(account_bytes(&whole, &end).ticks().count() as i64, EVENTS);

    const HEAD_BYTES: usize = "Nettrace".len() + 4 + "!FastSerialization.1".len();
    let mut boundaries = vec![0];
    let mut at = HEAD_BYTES;
    while at < whole.len() {
        boundaries.push(at);
        at = object_end(&whole, at).unwrap_or_else(|| panic!("no object at byte {at}"));
    }
    boundaries.push(at);
    let mut at = 0;
    for piece in &pieces {
        assert!(!piece.is_empty());
        at += piece.len();
        assert!(boundaries.binary_search(&at).is_ok(), "a piece ends inside an object, at byte {at}");
    }
}

/// How the second call of a callback goes wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Error,
    Panic,
}

fn check(fault: Fault, is_reason: impl Fn(&EndReason) -> bool) {
    let (pipe, _) = pipe();
    let (tick, peer) = (tick(&pipe), MemoryPeer::reading());
    let (session, other) = (block_session(&pipe, 1 << 20), block_session(&pipe, 1 << 20));
    other.start(peer.sink());
    let mut calls = 0;
    session.start(Box::new(CallbackSink::new(move |_: &[u8]| {
        calls += 1;
        match fault {
            _ if calls < 2 => Ok(()),
            Fault::Error => Err(io::Error::other("disk on fire")),
            Fault::Panic => panic!("the callback panics"),
        }
    })));
    for index in 0..EVENTS {
        let _ = tick.write((index, 0, "a text of some length"));
    }
    let end = finish(&session);
    assert!(is_reason(&end.reason), "{fault:?}: {:?}", end.reason);
    // The other session has every event, and the pipe takes new ones.
    let (reading, end) = stop_and_account(&other, &peer);
    assert_eq!((reading.ticks().count() as i64, end.statistics.dropped), (EVENTS, 0), "{fault:?}");
    let (next, peer) = (block_session(&pipe, 1 << 20), MemoryPeer::reading());
    next.start(peer.sink());
    let _ = tick.write((0, 0, ""));
    assert_eq!(stop_and_account(&next, &peer).0.ticks().count(), 1, "{fault:?}");
}

// spec-test: SES-FAIL-3
#[test]
fn a_callback_that_fails_ends_its_session_only() {
    check(Fault::Error, |reason| matches!(reason, EndReason::SinkFailed(_)));
    check(Fault::Panic, |reason| matches!(reason, EndReason::Panicked(_)));
}

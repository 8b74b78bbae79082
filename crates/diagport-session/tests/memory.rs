//! Invariant 10: what a session takes, all in all, against its budget.
//!
//! One test only: what is measured is the whole process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diagport_session::{
    BufferingMode, EventContext, EventDefinition, Session, SessionConfig, Sink, StackWalk, WriteOutcome,
};
use support::*;

const SESSIONS: usize = 40;
const BUDGET_BYTES: usize = 1 << 20;

/// A line of this process's status in bytes; `None` where there is no such thing.
fn status_bytes(line: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let found = status.lines().find_map(|each| each.strip_prefix(line))?;
    Some(found.trim_matches([':', ' ', '\t']).strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Keeps nothing, and takes only as much as it has leave for.
struct Crawling {
    leave_bytes: Arc<AtomicUsize>,
    largest_piece: Arc<AtomicUsize>,
}

impl Sink for Crawling {
    fn write(&mut self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
        self.largest_piece.fetch_max(bytes.len(), Ordering::Relaxed);
        let taken = self
            .leave_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |leave| Some(leave - leave.min(bytes.len())))
            .unwrap()
            .min(bytes.len());
        if taken == 0 {
            // Of its own accord: a peer that takes nothing for as long as it is waited for.
            std::thread::park_timeout(wait.min(Duration::from_millis(5)));
        }
        Ok(taken)
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

struct Run {
    sessions: Vec<Session>,
    leaves: Vec<Arc<AtomicUsize>>,
    largest_piece: Arc<AtomicUsize>,
}

fn start(pipe: &diagport_session::EventPipe) -> Run {
    let largest_piece = Arc::new(AtomicUsize::new(0));
    let (mut sessions, mut leaves) = (Vec::new(), Vec::new());
    for _ in 0..SESSIONS {
        let config =
            SessionConfig { stack_walk: StackWalk::On, ..config(BufferingMode::Drop, BUDGET_BYTES as u64) };
        let (session, leave) = (pipe.create_session(config).unwrap(), Arc::new(AtomicUsize::new(500)));
        let sink = Crawling { leave_bytes: Arc::clone(&leave), largest_piece: Arc::clone(&largest_piece) };
        session.start(Box::new(sink));
        sessions.push(session);
        leaves.push(leave);
    }
    Run { sessions, leaves, largest_piece }
}

// spec-test: SES-MEMORY-1
#[test]
fn invariant_10_a_session_takes_its_budget_and_a_tenth() {
    let (pipe, _) = pipe();
    let blob = pipe
        .provider("Load")
        .define::<(i64, Vec<u8>)>(EventDefinition::new(2, "Blob"), ["index", "bytes"])
        .unwrap();
    let zeros = vec![0; 65_000];
    // Once, because the allocator keeps what earlier cases gave back.
    let before = status_bytes("VmRSS");
    // Name, payload bytes, frames; and whether stacks differ. Then the largest piece that is not one event alone.
    for (name, payload_bytes, frames, events) in [
        ("small events", 16, 0, 50_000_u64),
        ("large events", 65_000, 0, 60),
        ("deep stacks, all different", 16, 100, 12_000),
        ("shallow stacks, all different", 0, 1, 50_000),
        ("large events with deep stacks", 50_000, 100, 60),
    ] {
        let can_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        let before = before.filter(|_| can_reset);
        let run = start(&pipe);
        let mut stack = vec![0; frames];
        let mut dropped = 0;
        for index in 0..events {
            if let Some(frame) = stack.first_mut() {
                *frame = index;
            }
            let context = EventContext { stack: &stack, ..EventContext::default() };
            let outcome = blob.write_with(&context, (index as i64, &zeros[..payload_bytes]));
            dropped += u64::from(outcome == WriteOutcome::Dropped);
            // All readers go on together, well behind the writer.
            if index % 8 == 0 {
                let step = 2 * (payload_bytes + 8 * frames + 20);
                for leave in &run.leaves {
                    leave.fetch_add(step, Ordering::Relaxed);
                }
            }
        }
        let peak = status_bytes("VmHWM");
        for session in &run.sessions {
            assert!(session.held_bytes() <= BUDGET_BYTES, "{name}");
            session.abort("measured");
        }
        run.sessions.iter().for_each(|session| drop(finish(session)));
        assert!(dropped > 0, "{name}: the budget was never used up");
        let piece = run.largest_piece.load(Ordering::Relaxed);
        assert!(
            piece <= (BUDGET_BYTES / 32).max(payload_bytes + 8 * frames + 1_000),
            "{name}: a piece of {piece} bytes"
        );
        let each = before.zip(peak).map_or(0, |(before, peak)| peak.saturating_sub(before) / SESSIONS);
        println!("{name}: {each} bytes a session, {dropped} of {events} dropped, pieces up to {piece}");
        // Besides: the stack of the drain thread, and what the allocator rounds up.
        assert!(each <= BUDGET_BYTES + BUDGET_BYTES / 10 + (64 << 10), "{name}: {each} bytes a session");
    }
}

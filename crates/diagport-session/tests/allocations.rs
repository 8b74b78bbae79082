//! Invariants 2, 9, 10 and 13 where only an allocator can see them: what an event asks for, what threads leave behind, and what
//! happens when there is no memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../diagport-buffer/tests/allocator/mod.rs"]
mod allocator;
mod support;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use allocator::{CountingAllocator, alone, count_allocations, live_bytes, without_memory};
use diagport_session::{BufferingMode, Session, Sink, WriteOutcome};
use support::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Takes all and keeps nothing.
#[derive(Clone, Default)]
struct Discard(Arc<AtomicU64>);

impl Sink for Discard {
    fn write(&mut self, bytes: &[u8], _wait: Duration) -> io::Result<usize> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

/// Takes nothing, for as long as it is asked.
struct Unread;

impl Sink for Unread {
    fn write(&mut self, _bytes: &[u8], wait: Duration) -> io::Result<usize> {
        thread::park_timeout(wait.min(Duration::from_millis(5)));
        Ok(0)
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

fn end(session: &Session) -> diagport_session::SessionStatistics {
    session.request_stop();
    finish(session).statistics
}

/// A million events (fewer in a debug build) that a session sees, at the pace of its drain: chunks come from its pool, and nothing else is asked for. When the
/// drain is further behind than ever before, the pool has none, which is why some are allowed, fewer than one in a thousand events: where nothing else
/// runs, there are none (`allocations.rs` of the buffer).
// spec-test: SES-EVENT-4
#[test]
fn invariant_13_events_in_steady_state_allocate_nothing() {
    // Above a quarter of the budget, so that the drain comes at once, and below all of it.
    const BATCH: i64 = 1_000;
    const BATCHES: u64 = if cfg!(debug_assertions) { 300 } else { 1_000 };
    let _alone = alone();
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let (session, sink) = (pipe.create_session(config(mode, 256 << 10)).unwrap(), Discard::default());
        session.start(Box::new(sink.clone()));
        let batch = || {
            let before = sink.0.load(Ordering::Relaxed);
            let ((), allocations) = count_allocations(|| {
                for index in 0..BATCH {
                    assert_ne!(tick.write((index, 0, "sixteen letters.")), WriteOutcome::Disabled);
                }
            });
            until("the drain has come by", || sink.0.load(Ordering::Relaxed) > before);
            allocations
        };
        let warm_up: u64 = (0..100).map(|_| batch()).sum();
        let steady: u64 = (0..BATCHES).map(|_| batch()).sum();
        println!(
            "{mode:?}: {warm_up} allocations in the first 100,000 events, {steady} in the next {BATCHES},000"
        );
        assert!(steady < BATCHES, "{mode:?}: {steady} allocations in {BATCHES},000 events");
        assert_eq!(end(&session).emitted, (100 + BATCHES) * BATCH as u64);
    }
}

/// Nobody wants it: no memory, and no look at the clock either (see `one_stamp.rs`).
// spec-test: SES-EVENT-1
#[test]
fn invariant_13_a_disabled_event_allocates_nothing() {
    let _alone = alone();
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let ((), allocations) = count_allocations(|| {
        for index in 0..1_000_000 {
            assert_eq!(tick.write((index, 0, "sixteen letters.")), WriteOutcome::Disabled);
        }
    });
    assert_eq!(allocations, 0);
}

/// No memory for a chunk, or for the payload: a drop that is counted. A thread does not wait for memory, in Block mode neither.
// spec-test: SES-LOSS-5
#[test]
fn invariant_2_no_memory_is_a_counted_drop_in_both_modes() {
    let _alone = alone();
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let session = pipe.create_session(config(mode, 1 << 20)).unwrap();
        // Not read yet, so that no chunk comes back.
        session.enable();
        let write = |index, text: &str| tick.write((index, thread_id(), text));
        assert_eq!(write(0, "the thread is known"), WriteOutcome::Written);
        let long = "x".repeat(30_000);
        let (mut written, mut dropped) = (1, 0);
        without_memory(|| {
            for index in 1..=5_000 {
                match write(index, if index % 100 == 0 { &long } else { "a text of some length" }) {
                    WriteOutcome::Written => written += 1,
                    WriteOutcome::Dropped => dropped += 1,
                    WriteOutcome::Disabled => panic!("a session wants it"),
                }
            }
        });
        assert_eq!(write(5_001, &long), WriteOutcome::Written, "{mode:?}: there is memory again");
        assert!(dropped >= 50, "{mode:?}: {dropped} of 5,000 dropped without memory");
        let peer = MemoryPeer::reading();
        session.start(peer.sink());
        let (reading, end) = stop_and_account(&session, &peer);
        assert_eq!((end.statistics.written, end.statistics.dropped), (written + 1, dropped));
        assert_eq!(reading.lost, dropped, "{mode:?}");
    }
}

/// What a live thread may take besides the budget: its own state and its part of each session, about half of this.
const THREAD_BYTES: usize = 2_048;
const BUDGET_BYTES: usize = 1 << 20;

/// Nobody reads, and each of a thousand threads writes until it cannot.
// spec-test: SES-MEMORY-1
#[test]
fn invariant_10_a_thousand_live_threads_take_the_budget_and_a_fixed_amount_each() {
    const THREADS: usize = 1_000;
    let _alone = alone();
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = drop_session(&pipe, BUDGET_BYTES as u64);
    let (go, full, over) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let (before, taken, held) = thread::scope(|scope| {
        for _ in 0..THREADS {
            let body = || {
                go.wait();
                for index in 0..200 {
                    let _ = tick.write((index, 0, "a text of some length"));
                }
                full.wait();
                over.wait();
            };
            thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, body).unwrap();
        }
        // The threads are there already, so that what the system takes for one is not counted.
        let before = live_bytes();
        session.start(Box::new(Unread));
        go.wait();
        full.wait();
        let figures = (before, live_bytes() - before, session.held_bytes());
        over.wait();
        figures
    });
    let threads_bytes = taken.saturating_sub(BUDGET_BYTES) / THREADS;
    println!(
        "{before} before, {taken} taken, {held} of it in chunks: {threads_bytes} a thread above the budget"
    );
    assert!(held <= BUDGET_BYTES);
    assert!(session.statistics().dropped > 0, "the budget was never used up");
    assert!(taken <= BUDGET_BYTES + BUDGET_BYTES / 10 + THREADS * THREAD_BYTES, "{taken} bytes");
    session.abort("measured");
    finish(&session);
}

/// W16: a thousand live threads share one megabyte, and none of them starves.
// spec-test: SES-MEMORY-2
#[test]
fn invariant_10_a_thousand_live_threads_share_one_megabyte_without_loss() {
    const THREADS: usize = 1_000;
    let _alone = alone();
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (session, peer) = (block_session(&pipe, BUDGET_BYTES as u64), MemoryPeer::reading());
    session.start(peer.sink());
    let (all_wrote, most_held) = (Barrier::new(THREADS), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (tick, session, all_wrote, most_held) = (&tick, &session, &all_wrote, &most_held);
            let body = move || {
                for index in 0..20 {
                    assert_eq!(tick.write((index, number as i64, "x")), WriteOutcome::Written);
                    if index == 0 {
                        all_wrote.wait();
                    }
                }
                most_held.fetch_max(session.held_bytes(), Ordering::Relaxed);
            };
            thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, body).unwrap();
        }
    });
    let (reading, end) = stop_and_account(&session, &peer);
    assert_eq!((end.statistics.written, end.statistics.dropped), (20 * THREADS as u64, 0));
    assert!(reading.indexes().values().all(|indexes| indexes.iter().copied().eq(0..20)));
    assert!(most_held.into_inner() <= BUDGET_BYTES);
}

/// So many threads, fifty at a time. All are joined, for a scope alone does not wait for what a thread does at its very end.
fn come_and_go(threads: usize, body: impl Fn() + Sync) {
    for _ in 0..threads / 50 {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..50).map(|_| scope.spawn(&body)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

/// W18: what 2,000 threads left behind is what 10,000 leave behind.
// spec-test: SES-THREAD-1
#[test]
fn invariant_9_memory_is_flat_over_ten_thousand_threads() {
    let _alone = alone();
    for mode in [BufferingMode::Block, BufferingMode::Drop] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let (session, sink) = (pipe.create_session(config(mode, 1 << 20)).unwrap(), Discard::default());
        session.start(Box::new(sink));
        let churn = |threads: usize| {
            let write = || {
                for index in 0..4 {
                    assert_ne!(tick.write((index, 0, "short")), WriteOutcome::Disabled);
                }
            };
            // A round forgets the lanes before it shows what they had, so only those of a later round tell that it is over.
            for threads in [threads - 50, 50] {
                come_and_go(threads, write);
                until("the lanes of ended threads are gone", || session.lane_count() == 0);
            }
            // The pool may grow to its budget, and is not what threads leave behind.
            live_bytes() - session.held_bytes()
        };
        let (first, last) = (churn(2_000), churn(8_000));
        println!("{mode:?}: {first} bytes after 2,000 threads, {last} after 10,000");
        // What the drain keeps for its next round depends on the largest batch that it has met.
        assert!(last <= first + (128 << 10), "{mode:?}: from {first} to {last} bytes");
        assert_eq!(end(&session).emitted, 40_000);
    }
}

/// A Drop session that nobody reads, while threads come and go: what they cost is bounded, and what they lost is all there once it is read.
// spec-test: SES-THREAD-4
#[test]
fn invariant_9_an_unread_session_does_not_grow_with_the_threads_that_end() {
    let _alone = alone();
    let too_large = "x".repeat(40_000);
    // Events that fill the budget; and events that need none of it, being too large for any.
    for (text, events) in [("short", 20), (too_large.as_str(), 1)] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let (session, peer) = (drop_session(&pipe, 64 << 10), MemoryPeer::new(Peer::Stalls, None));
        session.start(peer.sink());
        let churn = |threads: usize| {
            come_and_go(threads, || (0..events).for_each(|index| _ = tick.write((index, 0, text))));
            live_bytes()
        };
        let (first, last) = (churn(2_000), churn(8_000));
        println!("{first} bytes after 2,000 threads, {last} after 10,000");
        assert!(last <= first + (16 << 10), "from {first} to {last} bytes");
        peer.set(Peer::Reads);
        let (reading, end) = stop_and_account(&session, &peer);
        assert_eq!(end.statistics.emitted, 10_000 * events as u64);
        assert!(reading.lost_by_thread.contains_key(&0), "most of it was lost together");
    }
}

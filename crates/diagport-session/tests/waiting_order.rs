//! Invariant 3 with real threads: those that wait for capacity go on in the order in which they began to wait.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use diagport_session::{Session, WriteOutcome};
use support::*;

const WAITERS: usize = 24;

/// Lets everybody go when a test fails, so that it ends.
struct AbortedAtLast<'a>(&'a Session);

impl Drop for AbortedAtLast<'_> {
    fn drop(&mut self) {
        self.0.abort("the test is over");
    }
}

/// An event is stamped when it gets its place, so the order of a stream is the order of admission.
fn check(budget_bytes: u64, text_bytes: usize) {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (session, peer) = (block_session(&pipe, budget_bytes), MemoryPeer::reading());
    // Not read yet, so that nothing is freed while the queue forms.
    session.enable();
    let _aborted = AbortedAtLast(&session);
    let over = AtomicBool::new(false);
    let text = "x".repeat(text_bytes);
    thread::scope(|scope| {
        let _aborted = AbortedAtLast(&session);
        let (tick, over, text) = (&tick, &over, &text);
        // The first takes what there is until it waits; behind it stand the others, and behind them it again and newcomers.
        let goes_on = move |number: i64| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(tick.write((0, number, text)), WriteOutcome::Written);
            }
        };
        let before = scope.spawn(move || goes_on(-1));
        until("the buffer is full", || session.waiting_count() == 1);
        let waiters: Vec<_> = (0..WAITERS)
            .map(|waiter| {
                let write = move || tick.write((0, waiter as i64, text));
                let thread = scope.spawn(write);
                until("it waits behind the others", || session.waiting_count() == waiter + 2);
                thread
            })
            .collect();
        session.start(peer.sink());
        let after = scope.spawn(move || goes_on(-2));
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), WriteOutcome::Written);
        }
        over.store(true, Ordering::Relaxed);
        // Each may still be at an event that began before.
        before.join().unwrap();
        after.join().unwrap();
        session.request_stop();
        finish(&session);
    });
    let reading = account(&peer, &finish(&session));
    let number = |payload: &[u8]| i64::from_le_bytes(payload[8..16].try_into().unwrap());
    let order: Vec<i64> = reading.ticks().map(|event| number(&event.payload)).collect();
    let waiters: Vec<i64> = order.iter().copied().filter(|number| *number >= 0).collect();
    assert!(waiters.iter().copied().eq(0..WAITERS as i64), "budget {budget_bytes}: {waiters:?}");
    let last = order.iter().rposition(|number| *number == WAITERS as i64 - 1).unwrap();
    let first = order.iter().position(|number| *number == 0).unwrap();
    // Nobody who began to wait later has come between them. The first thread was before them all, and may fill the chunk that it got.
    let others = (last + 1 - first - WAITERS) as u64;
    let payload_bytes = 8 + 8 + 2 * (text_bytes as u64 + 1);
    assert!(others <= budget_bytes / 16 / payload_bytes + 1, "budget {budget_bytes}: {order:?}");
}

// spec-test: SES-BLOCK-3
#[test]
fn invariant_3_waiting_threads_are_admitted_in_their_order() {
    for _ in 0..3 {
        for (budget_bytes, text_bytes) in [(300, 10), (2_000, 10), (8 << 10, 400), (64 << 10, 10)] {
            check(budget_bytes, text_bytes);
        }
    }
}

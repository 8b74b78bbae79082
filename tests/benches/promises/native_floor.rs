//! What an event costs beside the least that it could: a stamp and a copy; and beside nothing at all where nobody wants it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use diagport_session::{
    EventPipe, ProviderConfig, Session, SessionConfig, SessionType, Sink, StackWalk, WaitFinished,
};
use diagport_sys::counter;

use support::{HANG, await_condition};

use crate::native_emitter::{Events, PROVIDER, TEXT};
use crate::native_producers::thread_cpu_ns;

const BUDGET_BYTES: usize = 1 << 20;
/// So many events of 40 bytes and what comes with them never reach the budget.
const AT_ONCE: u64 = 8_000;
const STOP_WITHIN: Duration = Duration::from_secs(5);
const HEADER_BYTES: usize = 24;
const PAYLOAD_BYTES: usize = 40;

/// Takes everything and keeps nothing but the number of bytes: no socket and no reader are part of the cost.
struct Nowhere {
    taken: Arc<AtomicU64>,
}

impl Sink for Nowhere {
    fn write(&mut self, bytes: &[u8], _wait: Duration) -> std::io::Result<usize> {
        self.taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

/// A session whose stream is thrown away.
pub(crate) struct Thrown {
    session: Session,
    taken: Arc<AtomicU64>,
}

impl Thrown {
    pub(crate) fn start(pipe: &EventPipe, budget_bytes: u64, stack_walk: StackWalk) -> anyhow::Result<Self> {
        let mut config =
            SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::everything(PROVIDER)]);
        config.budget_bytes = budget_bytes;
        config.stack_walk = stack_walk;
        let session = pipe.create_session(config)?;
        let taken = Arc::new(AtomicU64::new(0));
        session.start(Box::new(Nowhere { taken: Arc::clone(&taken) }));
        Ok(Self { session, taken })
    }

    /// Lets `emit` write so many events, then waits until they are taken and no more come for a while: the budget is empty again.
    pub(crate) fn while_drained(&self, events: u64, emit: impl FnOnce() -> f64) -> anyhow::Result<f64> {
        let bytes = self.taken.load(Ordering::Relaxed) + events * PAYLOAD_BYTES as u64;
        let cost = emit();
        let mut last = 0;
        await_condition("a drain that has drained", HANG, || {
            let before = std::mem::replace(&mut last, self.taken.load(Ordering::Relaxed));
            last >= bytes && last == before
        })?;
        Ok(cost)
    }

    /// How many events were dropped.
    pub(crate) fn stop(self) -> anyhow::Result<u64> {
        self.session.request_stop();
        let ended = matches!(self.session.wait_finished(STOP_WITHIN), WaitFinished::Finished(_));
        ensure!(ended, "the session does not end");
        Ok(self.session.statistics().dropped)
    }
}

/// `floor ours_ns=… floor_ns=… dropped=…`, thread CPU time an event of `events`, in turns.
pub(crate) fn emit(pipe: &EventPipe, events: &Events, count: u64) -> anyhow::Result<String> {
    let thrown = Thrown::start(pipe, BUDGET_BYTES as u64, StackWalk::Off)?;
    let mut floor = Floor::new();
    let (mut ours_ns, mut floor_ns) = (0.0, 0.0);
    let turns = (count / AT_ONCE).max(1);
    // The first turn brings the buffers and is not counted.
    for turn in 0..=turns {
        let ours = thrown.while_drained(AT_ONCE, || {
            cpu_ns_of(AT_ONCE, |index| {
                black_box(events.tick.write((index, turn, TEXT, !index)));
            })
        })?;
        let least = cpu_ns_of(AT_ONCE, |index| floor.emit(index, turn));
        if turn > 0 {
            ours_ns += ours / turns as f64;
            floor_ns += least / turns as f64;
        }
    }
    let dropped = thrown.stop()?;
    Ok(format!("floor ours_ns={ours_ns:.3} floor_ns={floor_ns:.3} dropped={dropped}"))
}

/// `disabled ours_ns=… tracing_ns=… empty_ns=…`, thread CPU time a call of `count`. No session may run.
pub(crate) fn disabled(events: &Events, count: u64) -> anyhow::Result<String> {
    ensure!(!events.tick.is_enabled(), "a session wants the event");
    let empty_ns = cpu_ns_of(count, |index| {
        black_box(index);
    });
    let ours_ns = cpu_ns_of(count, |index| {
        // Nobody wants to know what became of it.
        let _ = events.tick.write((black_box(index), 0, TEXT, !index));
    });
    let tracing_ns = cpu_ns_of(count, |index| {
        tracing::debug!(index = black_box(index), thread = 0, text = "0123456789abcde", check = !index);
    });
    Ok(format!("disabled ours_ns={ours_ns:.3} tracing_ns={tracing_ns:.3} empty_ns={empty_ns:.3}"))
}

/// Thread CPU time of one of so many.
pub(crate) fn cpu_ns_of(count: u64, mut one: impl FnMut(u64)) -> f64 {
    let from = thread_cpu_ns();
    (0..count).for_each(&mut one);
    (thread_cpu_ns() - from) / count as f64
}

/// A stamp of the raw counter, a header of 24 bytes and a payload of 40, copied into a ring of 1 MB.
struct Floor {
    ring: Vec<[u8; HEADER_BYTES + PAYLOAD_BYTES]>,
    next: usize,
}

impl Floor {
    fn new() -> Self {
        let ring = vec![[0; HEADER_BYTES + PAYLOAD_BYTES]; BUDGET_BYTES / (HEADER_BYTES + PAYLOAD_BYTES)];
        Self { ring, next: 0 }
    }

    #[inline]
    fn emit(&mut self, index: u64, thread: u64) {
        let record = &mut self.ring[self.next];
        let head = [counter::read(), PAYLOAD_BYTES as u64, index];
        for (to, from) in record.chunks_exact_mut(8).zip(head) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        record[24..32].copy_from_slice(&index.to_le_bytes());
        record[32..40].copy_from_slice(&thread.to_le_bytes());
        record[40..56].copy_from_slice(&TEXT);
        record[56..64].copy_from_slice(&(!index).to_le_bytes());
        black_box(&mut *record);
        self.next += 1;
        if self.next == self.ring.len() {
            self.next = 0;
        }
    }
}

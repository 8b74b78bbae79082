//! What an event costs beside the least that it could: a stamp and a copy; and beside nothing at all where nobody wants it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use diagport_session::{EventPipe, ProviderConfig, SessionConfig, SessionType, Sink, WaitFinished};

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

/// `floor ours_ns=… floor_ns=… dropped=…`, thread CPU time an event of `events`, in turns.
pub(crate) fn emit(pipe: &EventPipe, events: &Events, count: u64) -> anyhow::Result<String> {
    let mut config = SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::everything(PROVIDER)]);
    config.budget_bytes = BUDGET_BYTES as u64;
    let session = pipe.create_session(config)?;
    let taken = Arc::new(AtomicU64::new(0));
    session.start(Box::new(Nowhere { taken: Arc::clone(&taken) }));
    let mut floor = Floor::new();
    let (mut ours_ns, mut floor_ns) = (0.0, 0.0);
    let turns = (count / AT_ONCE).max(1);
    // The first turn brings the buffers and is not counted.
    for turn in 0..=turns {
        let before = taken.load(Ordering::Relaxed);
        let ours = cpu_ns_of(AT_ONCE, |index| {
            black_box(events.tick.write((index, turn, TEXT, !index)));
        });
        await_stillness(&taken, before + AT_ONCE * PAYLOAD_BYTES as u64)?;
        let least = cpu_ns_of(AT_ONCE, |index| floor.emit(index, turn));
        if turn > 0 {
            ours_ns += ours / turns as f64;
            floor_ns += least / turns as f64;
        }
    }
    session.request_stop();
    let ended = matches!(session.wait_finished(STOP_WITHIN), WaitFinished::Finished(_));
    ensure!(ended, "the session does not end");
    let dropped = session.statistics().dropped;
    Ok(format!("floor ours_ns={ours_ns:.3} floor_ns={floor_ns:.3} dropped={dropped}"))
}

/// Until at least `bytes` have been taken, and no more come for a while: the budget is empty again.
fn await_stillness(taken: &AtomicU64, bytes: u64) -> anyhow::Result<()> {
    let mut last = 0;
    await_condition("a drain that has drained", HANG, || {
        let before = std::mem::replace(&mut last, taken.load(Ordering::Relaxed));
        last >= bytes && last == before
    })?;
    Ok(())
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

fn cpu_ns_of(count: u64, mut one: impl FnMut(u64)) -> f64 {
    let from = thread_cpu_ns();
    (0..count).for_each(&mut one);
    (thread_cpu_ns() - from) / count as f64
}

/// A stamp of the raw counter, a header of 24 bytes and a payload of 40, copied into a ring of 1 MB.
struct Floor {
    clock: quanta::Clock,
    ring: Vec<[u8; HEADER_BYTES + PAYLOAD_BYTES]>,
    next: usize,
}

impl Floor {
    fn new() -> Self {
        let ring = vec![[0; HEADER_BYTES + PAYLOAD_BYTES]; BUDGET_BYTES / (HEADER_BYTES + PAYLOAD_BYTES)];
        Self { clock: quanta::Clock::new(), ring, next: 0 }
    }

    #[inline]
    fn emit(&mut self, index: u64, thread: u64) {
        let record = &mut self.ring[self.next];
        let head = [self.clock.raw(), PAYLOAD_BYTES as u64, index];
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

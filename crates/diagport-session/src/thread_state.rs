//! What a thread keeps to write events: its identity, its lanes, and memory for one payload.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use diagport_buffer::{Lane, LaneWrite, Parking, ProducerThread, Record};

use crate::event::{EventContext, EventCore, WriteOutcome};
use crate::event_pipe::PipeInner;
use crate::field::PayloadBuffer;

thread_local! {
    static PARKING: Cell<Parking> = const { Cell::new(Parking::Allowed) };
    static STATE: RefCell<ThreadState> = RefCell::new(ThreadState::of_this_thread());
}

/// Dropped when its thread ends: then the sessions learn that nothing more comes from it.
///
/// A process that forks must not write events in the child before it executes another program: drains exist in the parent only.
struct ThreadState {
    thread: Arc<ProducerThread>,
    lanes: Vec<CachedLane>,
    payload: PayloadBuffer,
}

struct CachedLane {
    pipe_id: u64,
    slot: u32,
    lane: Arc<Lane>,
}

/// Says that the calling thread frees capacity and so must never wait for any.
pub(crate) fn never_park() {
    PARKING.set(Parking::Never);
}

#[cfg(target_os = "linux")]
pub(crate) fn os_thread_id() -> u64 {
    u64::from(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn os_thread_id() -> u64 {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    ID.try_with(|id| *id).unwrap_or(0)
}

/// Writes one event to all sessions that want it. `encode` makes its payload.
#[inline(never)]
pub(crate) fn write(
    pipe: &PipeInner,
    event: &EventCore,
    context: &EventContext<'_>,
    encode: impl FnOnce(&mut PayloadBuffer),
) -> WriteOutcome {
    let mut encode = Some(encode);
    let mut with = |state: &mut ThreadState| {
        state.payload.clear();
        if let Some(encode) = encode.take() {
            encode(&mut state.payload);
        }
        state.write(pipe, event, context)
    };
    let usual = STATE.try_with(|state| state.try_borrow_mut().ok().map(|mut state| with(&mut state)));
    match usual {
        Ok(Some(outcome)) => outcome,
        // The thread is being torn down: an identity for this one event keeps the accounts exact.
        Ok(None) | Err(_) => with(&mut ThreadState::new(String::new(), Parking::Allowed)),
    }
}

impl ThreadState {
    fn of_this_thread() -> Self {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        Self::new(name, PARKING.get())
    }

    fn new(name: String, parking: Parking) -> Self {
        let thread = Arc::new(ProducerThread::new(os_thread_id(), name, parking));
        Self { thread, lanes: Vec::new(), payload: PayloadBuffer::new() }
    }

    fn write(&mut self, pipe: &PipeInner, event: &EventCore, context: &EventContext<'_>) -> WriteOutcome {
        let Self { thread, lanes, payload } = self;
        let non_zero = |id: [u8; 16]| (id != [0; 16]).then_some(id);
        let record = payload.payload().map(|payload| Record {
            event_key: event.key,
            payload,
            activity_id: non_zero(context.activity_id),
            related_activity_id: non_zero(context.related_activity_id),
            thread_id: context.thread_id,
            stack: context.stack,
        });
        let mut outcome = WriteOutcome::Disabled;
        let mut pending = event.enabled_slots.load(Ordering::Relaxed);
        let mut first_try = true;
        while pending != 0 {
            let guard = thread.enter();
            if first_try {
                // Lanes come before the stamp: see `EventBuffer::add_lane`.
                pending = find_lanes(lanes, pending, pipe, event, thread);
                first_try = false;
            }
            let ticks = pipe.clock.ticks();
            let mut blocked = 0;
            for cached in
                lanes.iter().filter(|cached| cached.pipe_id == pipe.id && pending >> cached.slot & 1 == 1)
            {
                let lane = &cached.lane;
                let written = record
                    .as_ref()
                    .map_or_else(|| lane.discard(&guard), |record| lane.write(&guard, ticks, record));
                match written {
                    LaneWrite::Written if outcome == WriteOutcome::Disabled => {
                        outcome = WriteOutcome::Written
                    }
                    LaneWrite::Dropped => outcome = WriteOutcome::Dropped,
                    LaneWrite::Blocked => blocked |= 1 << cached.slot,
                    LaneWrite::Written | LaneWrite::Disabled => {}
                }
            }
            drop(guard);
            if blocked != 0 {
                thread.park();
            }
            pending = blocked;
        }
        outcome
    }
}

/// Makes sure that `lanes` has an open lane for each wanted slot; returns the slots that have.
fn find_lanes(
    lanes: &mut Vec<CachedLane>,
    wanted: u64,
    pipe: &PipeInner,
    event: &EventCore,
    thread: &Arc<ProducerThread>,
) -> u64 {
    let mut open = 0;
    for cached in lanes.iter().filter(|cached| cached.pipe_id == pipe.id && !cached.lane.is_closed()) {
        open |= 1 << cached.slot;
    }
    let mut missing = wanted & !open;
    if missing == 0 {
        return wanted;
    }
    lanes.retain(|cached| !cached.lane.is_closed());
    let mut found = wanted & open;
    while missing != 0 {
        let slot = missing.trailing_zeros();
        missing &= missing - 1;
        if let Some(lane) = pipe.add_lane(slot as usize, event, thread) {
            lanes.push(CachedLane { pipe_id: pipe.id, slot, lane });
            found |= 1 << slot;
        }
    }
    found
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        self.thread.mark_dead();
        for cached in &self.lanes {
            cached.lane.buffer().thread_ended();
        }
    }
}

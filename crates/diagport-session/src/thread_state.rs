//! What a thread keeps to write events: its identity, its lanes, and memory for one payload.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use diagport_buffer::{Lane, LaneWrite, MAX_STACK_FRAMES, Parking, ProducerThread, Record};

use crate::event::{EventContext, EventCore, WriteOutcome};
use crate::event_pipe::{NewLane, PipeInner};
use crate::field::PayloadBuffer;

thread_local! {
    static PARKING: Cell<Parking> = const { Cell::new(Parking::Allowed) };
    static STATE: RefCell<ThreadState> = RefCell::new(ThreadState::of_this_thread());
}

/// Dropped when its thread ends: then the sessions learn that nothing more comes from it.
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

/// Writes one event to all sessions that want it. `encode` makes its payload. A function of its own, so that the stack begins with its caller.
#[inline(never)]
pub(crate) fn write(
    pipe: &PipeInner,
    event: &EventCore,
    context: &EventContext<'_>,
    encode: impl FnOnce(&mut PayloadBuffer),
) -> WriteOutcome {
    // A forked child has no drains: nobody would ever read what it writes.
    if pipe.is_of_another_process() {
        return WriteOutcome::Disabled;
    }
    // spec: SES-STACK-1
    if context.stack.is_empty() && pipe.stack_slots() & event.enabled_slots.load(Ordering::Relaxed) != 0 {
        let mut frames = [0; MAX_STACK_FRAMES];
        let count = diagport_sys::stack::capture(&mut frames);
        return write_to_sessions(pipe, event, &EventContext { stack: &frames[..count], ..*context }, encode);
    }
    write_to_sessions(pipe, event, context, encode)
}

#[inline(always)]
fn write_to_sessions(
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
        let without_stack = record.map(|record| Record { stack: &[], ..record });
        let stack_slots = pipe.stack_slots();
        let mut outcome = WriteOutcome::Disabled;
        let mut pending = event.enabled_slots.load(Ordering::Relaxed);
        let mut first_try = true;
        while pending != 0 {
            let guard = thread.enter();
            if first_try {
                // Lanes come before the stamp: see `EventBuffer::add_lane`.
                let found = find_lanes(lanes, pending, pipe, event, thread);
                pending = found.slots;
                if found.dropped {
                    outcome = WriteOutcome::Dropped;
                }
                first_try = false;
            }
            let stamp = pipe.time.stamp();
            let mut blocked = 0;
            for cached in
                lanes.iter().filter(|cached| cached.pipe_id == pipe.id && pending >> cached.slot & 1 == 1)
            {
                let lane = &cached.lane;
                let walked = stack_slots >> cached.slot & 1 == 1;
                let written = if walked { &record } else { &without_stack }
                    .as_ref()
                    .map_or_else(|| lane.discard(&guard), |record| lane.write(&guard, stamp, record));
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

struct FoundLanes {
    /// Slots that have an open lane.
    slots: u64,
    /// A session made no lane and has counted the event as lost.
    dropped: bool,
}

/// Makes sure, as far as may be, that `lanes` has an open lane for each wanted slot.
fn find_lanes(
    lanes: &mut Vec<CachedLane>,
    wanted: u64,
    pipe: &PipeInner,
    event: &EventCore,
    thread: &Arc<ProducerThread>,
) -> FoundLanes {
    let mut open = 0;
    for cached in lanes.iter().filter(|cached| cached.pipe_id == pipe.id && !cached.lane.is_closed()) {
        open |= 1 << cached.slot;
    }
    let mut missing = wanted & !open;
    if missing == 0 {
        return FoundLanes { slots: wanted, dropped: false };
    }
    lanes.retain(|cached| !cached.lane.is_closed());
    let mut found = FoundLanes { slots: wanted & open, dropped: false };
    while missing != 0 {
        let slot = missing.trailing_zeros();
        missing &= missing - 1;
        match pipe.add_lane(slot as usize, event, thread) {
            NewLane::Open(lane) => {
                lanes.push(CachedLane { pipe_id: pipe.id, slot, lane });
                found.slots |= 1 << slot;
            }
            NewLane::EventDropped => found.dropped = true,
            NewLane::NotWanted => {}
        }
    }
    found
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        self.lanes.iter().for_each(|cached| cached.lane.buffer().thread_is_ending());
        self.thread.mark_dead();
        for cached in &self.lanes {
            cached.lane.buffer().thread_ended();
        }
    }
}

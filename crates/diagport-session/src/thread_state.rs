//! What a thread keeps to write events: its identity, its lanes, and memory for one payload.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use diagport_buffer::{
    Lane, LaneWrite, MAX_STACK_FRAMES, Parking, Producer, ProducerGuard, ProducerThread, Record,
};

use crate::event::{EventContext, EventCore, WriteOutcome};
use crate::event_pipe::{NewLane, PipeInner};
use crate::field::{EventFields, PayloadBuffer};

thread_local! {
    static PARKING: Cell<Parking> = const { Cell::new(Parking::Allowed) };
    static STATE: RefCell<ThreadState> = RefCell::new(ThreadState::of_this_thread());
}

/// Dropped when its thread ends: then the sessions learn that nothing more comes from it.
struct ThreadState {
    producer: Producer,
    /// Of the process that made it: a forked child has the thread's memory, another thread and none of the drains.
    fork_generation: u32,
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

/// Writes one event to all sessions that want it. A function of its own, so that the stack begins with its caller.
#[inline(never)]
pub(crate) fn write<F: EventFields>(
    pipe: &PipeInner,
    event: &EventCore,
    context: Option<&EventContext<'_>>,
    args: &F::Args<'_>,
) -> WriteOutcome {
    // A forked child has no drains: nobody would ever read what it writes.
    if pipe.is_of_another_process() {
        return WriteOutcome::Disabled;
    }
    let has_stack = context.is_some_and(|context| !context.stack.is_empty());
    // spec: SES-STACK-1
    if !has_stack && pipe.stack_slots() & event.enabled_slots.load(Ordering::Relaxed) != 0 {
        let mut frames = [0; MAX_STACK_FRAMES];
        let count = diagport_sys::stack::capture(&mut frames);
        let context = EventContext { stack: &frames[..count], ..context.copied().unwrap_or_default() };
        return write_to_sessions::<F>(pipe, event, Some(&context), args);
    }
    write_to_sessions::<F>(pipe, event, context, args)
}

#[inline(always)]
fn write_to_sessions<F: EventFields>(
    pipe: &PipeInner,
    event: &EventCore,
    context: Option<&EventContext<'_>>,
    args: &F::Args<'_>,
) -> WriteOutcome {
    let usual = STATE.try_with(|state| {
        let mut state = state.try_borrow_mut().ok()?;
        if state.is_of_another_process() {
            state.start_anew();
        }
        Some(state.write::<F>(pipe, event, context, args))
    });
    match usual {
        Ok(Some(outcome)) => outcome,
        // The thread is being torn down: an identity for this one event keeps the accounts exact.
        Ok(None) | Err(_) => {
            ThreadState::new(String::new(), PARKING.get()).write::<F>(pipe, event, context, args)
        }
    }
}

impl ThreadState {
    fn of_this_thread() -> Self {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        Self::new(name, PARKING.get())
    }

    fn new(name: String, parking: Parking) -> Self {
        Self {
            producer: Producer::new(os_thread_id(), name, parking),
            fork_generation: diagport_sys::fork::generation(),
            lanes: Vec::new(),
            payload: PayloadBuffer::new(),
        }
    }

    fn is_of_another_process(&self) -> bool {
        diagport_sys::fork::generation() != self.fork_generation
    }

    /// What the parent's threads held at the fork is held for ever here, so none of it may be touched.
    fn forget_parent(&mut self) {
        std::mem::forget(std::mem::take(&mut self.lanes));
    }

    /// A child that has a pipe of its own starts anew.
    #[cold]
    fn start_anew(&mut self) {
        self.forget_parent();
        *self = Self::new(String::new(), PARKING.get());
    }

    #[inline(always)]
    fn write<F: EventFields>(
        &mut self,
        pipe: &PipeInner,
        event: &EventCore,
        context: Option<&EventContext<'_>>,
        args: &F::Args<'_>,
    ) -> WriteOutcome {
        let Self { producer, lanes, payload, .. } = self;
        let slots = event.enabled_slots.load(Ordering::Relaxed);
        // The usual case: an event without a context, for one session, with a lane here already. It has room nearly always.
        if context.is_none()
            && let Some(cached) = lanes.first()
            && slots == 1 << cached.slot
            && cached.pipe_id == pipe.id
        {
            let mut guard = producer.enter();
            let stamp = pipe.time.stamp();
            if cached.lane.write_in_place(&mut guard, stamp, event.key, |space| F::encode(args, space)) {
                return WriteOutcome::Written;
            }
            match write_beside::<F>(payload, &cached.lane, &mut guard, stamp, event.key, args) {
                LaneWrite::Written => return WriteOutcome::Written,
                LaneWrite::Dropped => return WriteOutcome::Dropped,
                LaneWrite::Blocked => {
                    drop(guard);
                    producer.thread().park();
                    return self.write_to_all(pipe, event, context, Lanes::Known(slots));
                }
                // The slot may have another session by now.
                LaneWrite::Disabled => {}
            }
        }
        self.payload.clear();
        F::encode(args, &mut self.payload);
        self.write_to_all(pipe, event, context, Lanes::Wanted(slots))
    }

    #[inline(never)]
    fn write_to_all(
        &mut self,
        pipe: &PipeInner,
        event: &EventCore,
        context: Option<&EventContext<'_>>,
        to: Lanes,
    ) -> WriteOutcome {
        let Self { producer, lanes, payload, .. } = self;
        let payload = payload.payload();
        let stack_slots = pipe.stack_slots();
        let mut outcome = WriteOutcome::Disabled;
        let (mut pending, mut wanted) = match to {
            Lanes::Wanted(slots) => (slots, slots),
            Lanes::Known(slots) => (slots, 0),
        };
        while pending != 0 {
            let mut guard = producer.enter();
            if wanted != 0 {
                // Lanes come before the stamp: see `EventBuffer::add_lane`.
                let found = find_lanes(lanes, wanted, pipe, event, guard.thread());
                pending = found.slots;
                if found.dropped {
                    outcome = WriteOutcome::Dropped;
                }
                wanted = 0;
            }
            let stamp = pipe.time.stamp();
            let mut blocked = 0;
            for cached in
                lanes.iter().filter(|cached| cached.pipe_id == pipe.id && pending >> cached.slot & 1 == 1)
            {
                let lane = &cached.lane;
                let walked = stack_slots >> cached.slot & 1 == 1;
                let written = match payload {
                    Some(payload) => lane.write(&mut guard, stamp, &record(event, payload, context, walked)),
                    None => lane.discard(&mut guard),
                };
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
                producer.thread().park();
            }
            pending = blocked;
        }
        outcome
    }
}

/// Slots that an event goes to, its payload encoded already.
#[derive(Clone, Copy)]
enum Lanes {
    /// Lanes may have to be found or made.
    Wanted(u64),
    /// The event stands in the queues of these.
    Known(u64),
}

/// Through the thread's scratch memory, where the chunk has no room or the reader asks for the lane: still inside the gate, with the stamp it has.
#[inline(never)]
fn write_beside<F: EventFields>(
    payload: &mut PayloadBuffer,
    lane: &Arc<Lane>,
    guard: &mut ProducerGuard<'_>,
    stamp: u64,
    event_key: u32,
    args: &F::Args<'_>,
) -> LaneWrite {
    payload.clear();
    F::encode(args, payload);
    match payload.payload() {
        Some(payload) => lane.write(guard, stamp, &Record::new(event_key, payload)),
        None => lane.discard(guard),
    }
}

#[inline(always)]
fn record<'a>(
    event: &EventCore,
    payload: &'a [u8],
    context: Option<&EventContext<'a>>,
    walked: bool,
) -> Record<'a> {
    let mut record = Record::new(event.key, payload);
    if let Some(context) = context {
        let non_zero = |id: [u8; 16]| (id != [0; 16]).then_some(id);
        record.activity_id = non_zero(context.activity_id);
        record.related_activity_id = non_zero(context.related_activity_id);
        record.thread_id = context.thread_id;
        if walked {
            record.stack = context.stack;
        }
    }
    record
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
        if self.is_of_another_process() {
            return self.forget_parent();
        }
        self.lanes.iter().for_each(|cached| cached.lane.thread_is_ending());
        self.producer.thread().mark_dead();
        for cached in &self.lanes {
            cached.lane.buffer().thread_ended();
        }
    }
}

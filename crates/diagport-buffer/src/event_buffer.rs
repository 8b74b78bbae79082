//! All lanes of one session under one byte budget.

use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::chunk::Chunk;
use crate::chunk_memory::{SLAB_BYTES, Slab};
use crate::fence::{self, Fenced};
use crate::lane::{BufferTotals, FIRST_CHUNK_BYTES, Lane, LaneWrite, Liveness, MAX_CHUNK_BYTES};
use crate::lock::lock;
use crate::producer_thread::{Outside, Parking, ProducerThread};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, mutant};
use crate::wait_queue::{Turn, WaitQueue, Waiter};

/// What happens to an event that finds no capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferingMode {
    /// It is dropped and counted; its thread never waits.
    Drop,
    /// Its thread waits until the reader has freed capacity.
    Block,
}

/// Why the reader should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// A lane that was empty has a record.
    FirstRecord,
    /// Much of the budget is in use, or there was no capacity left.
    FillLevel,
    /// A thread waits for capacity.
    ProducerParked,
    /// A thread that has a lane here has ended.
    ThreadEnded,
}

/// The reader's bell. Called by producers, with no lock of the buffer held; must not block.
pub trait WakeReader: Send + Sync {
    /// See [`WakeReason`].
    fn wake(&self, reason: WakeReason);
}

/// The budget, its chunks and the threads that share them.
pub struct EventBuffer {
    mode: BufferingMode,
    budget_bytes: usize,
    largest_chunk_bytes: usize,
    /// With so much in use the reader is called.
    fill_mark_bytes: usize,
    reader: Arc<dyn WakeReader>,
    /// How often capacity was freed, for producers that were refused.
    releases: CachePadded<AtomicU64>,
    /// Held by the reader during a take.
    reading: Mutex<()>,
    state: CachePadded<Mutex<State>>,
}

/// With so many lanes of ended threads unread, and no capacity in Drop mode, no lane is made: a reader that does not read must not cost more
/// memory with each thread that comes and goes.
const MAX_UNREAD_ENDED_LANES: usize = 512;
/// What the lane of an ended thread takes besides its chunks, with what the reader keeps of it, about.
const ENDED_LANE_BYTES: usize = 1 << 10;
/// How often a take looks at the gates of threads that are inside, all together: some tenths of a second.
const MAX_TURNS: u32 = if cfg!(loom) { u32::MAX } else { 3_000 };
/// The same for the last take, after which there is no other for what a thread has that was only preempted: a second or so.
const MAX_LAST_TURNS: u32 = if cfg!(loom) { u32::MAX } else { 10_000 };
/// What is in use before the reader is called, at most.
const MAX_FILL_MARK_BYTES: usize = 64 << 20;

#[derive(Debug)]
struct State {
    /// Capacity of the chunks that lanes or the reader hold. `used_bytes` + `pooled_bytes` never exceeds the budget.
    used_bytes: usize,
    pooled_bytes: usize,
    pool: Vec<Chunk>,
    /// What large chunks are cut from, where the budget is large enough for slabs.
    slab: Option<Slab>,
    uses_slabs: bool,
    releases: u64,
    waiters: WaitQueue,
    /// A round has ended without room for the chunk that the front of the queue waits for: it takes a smaller one.
    scarce: bool,
    lanes: Vec<Arc<Lane>>,
    next_lane_id: u64,
    aborting: bool,
    closed: bool,
    /// Of lanes that are gone, and drops without one.
    retired: BufferTotals,
    /// Drops without a lane that the reader does not know of yet.
    untold_drops: u64,
    /// Lanes of ended threads that were not read to the end.
    ended_lanes: usize,
}

/// What [`EventBuffer::collect`] found on one lane.
#[derive(Debug)]
pub struct LaneTake<'a> {
    /// Where it comes from.
    pub lane: &'a Arc<Lane>,
    /// Move them out; give each back by [`EventBuffer::release`] once it is read.
    pub chunks: &'a mut Vec<Chunk>,
    /// Attempts of the lane up to this take. Those beyond its last record were lost after it.
    pub attempts: u64,
    /// Whether more can come.
    pub liveness: Liveness,
}

pub(crate) enum Acquired {
    Chunk {
        chunk: Chunk,
        filled: Option<WakeReason>,
    },
    Wait,
    /// Until something is freed, where the count of that is given.
    Refused {
        releases: Option<u64>,
    },
}

impl EventBuffer {
    /// A buffer that never holds more than `budget_bytes` of chunks (at least 1).
    #[must_use]
    pub fn new(mode: BufferingMode, budget_bytes: usize, reader: Arc<dyn WakeReader>) -> Arc<Self> {
        let state = State {
            used_bytes: 0,
            pooled_bytes: 0,
            pool: Vec::new(),
            slab: None,
            uses_slabs: budget_bytes >= 16 * SLAB_BYTES,
            releases: 0,
            waiters: WaitQueue::default(),
            scarce: false,
            lanes: Vec::new(),
            next_lane_id: 0,
            aborting: false,
            closed: false,
            retired: BufferTotals::default(),
            untold_drops: 0,
            ended_lanes: 0,
        };
        fence::prepare();
        Arc::new(Self {
            mode,
            budget_bytes: budget_bytes.max(1),
            largest_chunk_bytes: (budget_bytes / 16).clamp(1, MAX_CHUNK_BYTES),
            fill_mark_bytes: (budget_bytes / 4).min(MAX_FILL_MARK_BYTES),
            reader,
            releases: CachePadded::new(AtomicU64::new(0)),
            reading: Mutex::new(()),
            state: CachePadded::new(Mutex::new(state)),
        })
    }

    /// See [`Self::new`].
    #[must_use]
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// Makes the lane of a thread that has none here. None once the buffer is closed; and where it could only lose events, while many lanes of
    /// ended threads are unread: then [`Self::drop_without_lane`] counts.
    ///
    /// Call it inside the thread's gate and before the stamp: then a reader whose [`collect`](Self::collect) did not see the lane took its
    /// boundary before that stamp.
    #[must_use]
    pub fn add_lane(self: &Arc<Self>, thread: &Arc<ProducerThread>) -> Option<Arc<Lane>> {
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        let first = FIRST_CHUNK_BYTES.min(self.largest_chunk_bytes);
        // With that many, some have no chunk at all: they lost what they had to say.
        let chunkless = MAX_UNREAD_ENDED_LANES.max(self.budget_bytes / first);
        let limit = if self.left_bytes(&state) < first { MAX_UNREAD_ENDED_LANES } else { chunkless };
        if self.mode == BufferingMode::Drop && state.ended_lanes >= limit {
            return None;
        }
        let count = state.lanes.len() + 1;
        state.lanes.try_reserve(1).ok()?;
        state.waiters.reserve_for(count).ok()?;
        let id = state.next_lane_id;
        state.next_lane_id += 1;
        let lane = Arc::new(Lane::new(id, Arc::clone(thread), Arc::clone(self), first));
        state.lanes.push(Arc::clone(&lane));
        Some(lane)
    }

    /// Counts the drop of an event whose thread has no lane, because [`Self::add_lane`] made none: `Dropped`, or `Disabled` once closed.
    pub fn drop_without_lane(&self) -> LaneWrite {
        let mut state = lock(&self.state);
        if state.closed {
            return LaneWrite::Disabled;
        }
        state.untold_drops += 1;
        state.retired.attempts += 1;
        state.retired.drops += 1;
        LaneWrite::Dropped
    }

    /// For the reader: drops without a lane since the last call.
    pub fn take_drops_without_lane(&self) -> u64 {
        std::mem::take(&mut lock(&self.state).untold_drops)
    }

    /// Takes everything that was written, lane by lane, and forgets the lanes of ended threads. For one thread at a time, the reader. A round ends with
    /// [`Self::end_round`].
    ///
    /// If the caller reads its clock first (T), every record stamped below T is in this take or an earlier one: each lane's
    /// thread is seen outside its gate after T. A thread that does not leave its gate for some tenths of a second is left out, and what it has comes later.
    pub fn collect(&self, visit: impl FnMut(LaneTake<'_>)) {
        self.collect_within(MAX_TURNS, visit);
    }

    /// [`Self::collect`] for the last time, after [`Self::close`]: a thread is left out, and what it has is lost to the reader, only if it stays in its gate for
    /// a second.
    pub fn collect_last(&self, visit: impl FnMut(LaneTake<'_>)) {
        self.collect_within(MAX_LAST_TURNS, visit);
    }

    #[allow(unsafe_code, reason = "the writer's side of each lane is handed over by its gate")]
    fn collect_within(&self, mut turns: u32, mut visit: impl FnMut(LaneTake<'_>)) {
        let _only_reader = lock(&self.reading);
        let (lanes, closed) = {
            let state = lock(&self.state);
            (state.lanes.clone(), state.closed)
        };
        lanes.iter().for_each(|lane| lane.revoke());
        if !mutant("reader_without_fence") && fence::seldom() == Fenced::No {
            // Nothing may be touched. The next round tries again.
            return;
        }
        let mut chunks = Vec::new();
        let mut ended = false;
        for lane in &lanes {
            // Read before the take: a thread that was dead by then cannot have written after it.
            let alive = lane.thread().is_alive();
            let liveness = if alive && !closed { Liveness::Live } else { Liveness::Ended };
            if !mutant("take_inside_gate") && lane.thread().await_outside(&mut turns) == Outside::NotSeen {
                // The others are not to wait for it. What it has comes in a later round.
                continue;
            }
            // SAFETY: this is the one reader, by the lock; revoked, fenced and seen outside just now, in that order.
            let attempts = unsafe { lane.take(&mut chunks, liveness) };
            ended |= liveness == Liveness::Ended;
            visit(LaneTake { lane, chunks: &mut chunks, attempts, liveness });
            chunks.drain(..).for_each(|chunk| self.release(chunk));
        }
        if ended {
            self.forget_taken_lanes();
        }
    }

    fn forget_taken_lanes(&self) {
        // A lane's lock is never taken under the buffer's: writers take them the other way round.
        let lanes = lock(&self.state).lanes.clone();
        let taken: Vec<bool> = lanes.iter().map(|lane| lane.is_taken()).collect();
        let mut gone = BufferTotals::default();
        for (lane, _) in lanes.iter().zip(&taken).filter(|(_, taken)| **taken) {
            let totals = lane.totals();
            gone.attempts += totals.attempts;
            gone.drops += totals.drops;
        }
        let mut state = lock(&self.state);
        let charged = |(lane, taken): &(&Arc<Lane>, &bool)| **taken && lane.is_ending();
        let charged_lanes = lanes.iter().zip(&taken).filter(charged).count();
        // Lanes are only ever added at the end, and only the reader removes them.
        let mut taken = taken.into_iter();
        state.lanes.retain(|_| !taken.next().unwrap_or(false));
        state.retired.attempts += gone.attempts;
        state.retired.drops += gone.drops;
        state.ended_lanes -= charged_lanes;
        let front = if charged_lanes > 0 { self.freed(&mut state) } else { None };
        if state.lanes.capacity() > 4 * state.lanes.len() + 64 {
            let room = 2 * state.lanes.len() + 16;
            state.lanes.shrink_to(room);
        }
        drop(state);
        wake(front);
    }

    /// Gives a chunk's capacity back, and wakes who waits first once there is room for the chunk it waits for.
    pub fn release(&self, mut chunk: Chunk) {
        chunk.reset();
        let bytes = chunk.capacity_bytes();
        let front = {
            let mut state = lock(&self.state);
            state.used_bytes -= bytes;
            if !state.closed {
                // Without memory for the list it is freed.
                if state.pool.try_reserve(1).is_ok() {
                    state.pooled_bytes += bytes;
                    state.pool.push(chunk);
                }
            }
            self.freed(&mut state)
        };
        wake(front);
    }

    /// Says that there is capacity again; whom to wake, once the lock is given back.
    fn freed(&self, state: &mut State) -> Option<Arc<Lane>> {
        state.releases += 1;
        // Relaxed: a producer that sees it late drops one event more, as if it had come before.
        self.releases.store(state.releases, Ordering::Relaxed);
        self.served_front(state)
    }

    /// Who waits first, if there is now what it waits for.
    fn served_front(&self, state: &State) -> Option<Arc<Lane>> {
        let front = state.waiters.front()?;
        (front.wanted_bytes <= self.left_bytes(state)).then(|| Arc::clone(&front.lane))
    }

    /// For the reader, once it has released what it can of a round: who waits first, for a larger chunk than there is room for now, takes a smaller one.
    pub fn end_round(&self) {
        let front = {
            let mut state = lock(&self.state);
            let left = self.left_bytes(&state);
            let front = state.waiters.front();
            // Whom it would not help is not woken: it would ring, for a round that frees as little.
            let helped = front.filter(|front| front.needed_bytes <= left && left < front.wanted_bytes);
            let helped = helped.map(|front| Arc::clone(&front.lane));
            state.scarce |= helped.is_some();
            helped
        };
        wake(front.filter(|_| !mutant("no_end_of_round")));
    }

    #[inline]
    pub(crate) fn releases(&self) -> u64 {
        self.releases.load(Ordering::Relaxed)
    }

    /// Lets every parked thread go, now and from now on: each gives up its event as a counted drop. Counts are exact on return.
    pub fn abort(&self) {
        let abandoned = {
            let mut state = lock(&self.state);
            state.aborting = true;
            state.waiters.take_all()
        };
        for waiter in abandoned {
            waiter.lane.abandon();
        }
    }

    /// Ends all writing: every later write is `Disabled` and not counted. A [`collect`](Self::collect) after it takes the rest.
    /// Aborts first, so nobody is left waiting.
    pub fn close(&self) {
        self.abort();
        let lanes = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.pool = Vec::new();
            state.slab = None;
            state.pooled_bytes = 0;
            state.lanes.clone()
        };
        for lane in lanes {
            lane.close();
        }
    }

    /// Counts over all lanes that ever were.
    #[must_use]
    pub fn totals(&self) -> BufferTotals {
        // Under the one lock, so that a lane which is just being forgotten counts once.
        let (lanes, mut totals) = {
            let state = lock(&self.state);
            (state.lanes.clone(), state.retired)
        };
        for lane in lanes {
            let of_lane = lane.totals();
            totals.attempts += of_lane.attempts;
            totals.drops += of_lane.drops;
        }
        totals
    }

    /// Lanes that exist now: live threads, and ended ones that were not read to the end yet.
    #[must_use]
    pub fn lane_count(&self) -> usize {
        lock(&self.state).lanes.len()
    }

    /// Threads that wait for capacity now.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        lock(&self.state).waiters.len()
    }

    /// Bytes of all chunks there are, in use or pooled; never above the budget.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let state = lock(&self.state);
        state.used_bytes + state.pooled_bytes
    }

    /// With the mark of the lane under the same lock, so that what was charged is given back once.
    pub(crate) fn charge_ended_lane(&self, ending: &AtomicBool) {
        let mut state = lock(&self.state);
        if !state.closed {
            ending.store(true, Ordering::Relaxed);
            state.ended_lanes += 1;
        }
    }

    /// What can be taken yet; lanes of ended threads may have used more than there is.
    fn left_bytes(&self, state: &State) -> usize {
        self.budget_bytes.saturating_sub(state.used_bytes + state.ended_lane_bytes())
    }

    /// Passes on that a thread with a lane here has ended. Call it after [`ProducerThread::mark_dead`].
    pub fn thread_ended(&self) {
        // Between the mark and the look whether the reader wants to be rung. The reader has its fence between wanting that and looking at the mark.
        if !mutant("end_without_fence") {
            fence::often();
        }
        self.reader.wake(WakeReason::ThreadEnded);
    }

    pub(crate) fn wake_reader(&self, reason: WakeReason) {
        self.reader.wake(reason);
    }

    pub(crate) fn grown(&self, chunk_bytes: usize) -> usize {
        (2 * chunk_bytes).min(self.largest_chunk_bytes)
    }

    pub(crate) fn shrunk(&self, chunk_bytes: usize) -> usize {
        (chunk_bytes / 2).max(FIRST_CHUNK_BYTES).min(self.largest_chunk_bytes)
    }

    /// A chunk of `wanted_bytes`, or of less if only less is left and nobody waits, but of at least `needed_bytes`.
    /// Only an empty queue or its front gets one; in Block mode everybody else is queued, once (`queued` says it already is).
    ///
    /// Who has waited gets a chunk of the size that it asked for, or a smaller one after [`Self::end_round`]. Otherwise the chunk that is freed first would
    /// decide how far its thread gets: the order of the queue and the order in which chunks are freed are the same, round for round.
    // spec: SES-BLOCK-3
    pub(crate) fn acquire(
        &self,
        lane: &Arc<Lane>,
        needed_bytes: usize,
        wanted_bytes: usize,
        queued: bool,
    ) -> Acquired {
        let mut state = lock(&self.state);
        let turn = state.waiters.turn(lane);
        if turn != Turn::Behind || mutant("overtake") {
            let left = self.left_bytes(&state);
            let front = state.waiters.front().filter(|_| turn == Turn::Front);
            let mut size = front.map_or(wanted_bytes, |front| front.wanted_bytes).max(needed_bytes);
            let takes_less = turn != Turn::Front || state.scarce;
            while takes_less && size > needed_bytes && size > left {
                size = (size / 2).max(needed_bytes);
            }
            if size <= left {
                let chunk = state.chunk_of(size, self.budget_bytes);
                let next = if turn == Turn::Front {
                    state.waiters.pop_front();
                    state.scarce = false;
                    self.served_front(&state)
                } else {
                    None
                };
                let used_bytes = state.used_bytes;
                drop(state);
                if let Some(next) = next.filter(|_| !mutant("no_chained_wake")) {
                    next.thread().unpark();
                }
                let Some(chunk) = chunk else { return Acquired::Refused { releases: None } };
                let filled = (used_bytes >= self.fill_mark_bytes).then_some(WakeReason::FillLevel);
                return Acquired::Chunk { chunk, filled };
            }
        }
        let waits = self.mode == BufferingMode::Block
            && !state.aborting
            && lane.thread().parking() == Parking::Allowed;
        if !waits {
            // Who stands behind others may be served without a release.
            let releases = (turn != Turn::Behind).then_some(state.releases);
            return Acquired::Refused { releases };
        }
        if !queued {
            let wanted_bytes = wanted_bytes.max(needed_bytes);
            state.waiters.push_back(Waiter { lane: Arc::clone(lane), wanted_bytes, needed_bytes });
        }
        Acquired::Wait
    }
}

/// A wake-up may take longer than what a lock is for.
fn wake(front: Option<Arc<Lane>>) {
    if let Some(front) = front.filter(|_| !mutant("release_without_wake")) {
        front.thread().unpark();
    }
}

impl State {
    /// The caller has checked the budget. None only if there is no memory.
    fn chunk_of(&mut self, size: usize, budget_bytes: usize) -> Option<Chunk> {
        // Chunks have few sizes and the newest are the warmest, so a short look suffices.
        let recent = self.pool.len().saturating_sub(16);
        let found = self.pool[recent..].iter().rposition(|chunk| chunk.capacity_bytes() == size);
        let chunk = if let Some(at) = found {
            let chunk = self.pool.swap_remove(recent + at);
            self.pooled_bytes -= chunk.capacity_bytes();
            chunk
        } else {
            while self.used_bytes + self.pooled_bytes + self.ended_lane_bytes() + size > budget_bytes {
                let Some(unfit) = self.pool.pop() else { break };
                self.pooled_bytes -= unfit.capacity_bytes();
            }
            self.pool.try_reserve(1).ok()?;
            self.new_chunk(size)?
        };
        self.used_bytes += chunk.capacity_bytes();
        Some(chunk)
    }

    /// Capacity that the lanes of ended threads stand for.
    fn ended_lane_bytes(&self) -> usize {
        self.ended_lanes * ENDED_LANE_BYTES
    }

    fn new_chunk(&mut self, size: usize) -> Option<Chunk> {
        if !self.uses_slabs || size != MAX_CHUNK_BYTES {
            return Chunk::on_heap(size);
        }
        let cut = self.slab.as_mut().and_then(|slab| Chunk::of_slab(slab, size));
        cut.or_else(|| Chunk::of_slab(self.slab.insert(Slab::new()?), size)).or_else(|| Chunk::on_heap(size))
    }
}

impl fmt::Debug for EventBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBuffer")
            .field("mode", &self.mode)
            .field("budget_bytes", &self.budget_bytes)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LaneWrite, Producer, Record};

    struct Silent;

    impl WakeReader for Silent {
        fn wake(&self, _reason: WakeReason) {}
    }

    /// A stop request on one thread is still letting the waiting threads go while the drain closes and takes the rest.
    #[test]
    fn a_close_overtakes_an_abort_and_the_count_is_in_the_last_take() {
        let buffer = EventBuffer::new(BufferingMode::Block, 1000, Arc::new(Silent));
        let mut producer = Producer::new(1, String::new(), Parking::Allowed);
        let lane = buffer.add_lane(producer.thread()).expect("open");
        let mut written = 0;
        let record = Record::new(0, &[0; 100]);
        while lane.write(&mut producer.enter(), 0, &record) == LaneWrite::Written {
            written += 1;
        }
        let being_abandoned = {
            let mut state = lock(&buffer.state);
            state.aborting = true;
            state.waiters.take_all()
        };
        buffer.close();
        let mut taken = 0;
        buffer.collect(|take| taken = take.attempts);
        being_abandoned.iter().for_each(|waiter| waiter.lane.abandon());
        producer.thread().park();
        assert_eq!(lane.write(&mut producer.enter(), 0, &record), LaneWrite::Dropped);
        assert_eq!(lane.write(&mut producer.enter(), 0, &record), LaneWrite::Disabled);
        assert_eq!(taken, written + 1);
        assert_eq!(buffer.totals(), BufferTotals { attempts: written + 1, drops: 1 });
    }
}

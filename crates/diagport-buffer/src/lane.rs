//! What one thread has written for one session.

use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::chunk::{Chunk, MAX_PAYLOAD_BYTES, Record};
use crate::event_buffer::{Acquired, EventBuffer, WakeReason};
use crate::lock::lock;
use crate::payload_space::PayloadSpace;
use crate::producer_thread::{ProducerGuard, ProducerThread};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{HandedCell, Mutex, MutexGuard, mutant};

/// A lane's first chunk; each full one is followed by one of twice the size, up to [`MAX_CHUNK_BYTES`].
pub(crate) const FIRST_CHUNK_BYTES: usize = 4 * 1024;
pub(crate) const MAX_CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that a lane keeps room for in its list.
const MAX_LIST_ROOM: usize = 16;

/// What became of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LaneWrite {
    /// The reader will see it.
    Written,
    /// Counted, and lost: no capacity, no memory, or too large.
    Dropped,
    /// Not counted yet: no capacity, and the thread now stands in the queue. Leave the gate, park, enter again, stamp again, and
    /// write the same record again.
    Blocked,
    /// The session takes no more events. Not counted.
    Disabled,
}

/// One per thread and session. Only its thread writes, only the session's reader takes.
///
/// Who may touch the writer's side, `writer`:
/// - its thread, inside its gate, where `attention` is false; or inside its gate with `state` locked;
/// - the reader, with `state` locked, after it has set `attention`, fenced, and seen the thread outside its gate.
///
/// The thread sets its gate and then looks at `attention`, the reader the other way round, so they cannot both go on: see `fence.rs`.
pub struct Lane {
    id: u64,
    thread: Arc<ProducerThread>,
    buffer: Arc<EventBuffer>,
    /// Asks the thread to take the lock. Set by the reader for each take, and for good by the end.
    attention: AtomicBool,
    /// The end has come: for a thread that only wants to know whether to forget the lane. Never cleared.
    over: AtomicBool,
    /// Its thread has said that it ends, and the lane is charged.
    ending: AtomicBool,
    state: Mutex<LaneState>,
    counts: CachePadded<SharedCounts>,
    writer: HandedCell<Writer>,
}

/// What others may read at any time; stored by the writer's side alone, which keeps its own copies.
#[derive(Debug)]
struct SharedCounts {
    attempts: AtomicU64,
    drops: AtomicU64,
}

#[derive(Debug)]
struct Writer {
    /// The one that is being filled; no capacity where there is none.
    current: Chunk,
    full: Vec<Chunk>,
    /// Attempts ever made, written or dropped. The reader learns of loss by it.
    attempts: u64,
    drops: u64,
    next_chunk_bytes: usize,
    refusal: Option<Refusal>,
}

/// In Drop mode, "no" stands until something is freed.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    needed_bytes: usize,
    releases: u64,
}

#[derive(Debug)]
struct LaneState {
    waiting: Waiting,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    No,
    Queued,
    /// An abort took the lane out of the queue; its event is a drop, which the thread does not know yet and has not counted.
    Abandoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// Takes nothing more.
    Closed,
    /// Nothing more can come and the reader has taken all of it.
    Taken,
}

/// Counts of one lane or of a whole buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferTotals {
    /// Writes that were counted: written or dropped.
    pub attempts: u64,
    /// Those of them that were dropped.
    pub drops: u64,
}

/// Whether more can come on a lane after a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The thread lives and the session is open.
    Live,
    /// The thread ended or the session is closed: this take was the last one.
    Ended,
}

impl Lane {
    pub(crate) fn new(
        id: u64,
        thread: Arc<ProducerThread>,
        buffer: Arc<EventBuffer>,
        first_chunk_bytes: usize,
    ) -> Self {
        let writer = Writer {
            current: Chunk::NONE,
            full: Vec::new(),
            attempts: 0,
            drops: 0,
            next_chunk_bytes: first_chunk_bytes,
            refusal: None,
        };
        Self {
            id,
            thread,
            buffer,
            attention: AtomicBool::new(false),
            over: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            state: Mutex::new(LaneState { waiting: Waiting::No, life: Life::Open }),
            counts: CachePadded::new(SharedCounts { attempts: AtomicU64::new(0), drops: AtomicU64::new(0) }),
            writer: HandedCell::new(writer),
        }
    }

    /// Unique in its session, never reused.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The one thread that writes here.
    #[must_use]
    pub fn thread(&self) -> &Arc<ProducerThread> {
        &self.thread
    }

    /// The session's buffer.
    #[must_use]
    pub fn buffer(&self) -> &Arc<EventBuffer> {
        &self.buffer
    }

    /// Writes one record. `ticks` was read inside the gate that `guard` stands for, so it is not below any earlier stamp of
    /// this thread. Never waits; allocates only where a new chunk is due and the session's pool has none.
    ///
    /// For what [`Self::write_in_place`] does not do: a record with more than a payload, a new chunk, a drop. Without these two it takes no lock either.
    #[allow(unsafe_code, reason = "the writer's side is handed over by the gate")]
    pub fn write(
        self: &Arc<Self>,
        guard: &mut ProducerGuard<'_>,
        ticks: u64,
        record: &Record<'_>,
    ) -> LaneWrite {
        self.check(guard);
        let needed = record.encoded_bytes();
        // Acquire pairs with the Release in `take`: what the reader did with the writer's side is over.
        if !self.attention.load(Ordering::Acquire) {
            // SAFETY: the guard is of the lane's thread and borrowed for the call, so this is the only write; attention is not asked for. So the reader, if
            // it comes now, waits for the gate; and what it did last happened before the load.
            let outcome =
                unsafe { self.writer.with(|writer| self.write_quickly(writer, ticks, record, needed)) };
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
        self.write_locked(ticks, record, needed)
    }

    /// Writes a record with nothing but a payload, which `encode` puts straight into the chunk; stamps as for [`Self::write`]. Takes no lock, no fence
    /// and no read-modify-write. False, and nothing happened, where more is due than that or the payload does not fit: then [`Self::write`] does it.
    #[allow(unsafe_code, reason = "the writer's side is handed over by the gate")]
    #[inline(always)]
    pub fn write_in_place(
        &self,
        guard: &mut ProducerGuard<'_>,
        ticks: u64,
        event_key: u32,
        encode: impl FnOnce(&mut PayloadSpace<'_>),
    ) -> bool {
        self.check(guard);
        // Acquire pairs with the Release in `take`: what the reader did with the writer's side is over.
        if self.attention.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: as in `write`.
        unsafe {
            self.writer.with(|writer| {
                let attempt = writer.attempts + 1;
                let written = writer.current.push_in_place(attempt, ticks, event_key, encode);
                if written {
                    writer.attempts = attempt;
                    self.counts.attempts.store(attempt, Ordering::Relaxed);
                }
                written
            })
        }
    }

    /// None where a lock is due: there is no room in the current chunk.
    fn write_quickly(
        &self,
        writer: &mut Writer,
        ticks: u64,
        record: &Record<'_>,
        needed: usize,
    ) -> Option<LaneWrite> {
        if record.payload.len() > MAX_PAYLOAD_BYTES {
            return None;
        }
        if writer.current.fits(needed) {
            self.push(writer, ticks, record);
            return Some(LaneWrite::Written);
        }
        let refusal = writer.refusal?;
        let stands = needed >= refusal.needed_bytes && refusal.releases == self.buffer.releases();
        stands.then(|| self.count_drop(writer))
    }

    #[inline]
    fn push(&self, writer: &mut Writer, ticks: u64, record: &Record<'_>) {
        writer.attempts += 1;
        writer.current.push(writer.attempts, ticks, record);
        // Relaxed: a count for people; the reader has the true one by the gate.
        self.counts.attempts.store(writer.attempts, Ordering::Relaxed);
    }

    fn count_drop(&self, writer: &mut Writer) -> LaneWrite {
        writer.attempts += 1;
        writer.drops += 1;
        self.counts.attempts.store(writer.attempts, Ordering::Relaxed);
        self.counts.drops.store(writer.drops, Ordering::Relaxed);
        LaneWrite::Dropped
    }

    #[allow(unsafe_code, reason = "the writer's side is handed over by the lock")]
    #[cold]
    #[inline(never)]
    fn write_locked(self: &Arc<Self>, ticks: u64, record: &Record<'_>, needed: usize) -> LaneWrite {
        let state = lock(&self.state);
        // SAFETY: the lane's thread (the caller holds its guard) with the lock; the reader touches it only with the lock.
        let (outcome, wake) =
            unsafe { self.writer.with(|writer| self.write_with_lock(state, writer, ticks, record, needed)) };
        if let Some(reason) = wake {
            self.buffer.wake_reader(reason);
        }
        outcome
    }

    /// The outcome, and why the reader should look.
    fn write_with_lock(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, LaneState>,
        writer: &mut Writer,
        ticks: u64,
        record: &Record<'_>,
        needed: usize,
    ) -> (LaneWrite, Option<WakeReason>) {
        if let Some(outcome) = self.not_open(&mut state, writer) {
            return (outcome, None);
        }
        if record.payload.len() > MAX_PAYLOAD_BYTES || needed > self.buffer.budget_bytes() {
            state.waiting = Waiting::No;
            return (self.count_drop(writer), None);
        }
        if writer.current.fits(needed) {
            self.push(writer, ticks, record);
            return (LaneWrite::Written, None);
        }
        let was_empty = writer.current.capacity_bytes() == 0;
        let queued = state.waiting == Waiting::Queued;
        match self.buffer.acquire(self, needed, writer.next_chunk_bytes, queued) {
            Acquired::Chunk { chunk, filled } => {
                state.waiting = Waiting::No;
                writer.refusal = None;
                // Not before the chunk is there: joining the queue allocates nothing.
                if !was_empty && writer.full.try_reserve(1).is_err() {
                    self.buffer.release(chunk);
                    return (self.count_drop(writer), None);
                }
                if !was_empty {
                    writer.next_chunk_bytes = self.buffer.grown(writer.next_chunk_bytes);
                }
                let before = std::mem::replace(&mut writer.current, chunk);
                if !was_empty {
                    writer.full.push(before);
                }
                self.push(writer, ticks, record);
                (LaneWrite::Written, filled.or_else(|| was_empty.then_some(WakeReason::FirstRecord)))
            }
            Acquired::Wait => {
                state.waiting = Waiting::Queued;
                (LaneWrite::Blocked, Some(WakeReason::ProducerParked))
            }
            Acquired::Refused { releases } => {
                state.waiting = Waiting::No;
                writer.refusal = releases.map(|releases| Refusal { needed_bytes: needed, releases });
                (self.count_drop(writer), Some(WakeReason::FillLevel))
            }
        }
    }

    /// Counts an attempt whose record could not even be made (too large, no memory): `Dropped`, or `Disabled`.
    #[allow(unsafe_code, reason = "the writer's side is handed over by the lock")]
    pub fn discard(&self, guard: &mut ProducerGuard<'_>) -> LaneWrite {
        self.check(guard);
        let mut state = lock(&self.state);
        // SAFETY: the lane's thread with the lock; the reader touches it only with the lock.
        unsafe {
            self.writer
                .with(|writer| self.not_open(&mut state, writer).unwrap_or_else(|| self.count_drop(writer)))
        }
    }

    /// A guard of another thread proves nothing about this lane.
    #[inline(always)]
    fn check(&self, guard: &ProducerGuard<'_>) {
        assert!(Arc::ptr_eq(guard.thread(), &self.thread), "a lane belongs to one thread");
    }

    /// Says that its thread is about to be marked dead: from then on until it is forgotten it counts as used capacity.
    pub fn thread_is_ending(&self) {
        self.buffer.charge_ended_lane(&self.ending);
    }

    /// Read with the buffer's state locked, as it is written.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Whether it takes nothing more, so that its thread can forget it. Whoever learns of a later session in some way that orders
    /// memory sees the lanes of the earlier ones closed; otherwise it may hear of it late, and write in vain.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Relaxed: nothing else is concluded from it.
        self.over.load(Ordering::Relaxed)
    }

    fn note(&self, state: &LaneState) {
        if state.life != Life::Open {
            // The last word on attention: nobody clears it once the life is over.
            if !mutant("close_without_mark") {
                self.attention.store(true, Ordering::Relaxed);
            }
            if state.waiting != Waiting::Abandoned {
                self.over.store(true, Ordering::Relaxed);
            }
        }
    }

    fn not_open(&self, state: &mut LaneState, writer: &mut Writer) -> Option<LaneWrite> {
        if state.waiting == Waiting::Abandoned {
            state.waiting = Waiting::No;
            self.note(state);
            return Some(self.count_drop(writer));
        }
        (state.life != Life::Open).then_some(LaneWrite::Disabled)
    }

    /// While the thread writes, its newest events may be missing.
    pub(crate) fn totals(&self) -> BufferTotals {
        let state = lock(&self.state);
        let abandoned = u64::from(state.waiting == Waiting::Abandoned);
        // The drops first: never more of them than attempts.
        let drops = self.counts.drops.load(Ordering::Relaxed);
        BufferTotals {
            attempts: self.counts.attempts.load(Ordering::Relaxed).max(drops) + abandoned,
            drops: drops + abandoned,
        }
    }

    /// The aborter has taken the lane out of the queue: the event it waited with is a drop, unless that was said already.
    pub(crate) fn abandon(&self) {
        lock(&self.state).abandon();
        if !mutant("abort_without_wake") {
            self.thread.unpark();
        }
    }

    /// Nothing is counted on this lane from here on, but for what its thread is just writing.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        if state.life == Life::Open {
            state.life = Life::Closed;
            // Whoever aborted may not have come to this lane yet, and the last take must see the count.
            state.abandon();
            self.note(&state);
        }
        drop(state);
        self.thread.unpark();
    }

    /// Asks the thread to take the lock from now on. A take after a fence and the thread's gate clears it.
    pub(crate) fn revoke(&self) {
        if !mutant("take_without_revoke") {
            self.attention.store(true, Ordering::Relaxed);
        }
    }

    /// Moves the chunks to `chunks` and returns the attempts so far.
    ///
    /// # Safety
    /// The caller is the buffer's one reader; since it last called [`Self::revoke`] it has called [`crate::fence::seldom`] and then seen the
    /// thread outside its gate.
    #[allow(unsafe_code, reason = "the writer's side is handed over by gate and lock")]
    pub(crate) unsafe fn take(&self, chunks: &mut Vec<Chunk>, liveness: Liveness) -> u64 {
        let mut state = lock(&self.state);
        let waits = state.waiting == Waiting::Queued;
        // SAFETY: by the caller's promise the thread has left the gate it was in before the revocation, and what it did there is visible; if
        // it has entered again, it sees the revocation and waits for the lock.
        let attempts = unsafe { self.writer.with(|writer| self.take_chunks(writer, chunks, waits)) };
        if liveness == Liveness::Ended {
            // A close may be under way on another thread, and this take must see the count.
            state.abandon();
            state.life = Life::Taken;
            self.note(&state);
        } else if state.life == Life::Open {
            let order = if mutant("give_back_relaxed") { Ordering::Relaxed } else { Ordering::Release };
            // Release pairs with the Acquire in `write`.
            self.attention.store(false, order);
        }
        let abandoned = u64::from(state.waiting == Waiting::Abandoned && !mutant("abandoned_uncounted"));
        drop(state);
        if liveness == Liveness::Ended {
            self.thread.unpark();
        }
        attempts + abandoned
    }

    fn take_chunks(&self, writer: &mut Writer, chunks: &mut Vec<Chunk>, waits: bool) -> u64 {
        let capacity = writer.current.capacity_bytes();
        if waits {
            // As large as this chunk was, it did not last. The thread will get the next one in its turn, as large as others get theirs.
            writer.next_chunk_bytes = self.buffer.grown(writer.next_chunk_bytes);
        } else if writer.full.is_empty() && capacity > 0 && writer.current.used_bytes() < capacity / 4 {
            // A chunk that a whole round left nearly empty was too large for this thread's pace.
            writer.next_chunk_bytes = self.buffer.shrunk(writer.next_chunk_bytes);
        }
        chunks.append(&mut writer.full);
        // The room of a large backlog is not to stay with each lane that once had one.
        writer.full.shrink_to(MAX_LIST_ROOM);
        let current = std::mem::replace(&mut writer.current, Chunk::NONE);
        if capacity > 0 {
            chunks.push(current);
        }
        writer.attempts
    }

    pub(crate) fn is_taken(&self) -> bool {
        lock(&self.state).life == Life::Taken
    }
}

impl LaneState {
    fn abandon(&mut self) {
        if self.waiting == Waiting::Queued {
            self.waiting = Waiting::Abandoned;
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("id", &self.id)
            .field("thread", &self.thread)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

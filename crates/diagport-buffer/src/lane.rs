//! What one thread has written for one session.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::chunk::{Chunk, MAX_PAYLOAD_BYTES, Record};
use crate::event_buffer::{Acquired, EventBuffer, WakeReason};
use crate::lock::lock;
use crate::producer_thread::{ProducerGuard, ProducerThread};

/// A lane's first chunk; each full one is followed by one of twice the size, up to [`MAX_CHUNK_BYTES`].
pub(crate) const FIRST_CHUNK_BYTES: usize = 4 * 1024;
pub(crate) const MAX_CHUNK_BYTES: usize = 64 * 1024;

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
pub struct Lane {
    id: u64,
    thread: Arc<ProducerThread>,
    buffer: Arc<EventBuffer>,
    /// Says what `state` says, to a thread that only wants to know whether to forget the lane. Set with the state locked, never cleared.
    over: AtomicBool,
    state: Mutex<LaneState>,
}

#[derive(Debug)]
struct LaneState {
    chunks: Vec<Chunk>,
    /// Attempts ever made, written or dropped. The reader learns of loss by it.
    attempts: u64,
    drops: u64,
    next_chunk_bytes: usize,
    waiting: Waiting,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    No,
    Queued,
    /// An abort took the lane out of the queue and has counted the drop; the thread does not know yet.
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

impl Lane {
    pub(crate) fn new(
        id: u64,
        thread: Arc<ProducerThread>,
        buffer: Arc<EventBuffer>,
        first_chunk_bytes: usize,
    ) -> Self {
        let state = LaneState {
            chunks: Vec::new(),
            attempts: 0,
            drops: 0,
            next_chunk_bytes: first_chunk_bytes,
            waiting: Waiting::No,
            life: Life::Open,
        };
        Self { id, thread, buffer, over: AtomicBool::new(false), state: Mutex::new(state) }
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
    pub fn write(self: &Arc<Self>, guard: &ProducerGuard<'_>, ticks: i64, record: &Record<'_>) -> LaneWrite {
        debug_assert!(std::ptr::eq(guard.thread(), &raw const *self.thread), "a lane belongs to one thread");
        let mut state = lock(&self.state);
        if let Some(outcome) = self.not_open(&mut state) {
            return outcome;
        }
        let needed = record.encoded_bytes();
        if record.payload.len() > MAX_PAYLOAD_BYTES || needed > self.buffer.budget_bytes() {
            return state.drop_one();
        }
        let was_empty = state.chunks.is_empty();
        let mut wake = was_empty.then_some(WakeReason::FirstRecord);
        if !state.chunks.last().is_some_and(|chunk| chunk.fits(needed)) {
            match self.buffer.acquire(self, needed, state.next_chunk_bytes, state.waiting == Waiting::Queued)
            {
                Acquired::Chunk { chunk, filled } => {
                    if !was_empty {
                        state.next_chunk_bytes = self.buffer.grown(state.next_chunk_bytes);
                    }
                    wake = filled.or(wake);
                    state.waiting = Waiting::No;
                    state.chunks.push(chunk);
                }
                Acquired::Wait => {
                    state.waiting = Waiting::Queued;
                    drop(state);
                    self.buffer.wake_reader(WakeReason::ProducerParked);
                    return LaneWrite::Blocked;
                }
                Acquired::Refused => {
                    let outcome = state.drop_one();
                    drop(state);
                    self.buffer.wake_reader(WakeReason::FillLevel);
                    return outcome;
                }
            }
        }
        state.attempts += 1;
        let attempt = state.attempts;
        if let Some(chunk) = state.chunks.last_mut() {
            chunk.push(attempt, ticks, record);
        }
        drop(state);
        if let Some(reason) = wake {
            self.buffer.wake_reader(reason);
        }
        LaneWrite::Written
    }

    /// Counts an attempt whose record could not even be made (too large, no memory): `Dropped`, or `Disabled`.
    pub fn discard(&self, guard: &ProducerGuard<'_>) -> LaneWrite {
        debug_assert!(std::ptr::eq(guard.thread(), &raw const *self.thread), "a lane belongs to one thread");
        let mut state = lock(&self.state);
        self.not_open(&mut state).unwrap_or_else(|| state.drop_one())
    }

    /// Whether it takes nothing more, so that its thread can forget it. Whoever learns of a later session in some way that orders
    /// memory sees the lanes of the earlier ones closed; otherwise it may hear of it late, and write in vain.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Relaxed: nothing else is concluded from it.
        self.over.load(Ordering::Relaxed)
    }

    fn note(&self, state: &LaneState) {
        if state.life != Life::Open && state.waiting != Waiting::Abandoned {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    fn not_open(&self, state: &mut LaneState) -> Option<LaneWrite> {
        if state.waiting == Waiting::Abandoned {
            state.waiting = Waiting::No;
            self.note(state);
            return Some(LaneWrite::Dropped);
        }
        (state.life != Life::Open).then_some(LaneWrite::Disabled)
    }

    pub(crate) fn totals(&self) -> BufferTotals {
        let state = lock(&self.state);
        BufferTotals { attempts: state.attempts, drops: state.drops }
    }

    /// The aborter has taken the lane out of the queue: counts the event it waited with, unless that was done already.
    pub(crate) fn abandon(&self) {
        lock(&self.state).abandon();
        self.thread.unpark();
    }

    /// Nothing is counted on this lane from here on.
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

    /// Moves the chunks to `chunks` and returns the attempts so far, in one critical section.
    pub(crate) fn take(&self, chunks: &mut Vec<Chunk>, liveness: Liveness) -> u64 {
        let mut state = lock(&self.state);
        if state.chunks.len() == 1 {
            // A chunk that a whole round did not fill was too large for this thread's pace.
            state.next_chunk_bytes = self.buffer.shrunk(state.next_chunk_bytes);
        }
        chunks.append(&mut state.chunks);
        if liveness == Liveness::Ended {
            // A close may be under way on another thread, and this take must see the count.
            state.abandon();
            state.life = Life::Taken;
            self.note(&state);
        }
        let attempts = state.attempts;
        drop(state);
        if liveness == Liveness::Ended {
            self.thread.unpark();
        }
        attempts
    }

    pub(crate) fn is_taken(&self) -> bool {
        lock(&self.state).life == Life::Taken
    }
}

/// Whether more can come on a lane after a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The thread lives and the session is open.
    Live,
    /// The thread ended or the session is closed: this take was the last one.
    Ended,
}

impl LaneState {
    fn abandon(&mut self) {
        if self.waiting == Waiting::Queued {
            self.attempts += 1;
            self.drops += 1;
            self.waiting = Waiting::Abandoned;
        }
    }

    fn drop_one(&mut self) -> LaneWrite {
        self.attempts += 1;
        self.drops += 1;
        self.waiting = Waiting::No;
        LaneWrite::Dropped
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("id", &self.id)
            .field("thread", &self.thread)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

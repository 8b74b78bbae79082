//! Puts the records of all lanes into one order by time, run by run.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use diagport_buffer::{Chunk, EventBuffer, Lane, LaneTake, Liveness, StoredRecord};

use crate::capture_ids::{CaptureThread, Holding};

/// The reader's side of one lane.
#[derive(Debug)]
pub(crate) struct LaneCursor {
    lane: Arc<Lane>,
    /// Taken and not shown yet; no empty ones.
    chunks: VecDeque<Chunk>,
    /// Attempts as of the last take.
    taken_attempts: u64,
    /// Attempts that the stream shows, written or lost.
    shown_attempts: u64,
    liveness: Liveness,
    pub(crate) holding: Holding,
}

/// All lanes that have, or may have, something to show.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    cursors: Vec<LaneCursor>,
    /// Where the cursor of a lane is, by the lane's id.
    indexes: HashMap<u64, usize>,
    /// Stamp and cursor of lanes that have a record below the boundary; in a run its own lane is on top.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    boundary: u64,
}

/// Records of one lane that come before those of any other.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    cursor: &'a mut LaneCursor,
    /// Inclusive.
    last_stamp: u64,
}

impl Merge {
    /// Takes over what a lane has.
    pub(crate) fn add(&mut self, take: LaneTake<'_>) {
        let LaneTake { lane, chunks, attempts, liveness } = take;
        let known = self.indexes.get(&lane.id()).copied();
        let idle = chunks.is_empty() && attempts == 0 && liveness == Liveness::Live;
        if idle && known.is_none() {
            return;
        }
        let index = known.unwrap_or_else(|| {
            self.cursors.push(LaneCursor::new(lane));
            self.indexes.insert(lane.id(), self.cursors.len() - 1);
            self.cursors.len() - 1
        });
        let cursor = &mut self.cursors[index];
        cursor.chunks.extend(chunks.drain(..).filter(|chunk| !chunk.is_empty()));
        cursor.taken_attempts = attempts;
        cursor.liveness = liveness;
    }

    /// Begins to merge the records stamped below `boundary`.
    pub(crate) fn begin(&mut self, boundary: u64) {
        self.boundary = boundary;
        let heads = self.cursors.iter().enumerate().filter_map(|(index, cursor)| {
            cursor.head_stamp().filter(|stamp| *stamp < boundary).map(|stamp| Reverse((stamp, index)))
        });
        self.heads.clear();
        self.heads.extend(heads);
    }

    /// Calls `show` with the next run, which it shows to the end or fails. None when all are shown.
    ///
    /// # Errors
    /// That of `show`.
    pub(crate) fn next_run<E>(
        &mut self,
        show: impl FnOnce(&mut Run<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let Self { cursors, heads, boundary, .. } = self;
        // The next lane's head is one of the two below the top.
        let next = heads.as_slice().iter().skip(1).take(2).map(|Reverse((stamp, _))| *stamp).min();
        let mut top = heads.peek_mut()?;
        let Reverse((_, index)) = *top;
        let last_stamp = next.unwrap_or(u64::MAX).min(*boundary - 1);
        let cursor = &mut cursors[index];
        let shown = show(&mut Run { cursor, last_stamp });
        match cursors[index].head_stamp().filter(|stamp| stamp < boundary) {
            Some(stamp) => *top = Reverse((stamp, index)),
            None => _ = PeekMut::pop(top),
        }
        Some(shown)
    }

    /// Shows the loss that follows the last record of each lane, and forgets the lanes that ended.
    /// Returns whether records at or above the boundary are left.
    ///
    /// # Errors
    /// The first of `show`; nothing is shown after it.
    pub(crate) fn settle<E>(
        &mut self,
        mut show: impl FnMut(&mut LaneCursor, u64, Liveness) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (mut left, mut shown) = (false, Ok(()));
        let before = self.cursors.len();
        self.cursors.retain_mut(|cursor| {
            if shown.is_err() {
                return true;
            }
            if !cursor.chunks.is_empty() {
                left = true;
                return true;
            }
            // The room of a large backlog is not to stay with each thread that once had one.
            cursor.chunks.shrink_to(16);
            let lost = cursor.taken_attempts - cursor.shown_attempts;
            cursor.shown_attempts = cursor.taken_attempts;
            shown = show(cursor, lost, cursor.liveness);
            cursor.liveness == Liveness::Live
        });
        if self.cursors.len() < before {
            self.indexes.clear();
            self.indexes
                .extend(self.cursors.iter().enumerate().map(|(index, cursor)| (cursor.lane.id(), index)));
            if self.cursors.capacity() > 4 * self.cursors.len() + 64 {
                self.cursors.shrink_to(2 * self.cursors.len() + 16);
                self.indexes.shrink_to(2 * self.cursors.len() + 16);
            }
        }
        shown.map(|()| left)
    }

    /// Ends it: what is not shown goes back to the budget.
    pub(crate) fn give_back(self, buffer: &EventBuffer) {
        let chunks = self.cursors.into_iter().flat_map(|cursor| cursor.chunks);
        chunks.for_each(|chunk| buffer.release(chunk));
    }
}

impl LaneCursor {
    fn new(lane: &Arc<Lane>) -> Self {
        Self {
            lane: Arc::clone(lane),
            chunks: VecDeque::new(),
            taken_attempts: 0,
            shown_attempts: 0,
            liveness: Liveness::Live,
            holding: Holding::default(),
        }
    }

    /// The lane's thread as the numbering knows it, and its hold of an id.
    pub(crate) fn numbering(&mut self) -> (CaptureThread<'_>, &mut Holding) {
        (capture_thread(&self.lane), &mut self.holding)
    }

    fn head_stamp(&self) -> Option<u64> {
        self.chunks.front()?.front_ticks()
    }
}

impl Run<'_> {
    /// Calls `show` with each record of the run and the number of events that were lost before it. An emptied chunk goes back at once, so that
    /// parked producers go on.
    ///
    /// # Errors
    /// That of `show`; its record is not shown.
    pub(crate) fn for_each<E>(
        &mut self,
        buffer: &EventBuffer,
        mut show: impl FnMut(CaptureThread<'_>, &mut Holding, &StoredRecord<'_>, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let LaneCursor { lane, chunks, shown_attempts, holding, .. } = &mut *self.cursor;
        let thread = capture_thread(lane);
        while let Some(chunk) = chunks.front_mut() {
            while let Some(record) = chunk.front() {
                if record.ticks > self.last_stamp {
                    return Ok(());
                }
                let attempt = record.attempt;
                show(thread, holding, &record, attempt - *shown_attempts - 1)?;
                *shown_attempts = attempt;
                chunk.pop_front();
            }
            if let Some(chunk) = chunks.pop_front() {
                buffer.release(chunk);
            }
        }
        Ok(())
    }
}

fn capture_thread(lane: &Lane) -> CaptureThread<'_> {
    CaptureThread { os_thread_id: lane.thread().os_thread_id(), name: lane.thread().name() }
}

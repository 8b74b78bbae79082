//! Puts the records of all lanes into one order by time, run by run.

use std::cmp::Reverse;
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
    cursors: HashMap<u64, LaneCursor>,
    /// Lanes that have a record below the boundary, by its stamp.
    heads: BinaryHeap<Reverse<(i64, u64)>>,
    boundary: i64,
}

/// Records of one lane that come before those of any other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    lane_id: u64,
    /// Inclusive.
    last_ticks: i64,
}

impl Merge {
    /// Takes over what a lane has.
    pub(crate) fn add(&mut self, take: LaneTake<'_>) {
        let LaneTake { lane, chunks, attempts, liveness } = take;
        let idle = chunks.is_empty() && attempts == 0 && liveness == Liveness::Live;
        if idle && !self.cursors.contains_key(&lane.id()) {
            return;
        }
        let cursor = self.cursors.entry(lane.id()).or_insert_with(|| LaneCursor::new(lane));
        cursor.chunks.extend(chunks.drain(..).filter(|chunk| !chunk.is_empty()));
        cursor.taken_attempts = attempts;
        cursor.liveness = liveness;
    }

    /// Begins to merge the records stamped below `boundary`.
    pub(crate) fn begin(&mut self, boundary: i64) {
        self.boundary = boundary;
        let heads = self.cursors.iter().filter_map(|(id, cursor)| Some(Reverse((cursor.head_ticks()?, *id))));
        self.heads.clear();
        self.heads.extend(heads.filter(|Reverse((ticks, _))| *ticks < boundary));
    }

    /// The next run; it ends by [`Self::end_run`].
    pub(crate) fn next_run(&mut self) -> Option<Run> {
        let Reverse((_, lane_id)) = self.heads.pop()?;
        let next = self.heads.peek().map_or(i64::MAX, |Reverse((ticks, _))| *ticks);
        Some(Run { lane_id, last_ticks: next.min(self.boundary - 1) })
    }

    pub(crate) fn cursor(&mut self, run: Run) -> &mut LaneCursor {
        self.cursors.get_mut(&run.lane_id).expect("invariant: a run is of a lane that has records")
    }

    pub(crate) fn end_run(&mut self, run: Run) {
        if let Some(ticks) = self.cursor(run).head_ticks().filter(|ticks| *ticks < self.boundary) {
            self.heads.push(Reverse((ticks, run.lane_id)));
        }
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
        self.cursors.retain(|_, cursor| {
            if shown.is_err() {
                return true;
            }
            if !cursor.chunks.is_empty() {
                left = true;
                return true;
            }
            let lost = cursor.taken_attempts - cursor.shown_attempts;
            cursor.shown_attempts = cursor.taken_attempts;
            shown = show(cursor, lost, cursor.liveness);
            cursor.liveness == Liveness::Live
        });
        shown.map(|()| left)
    }

    /// Ends it: what is not shown goes back to the budget.
    pub(crate) fn give_back(self, buffer: &EventBuffer) {
        let chunks = self.cursors.into_values().flat_map(|cursor| cursor.chunks);
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

    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    fn head_ticks(&self) -> Option<i64> {
        self.chunks.front()?.front_ticks()
    }

    /// The next record of the run.
    pub(crate) fn front(&self, run: Run) -> Option<StoredRecord<'_>> {
        self.chunks.front()?.front().filter(|record| record.ticks <= run.last_ticks)
    }

    /// Loss between the last record shown and this one.
    pub(crate) fn lost_before(&self, record: &StoredRecord<'_>) -> u64 {
        record.attempt - self.shown_attempts - 1
    }

    /// Steps over a record that was shown; an emptied chunk goes back at once, so that parked producers go on.
    pub(crate) fn pop(&mut self, attempt: u64, buffer: &EventBuffer) {
        self.shown_attempts = attempt;
        let Some(front) = self.chunks.front_mut() else { return };
        front.pop_front();
        if front.is_empty()
            && let Some(chunk) = self.chunks.pop_front()
        {
            buffer.release(chunk);
        }
    }
}

/// The lane's thread as the numbering knows it.
pub(crate) fn capture_thread(lane: &Lane) -> CaptureThread<'_> {
    CaptureThread { os_thread_id: lane.thread().os_thread_id(), name: lane.thread().name() }
}

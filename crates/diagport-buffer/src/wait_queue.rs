//! Who waits for capacity, in the order they came.

use std::collections::{TryReserveError, VecDeque};
use std::sync::Arc;

use crate::lane::Lane;

/// Strict FIFO of lanes whose thread is parked, each at most once.
///
/// Room for one entry of every lane is reserved when the lane is made, so that waiting allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    waiting: VecDeque<Arc<Lane>>,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nobody waits.
    Free,
    /// This lane is the next.
    Front,
    /// Others were here first.
    Behind,
}

impl WaitQueue {
    pub(crate) fn reserve_for(&mut self, lanes: usize) -> Result<(), TryReserveError> {
        self.waiting.try_reserve(lanes.saturating_sub(self.waiting.len()))
    }

    pub(crate) fn turn(&self, lane: &Arc<Lane>) -> Turn {
        match self.waiting.front() {
            None => Turn::Free,
            Some(front) if Arc::ptr_eq(front, lane) => Turn::Front,
            Some(_) => Turn::Behind,
        }
    }

    /// The caller knows (by the lane's own state) that the lane does not wait yet.
    pub(crate) fn push_back(&mut self, lane: Arc<Lane>) {
        debug_assert!(self.waiting.len() < self.waiting.capacity(), "room is reserved with each lane");
        self.waiting.push_back(lane);
    }

    pub(crate) fn pop_front(&mut self) {
        self.waiting.pop_front();
    }

    /// The next to be woken.
    pub(crate) fn front(&self) -> Option<Arc<Lane>> {
        self.waiting.front().cloned()
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<Arc<Lane>> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

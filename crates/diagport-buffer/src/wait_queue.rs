//! Who waits for capacity, in the order they came.

use std::collections::{TryReserveError, VecDeque};
use std::sync::Arc;

use crate::lane::Lane;

/// Strict FIFO of lanes whose thread is parked, each at most once.
///
/// Room for one entry of every lane is reserved when the lane is made, so that waiting allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    waiting: VecDeque<Waiter>,
}

/// One entry.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Whose thread waits.
    pub(crate) lane: Arc<Lane>,
    /// The chunk that it waits for.
    pub(crate) wanted_bytes: usize,
    /// Its record: the least that lets it go on.
    pub(crate) needed_bytes: usize,
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
            Some(front) if Arc::ptr_eq(&front.lane, lane) => Turn::Front,
            Some(_) => Turn::Behind,
        }
    }

    /// The caller knows (by the lane's own state) that the lane does not wait yet.
    pub(crate) fn push_back(&mut self, waiter: Waiter) {
        debug_assert!(self.waiting.len() < self.waiting.capacity(), "room is reserved with each lane");
        self.waiting.push_back(waiter);
    }

    pub(crate) fn pop_front(&mut self) {
        self.waiting.pop_front();
    }

    /// The next to be woken.
    pub(crate) fn front(&self) -> Option<&Waiter> {
        self.waiting.front()
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<Waiter> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

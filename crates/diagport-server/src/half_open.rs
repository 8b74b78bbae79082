//! Accepted connections that have not sent a complete request yet, and who goes when there are too many.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The half-open connections of one server.
// spec: SRV-HALF-1
#[derive(Debug)]
pub(crate) struct HalfOpen {
    limit: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    /// Ids ascend, so the first entry is the oldest.
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    is_silent: bool,
    evicted: CancellationToken,
}

/// Whether room had to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    MadeByEviction,
}

/// Whether anybody lost his place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    Done,
    Nobody,
}

impl Table {
    fn evict(&mut self) -> Eviction {
        let silent = self.entries.iter().find(|(_, entry)| entry.is_silent).map(|(id, _)| *id);
        let oldest = self.entries.first_key_value().map(|(id, _)| *id);
        match silent.or(oldest).and_then(|id| self.entries.remove(&id)) {
            Some(entry) => {
                entry.evicted.cancel();
                Eviction::Done
            }
            None => Eviction::Nobody,
        }
    }
}

impl HalfOpen {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), table: Mutex::default() }
    }

    /// Takes a place for a new connection; where there is none, the oldest silent connection loses its own (the
    /// oldest of all where none is silent).
    pub(crate) fn enter(&self) -> (HalfOpenPlace<'_>, Room) {
        let mut table = self.lock();
        let mut room = Room::Free;
        if table.entries.len() >= self.limit && table.evict() == Eviction::Done {
            room = Room::MadeByEviction;
        }
        let id = table.next_id;
        table.next_id += 1;
        let evicted = CancellationToken::new();
        table.entries.insert(id, Entry { is_silent: true, evicted: evicted.clone() });
        (HalfOpenPlace { owner: self, id, evicted }, room)
    }

    /// Takes the place of the oldest silent connection, or of the oldest where none is silent, for something else.
    pub(crate) fn evict(&self) -> Eviction {
        self.lock().evict()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place; given back on drop.
#[derive(Debug)]
pub(crate) struct HalfOpenPlace<'a> {
    owner: &'a HalfOpen,
    id: u64,
    evicted: CancellationToken,
}

impl HalfOpenPlace<'_> {
    /// The first byte has come.
    pub(crate) fn is_speaking(&self) {
        if let Some(entry) = self.owner.lock().entries.get_mut(&self.id) {
            entry.is_silent = false;
        }
    }

    /// Ends when the place has been given to somebody else.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for HalfOpenPlace<'_> {
    fn drop(&mut self) {
        self.owner.lock().entries.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::{HalfOpen, Room};

    // spec-test: SRV-HALF-1
    #[test]
    fn the_oldest_silent_connection_goes_first() {
        let half_open = HalfOpen::new(3);
        let (speaking, _) = half_open.enter();
        speaking.is_speaking();
        let (silent_old, _) = half_open.enter();
        let (silent_young, room) = half_open.enter();
        assert_eq!((room, half_open.count()), (Room::Free, 3));

        let (newcomer, room) = half_open.enter();
        assert_eq!((room, half_open.count()), (Room::MadeByEviction, 3));
        let evicted =
            [&speaking, &silent_old, &silent_young, &newcomer].map(|place| place.evicted.is_cancelled());
        assert_eq!(evicted, [false, true, false, false]);
        drop(silent_old);
        assert_eq!(half_open.count(), 3, "an evicted place is not given back twice");

        silent_young.is_speaking();
        newcomer.is_speaking();
        let (_last, _) = half_open.enter();
        assert!(speaking.evicted.is_cancelled(), "none silent: the oldest goes");
    }
}

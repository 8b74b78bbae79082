//! Blocks of bytes on their way to peers, and how many of them there may be.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::MutexGuard as TaskMutexGuard;

/// What follows a reply. Requests that ask for the same at the same time share one copy, so that peers who ask and do not read
/// cost the process no more than one who does.
#[derive(Debug, Clone)]
pub(crate) struct Continuation(Arc<Block>);

#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    owner: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    held_bytes: usize,
    latest: Weak<Block>,
}

/// The blocks of one server.
// spec: SRV-ENVIRON-2
#[derive(Debug)]
pub(crate) struct Continuations {
    limit_bytes: usize,
    table: Arc<Mutex<Table>>,
}

impl Continuations {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, table: Arc::default() }
    }

    /// A block of that content. None: other blocks take all the room. One is always possible.
    pub(crate) fn share(&self, bytes: Vec<u8>) -> Option<Continuation> {
        // Outside the lock: the last holder's drop takes it, too.
        let latest = lock(&self.table).latest.upgrade();
        if let Some(latest) = latest.filter(|latest| latest.bytes == bytes) {
            return Some(Continuation(latest));
        }
        let mut table = lock(&self.table);
        if table.held_bytes > 0 && table.held_bytes + bytes.len() > self.limit_bytes {
            return None;
        }
        table.held_bytes += bytes.len();
        let block = Arc::new(Block { bytes, owner: Arc::clone(&self.table) });
        table.latest = Arc::downgrade(&block);
        Some(Continuation(block))
    }
}

/// The one that was made last, for all who asked before its making began.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    block: Weak<Block>,
    answers: u64,
}

impl Latest {
    /// That block, if it is younger than the request and somebody still holds it.
    pub(crate) fn made_after(&self, ticket: u64) -> Option<Continuation> {
        (ticket <= self.answers).then(|| self.block.upgrade()).flatten().map(Continuation)
    }

    /// `answers`: the last ticket that was out when its making began.
    pub(crate) fn set(&mut self, block: &Continuation, answers: u64) {
        *self = Self { block: Arc::downgrade(&block.0), answers };
    }
}

/// Who asked when, and whose turn it is to make a block.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    tickets: AtomicU64,
    latest: tokio::sync::Mutex<Latest>,
}

impl Turns {
    /// The number of a request.
    pub(crate) fn ticket(&self) -> u64 {
        // Relaxed: a request that follows another one's answer has come over a socket since.
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn tickets_so_far(&self) -> u64 {
        self.tickets.load(Ordering::Relaxed)
    }

    /// Waits for one's turn, first come first served.
    pub(crate) async fn latest(&self) -> TaskMutexGuard<'_, Latest> {
        self.latest.lock().await
    }
}

impl Continuation {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        lock(&self.owner).held_bytes -= self.bytes.len();
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Continuations, Latest};

    // spec-test: SRV-ENVIRON-2
    #[test]
    fn equal_blocks_are_one_and_different_ones_are_bounded() {
        let blocks = Continuations::new(1000);
        let share = |byte: u8, count: usize| blocks.share(vec![byte; count]);
        let first = share(1, 600).expect("room");
        let same: Vec<_> = (0..100).map(|_| share(1, 600).expect("no room needed")).collect();
        assert!(same.iter().all(|block| std::ptr::eq(block.bytes(), first.bytes())));
        assert!(share(2, 600).is_none(), "two different ones are too much");
        let small = share(3, 400).expect("room for a small one");
        drop((first, same));
        assert!(share(2, 601).is_none());
        assert!(share(2, 600).is_some(), "room again");
        drop(small);
        assert!(share(4, 5000).is_some(), "one is always possible");
    }

    // spec-test: SRV-ENVIRON-2
    #[test]
    fn a_block_answers_those_who_asked_before_it_was_begun() {
        let blocks = Continuations::new(1000);
        let mut latest = Latest::default();
        let block = blocks.share(vec![1; 10]).expect("room");
        latest.set(&block, 7);
        assert!(latest.made_after(7).is_some());
        assert!(latest.made_after(8).is_none(), "asked later: the environment may have changed since");
        drop(block);
        assert!(latest.made_after(7).is_none(), "nobody reads it any more");
    }
}

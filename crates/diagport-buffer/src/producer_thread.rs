//! A thread that writes events, as all sessions see it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::lock::lock;

/// Whether a thread may wait for capacity of a Block session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    /// It waits its turn.
    Allowed,
    /// It never waits: without capacity its event is a counted drop. For the threads that free capacity.
    Never,
}

/// One OS thread, for as long as it lives. Shared by its lanes and by the reader of each.
pub struct ProducerThread {
    os_thread_id: u64,
    name: String,
    parking: Parking,
    alive: AtomicBool,
    /// Held by the thread itself from before it stamps an event until that event is in every lane. So whoever has held it
    /// after time T knows that every stamp below T of this thread can be read.
    gate: Mutex<()>,
    /// A token that says "look again"; kept while nobody waits, so no wake-up is lost.
    token: Mutex<bool>,
    token_set: Condvar,
}

/// Proof that the thread is inside its gate. Give it back before [`ProducerThread::park`].
#[must_use]
pub struct ProducerGuard<'a> {
    thread: &'a ProducerThread,
    _gate: MutexGuard<'a, ()>,
}

impl ProducerThread {
    /// `os_thread_id` is what readers show as the thread of its events, `name` what they may call it (may be empty).
    #[must_use]
    pub fn new(os_thread_id: u64, name: String, parking: Parking) -> Self {
        Self {
            os_thread_id,
            name,
            parking,
            alive: AtomicBool::new(true),
            gate: Mutex::new(()),
            token: Mutex::new(false),
            token_set: Condvar::new(),
        }
    }

    /// See [`Self::new`].
    #[must_use]
    pub fn os_thread_id(&self) -> u64 {
        self.os_thread_id
    }

    /// See [`Self::new`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// See [`Parking`].
    #[must_use]
    pub fn parking(&self) -> Parking {
        self.parking
    }

    /// Takes the thread into its gate. Only the thread itself calls this, and not twice at a time.
    pub fn enter(&self) -> ProducerGuard<'_> {
        ProducerGuard { thread: self, _gate: lock(&self.gate) }
    }

    /// Waits until the thread is outside its gate for a moment.
    pub(crate) fn pass_gate(&self) {
        drop(lock(&self.gate));
    }

    /// Says that the thread writes nothing more. Its lanes are freed once they are read.
    pub fn mark_dead(&self) {
        // Release pairs with the Acquire in `is_alive`: a reader that sees it dead sees all it wrote.
        self.alive.store(false, Ordering::Release);
    }

    /// Whether the thread may still write.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Blocks the calling thread (which is this one, outside its gate) until the next [`Self::unpark`], or not at all if
    /// that came since the last park.
    pub fn park(&self) {
        let mut token = lock(&self.token);
        while !*token {
            token = self.token_set.wait(token).unwrap_or_else(PoisonError::into_inner);
        }
        *token = false;
    }

    /// Lets the thread look again whether there is capacity.
    pub fn unpark(&self) {
        *lock(&self.token) = true;
        self.token_set.notify_one();
    }
}

impl ProducerGuard<'_> {
    /// The thread inside.
    #[must_use]
    pub fn thread(&self) -> &ProducerThread {
        self.thread
    }
}

impl fmt::Debug for ProducerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerThread")
            .field("os_thread_id", &self.os_thread_id)
            .field("name", &self.name)
            .field("alive", &self.is_alive())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ProducerGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProducerGuard").field(self.thread).finish()
    }
}

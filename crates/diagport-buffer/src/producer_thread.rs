//! A thread that writes events, as all sessions see it.

use std::fmt;
use std::sync::{Arc, PoisonError};

use crossbeam_utils::CachePadded;

use crate::fence;
use crate::lock::lock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, mutant, wait_a_little};

/// Whether a thread may wait for capacity of a Block session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    /// It waits its turn.
    Allowed,
    /// It never waits: without capacity its event is a counted drop. For the threads that free capacity.
    Never,
}

/// A thread's own side of its [`ProducerThread`]. There is one, and entering borrows it: so nobody is in the gate twice, and nobody writes to a lane but
/// through this.
#[derive(Debug)]
pub struct Producer {
    thread: Arc<ProducerThread>,
}

/// One OS thread, for as long as it lives, as its lanes and the reader of each share it.
pub struct ProducerThread {
    os_thread_id: u64,
    name: String,
    parking: Parking,
    alive: AtomicBool,
    /// Set by the thread itself from before it stamps an event until that event is in every lane. So whoever has seen it unset
    /// after time T knows that every stamp below T of this thread can be read. On a line of its own: its thread writes it twice an event.
    inside: CachePadded<AtomicBool>,
    /// A token that says "look again"; kept while nobody waits, so no wake-up is lost.
    token: Mutex<bool>,
    token_set: Condvar,
}

/// Proof that the thread is inside its gate. Give it back before [`ProducerThread::park`].
#[must_use]
pub struct ProducerGuard<'a> {
    producer: &'a mut Producer,
}

impl Producer {
    /// `os_thread_id` is what readers show as the thread of its events, `name` what they may call it (may be empty).
    #[must_use]
    pub fn new(os_thread_id: u64, name: String, parking: Parking) -> Self {
        let thread = ProducerThread {
            os_thread_id,
            name,
            parking,
            alive: AtomicBool::new(true),
            inside: CachePadded::new(AtomicBool::new(false)),
            token: Mutex::new(false),
            token_set: Condvar::new(),
        };
        Self { thread: Arc::new(thread) }
    }

    /// What others see of it.
    #[must_use]
    pub fn thread(&self) -> &Arc<ProducerThread> {
        &self.thread
    }

    /// Takes the thread into its gate.
    #[inline]
    pub fn enter(&mut self) -> ProducerGuard<'_> {
        // Relaxed: the fence orders it before the looks at the lanes and at the clock that follow.
        self.thread.inside.store(true, Ordering::Relaxed);
        fence::often();
        ProducerGuard { producer: self }
    }
}

impl ProducerThread {
    /// See [`Producer::new`].
    #[must_use]
    pub fn os_thread_id(&self) -> u64 {
        self.os_thread_id
    }

    /// See [`Producer::new`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// See [`Parking`].
    #[must_use]
    pub fn parking(&self) -> Parking {
        self.parking
    }

    /// Waits until the thread is outside its gate for a moment, but no more than `turns` more turns. Once it was seen outside, what it wrote before then
    /// can be read, and whatever it does in its gate later it does in the knowledge of all that the caller stored before its [`fence::seldom`].
    pub(crate) fn await_outside(&self, turns: &mut u32) -> Outside {
        let mut turn = 0;
        while self.inside.load(Ordering::Acquire) {
            if *turns == 0 {
                return Outside::NotSeen;
            }
            *turns -= 1;
            wait_a_little(turn);
            turn = turn.saturating_add(1);
        }
        Outside::Seen
    }

    /// Says that the thread writes nothing more. Its lanes are freed once they are read.
    pub fn mark_dead(&self) {
        // Relaxed: whoever sees it has asked for the lock before, so the thread's last writes are ordered by that lock or by the gate.
        self.alive.store(false, Ordering::Relaxed);
    }

    /// Whether the thread may still write.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
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
        let was_set = std::mem::replace(&mut *lock(&self.token), true);
        if !was_set {
            self.token_set.notify_one();
        }
    }
}

impl ProducerGuard<'_> {
    /// The thread inside.
    #[inline]
    #[must_use]
    pub fn thread(&self) -> &Arc<ProducerThread> {
        &self.producer.thread
    }
}

/// Whether a thread was seen outside its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    Seen,
    /// It has not left: stopped by a debugger, or at a page that does not come.
    NotSeen,
}

impl Drop for ProducerGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let order = if mutant("leave_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release pairs with the Acquire in `await_outside`: the reader sees all that was written inside.
        self.producer.thread.inside.store(false, order);
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
        f.debug_tuple("ProducerGuard").field(self.producer).finish()
    }
}

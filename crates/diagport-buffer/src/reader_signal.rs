//! The bell that a reader sleeps on.

use std::time::Duration;

use crate::event_buffer::{WakeReader, WakeReason};
use crate::lock::lock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, mutant, wait_while};

/// Producers ring it; ringing twice costs one relaxed load. One thread sleeps on it: before each round it calls [`Self::arm`], and after the
/// round [`Self::wait`]. What is written before a ring is in the round that the ring leads to, or in an earlier one.
#[derive(Debug, Default)]
pub struct ReaderSignal {
    /// The reader has begun a round since the last ring of each kind.
    ///
    /// Relaxed is enough, because no record depends on the flag alone. The reader sets it and then looks at a lane under the lane's lock; a
    /// producer whose lane was empty writes under that lock and then reads the flag. If the round did not see the record, the lock puts the set
    /// before the read, and the read gives that set or something later in the flag's one order. Later is either a next set, or the reset of another
    /// producer, who rings; and it rings after that set, because a ring before it would have been before the reader's end of waiting,
    /// which is before the set. The same goes for a lane that the round did not see at all, by the lock of the buffer's list. The
    /// mark of a thread that has ended is stored with no lock, and fenced instead: see `EventBuffer::thread_ended`.
    soon_armed: AtomicBool,
    now_armed: AtomicBool,
    pending: Mutex<Pending>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    soon: bool,
    now: bool,
}

impl ReaderSignal {
    /// For the reader, before each round.
    pub fn arm(&self) {
        self.soon_armed.store(true, Ordering::Relaxed);
        self.now_armed.store(true, Ordering::Relaxed);
    }

    /// Cuts the wait short, or the next one if nobody waits.
    pub fn ring_now(&self) {
        lock(&self.pending).now = true;
        self.rung.notify_all();
    }

    /// Blocks until something is urgent; or for `company` from when anything else was rung, so that more may come; or for `idle`.
    pub fn wait(&self, company: Duration, idle: Duration) {
        let mut pending = lock(&self.pending);
        if mutant("wait_forgets") {
            *pending = Pending::default();
        }
        pending = wait_while(&self.rung, pending, idle, |pending| !pending.soon && !pending.now);
        if pending.soon {
            pending = wait_while(&self.rung, pending, company, |pending| !pending.now);
        }
        *pending = Pending::default();
    }
}

impl WakeReader for ReaderSignal {
    fn wake(&self, reason: WakeReason) {
        match reason {
            WakeReason::FirstRecord | WakeReason::ThreadEnded => {
                if self.soon_armed.load(Ordering::Relaxed) && self.soon_armed.swap(false, Ordering::Relaxed) {
                    lock(&self.pending).soon = true;
                    self.rung.notify_all();
                }
            }
            WakeReason::FillLevel => {
                if self.now_armed.load(Ordering::Relaxed) && self.now_armed.swap(false, Ordering::Relaxed) {
                    self.ring_now();
                }
            }
            WakeReason::ProducerParked => self.ring_now(),
        }
    }
}

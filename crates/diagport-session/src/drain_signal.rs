//! The bell of one drain thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diagport_buffer::{WakeReader, WakeReason};

use crate::lock::lock;

/// How long the first event after an idle time waits for company.
const COALESCE: Duration = Duration::from_millis(15);
/// An idle drain looks at its peer this often.
const IDLE: Duration = Duration::from_millis(200);

/// Producers ring it; ringing twice costs one relaxed load.
#[derive(Debug, Default)]
pub(crate) struct DrainSignal {
    /// The drain has begun a round since the last ring of each kind.
    ///
    /// Relaxed is enough, because no record depends on the flag alone. The drain sets it and then looks at a lane under the lane's lock; a
    /// producer writes under that lock and then reads the flag. If the round did not see the record, the lock puts the set before the read,
    /// and the read gives that set or something later in the flag's one order. Later is either a next set, or the reset of another
    /// producer, who rings; and it rings after that set, because a ring before it would have been before the drain's end of waiting,
    /// which is before the set. The same goes for a lane that the round did not see at all, by the lock of the buffer's list.
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

impl DrainSignal {
    /// Called by the drain before each round.
    pub(crate) fn arm(&self) {
        self.soon_armed.store(true, Ordering::Relaxed);
        self.now_armed.store(true, Ordering::Relaxed);
    }

    /// Cuts any wait short.
    pub(crate) fn ring_now(&self) {
        lock(&self.pending).now = true;
        self.rung.notify_all();
    }

    // spec: SES-DRAIN-2
    pub(crate) fn wait(&self) {
        let mut pending = lock(&self.pending);
        let mut deadline = Instant::now() + IDLE;
        let mut coalescing = false;
        loop {
            if pending.now {
                break;
            }
            if pending.soon && !coalescing {
                coalescing = true;
                deadline = Instant::now() + COALESCE;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            pending = self.rung.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *pending = Pending::default();
    }
}

impl WakeReader for DrainSignal {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;

    /// The work is done under a lock, like a write into a lane, and the bell rung after it. A ring that got lost would show as a drain
    /// that sleeps until it looks by itself.
    // spec-test: SES-DRAIN-2
    #[test]
    fn no_ring_is_lost_between_two_rounds() {
        const PRODUCERS: usize = 3;
        const EVENTS: u64 = 4_000;
        let signal = Arc::new(DrainSignal::default());
        let written: Vec<_> = (0..PRODUCERS).map(|_| Arc::new(Mutex::new(0_u64))).collect();
        let seen: Vec<_> = (0..PRODUCERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let slept = thread::scope(|scope| {
            for (written, seen) in written.iter().zip(&seen) {
                let signal = &signal;
                scope.spawn(move || {
                    for event in 1..=EVENTS {
                        *lock(written) = event;
                        signal.wake(WakeReason::FillLevel);
                        // Only while its lane is empty does a producer depend on its own ring.
                        while seen.load(Ordering::Acquire) < event {
                            thread::yield_now();
                        }
                    }
                });
            }
            let mut slept = 0;
            while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < EVENTS) {
                signal.arm();
                for (written, seen) in written.iter().zip(&seen) {
                    seen.store(*lock(written), Ordering::Release);
                }
                let begin = Instant::now();
                if seen.iter().any(|seen| seen.load(Ordering::Relaxed) < EVENTS) {
                    signal.wait();
                    slept += u32::from(begin.elapsed() >= IDLE);
                }
            }
            slept
        });
        // A machine that stands still for that long has slept too; a protocol that loses rings does so often.
        assert!(slept <= 2, "the drain slept {slept} times with work to do");
    }
}

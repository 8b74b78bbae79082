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
    /// The drain has begun a round since the last ring of each kind. Set before the round looks at the lanes, so a record
    /// that the round did not see finds it set.
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

//! The primitives that threads meet at: std's, or loom's where a model is checked.

use std::sync::PoisonError;
use std::time::Duration;

#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};

/// Memory that a protocol, not the compiler, gives to one thread at a time. Under loom every access is checked for a rival.
#[derive(Debug)]
pub(crate) struct HandedCell<T>(Cell<T>);

#[cfg(not(loom))]
type Cell<T> = std::cell::UnsafeCell<T>;
#[cfg(loom)]
type Cell<T> = loom::cell::UnsafeCell<T>;

#[allow(unsafe_code, reason = "one of the few places of DESIGN's lock-free rule")]
// SAFETY: sharing the cell shares no access: each access goes through `with`, whose caller proves that it is alone; and `T: Send` lets
// that access happen on any thread.
unsafe impl<T: Send> Sync for HandedCell<T> {}

impl<T> HandedCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    /// Calls `access` with the value.
    ///
    /// # Safety
    /// No other thread is inside `with` of this cell, and what the last one did there happened before this call.
    #[allow(unsafe_code, reason = "one of the few places of DESIGN's lock-free rule")]
    #[inline]
    pub(crate) unsafe fn with<R>(&self, access: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        {
            // SAFETY: the caller is alone here, and the reference ends with `access`.
            access(unsafe { &mut *self.0.get() })
        }
        #[cfg(loom)]
        self.0.with_mut(|value| {
            // SAFETY: as above; loom fails the model where it is not so.
            access(unsafe { &mut *value })
        })
    }
}

/// Lets others run while a condition of theirs is awaited; `turn` counts the calls of one wait.
pub(crate) fn wait_a_little(turn: u32) {
    #[cfg(not(loom))]
    match turn {
        0..64 => std::hint::spin_loop(),
        64..128 => std::thread::yield_now(),
        // The other thread was preempted: it needs the processor more than this one.
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
    #[cfg(loom)]
    {
        let _ = turn;
        loom::thread::yield_now();
    }
}

/// Waits while `condition` holds, but no longer than `limit`. loom knows no time: there a `limit` is zero, or has no end.
pub(crate) fn wait_while<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Duration,
    condition: impl Fn(&T) -> bool,
) -> MutexGuard<'a, T> {
    #[cfg(not(loom))]
    {
        let waited = changed.wait_timeout_while(guard, limit, |value| condition(value));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
    #[cfg(loom)]
    {
        let mut guard = guard;
        while !limit.is_zero() && condition(&guard) {
            guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        guard
    }
}

#[cfg(any(loom, diagport_tsan))]
static PLANTED: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Gives the protocols the mistake of this name, for the rest of the process, so that a model can show that it would notice. No program has this function.
#[cfg(any(loom, diagport_tsan))]
#[doc(hidden)]
pub fn plant_mistake(name: &str) {
    PLANTED.get_or_init(|| name.to_owned());
}

/// Whether the mistake of this name was planted.
#[cfg(any(loom, diagport_tsan))]
pub(crate) fn mutant(name: &str) -> bool {
    PLANTED.get().is_some_and(|planted| planted == name)
}

#[cfg(not(any(loom, diagport_tsan)))]
#[inline(always)]
pub(crate) const fn mutant(_name: &str) -> bool {
    false
}

//! A fence of two unequal halves: free for the thread that comes often, dear for the one that comes seldom.
//!
//! Between a store and a load of the often side, and a store and a load of the seldom side, at least one side sees the other's store. On Linux
//! the seldom side asks the kernel (`membarrier`) to put a full fence into every running thread of the process, so the often side needs
//! only to keep the compiler from reordering. Elsewhere, and under loom and ThreadSanitizer, both are plain fences.

use crate::sync::atomic::{Ordering, fence};
use crate::sync::mutant;

#[cfg(all(target_os = "linux", not(loom), not(diagport_tsan)))]
mod kernel {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::thread::{MembarrierCommand, membarrier};

    static REGISTERED: AtomicBool = AtomicBool::new(false);

    /// Whether the kernel fences for us. Before the first [`prepare`] it does not, and both sides fence by themselves.
    #[inline]
    pub(super) fn fences() -> bool {
        // Relaxed: a thread that does not see it yet fences by itself, which the seldom side's call pairs with as well.
        REGISTERED.load(Ordering::Relaxed)
    }

    pub(super) fn prepare() {
        static ONCE: OnceLock<()> = OnceLock::new();
        ONCE.get_or_init(|| {
            let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
            REGISTERED.store(registered, Ordering::Relaxed);
        });
    }

    /// Whether every running thread of the process has passed a full fence during the call. The second way is slow and needs less.
    pub(super) fn fence_all() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
            || membarrier(MembarrierCommand::Global).is_ok()
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(diagport_tsan))))]
mod kernel {
    #[inline]
    pub(super) fn fences() -> bool {
        false
    }

    pub(super) fn prepare() {}

    pub(super) fn fence_all() -> bool {
        false
    }
}

/// Before the first [`seldom`]: asks the kernel for its part, once in a process.
pub(crate) fn prepare() {
    kernel::prepare();
}

/// The half of the thread that comes often.
#[inline]
pub(crate) fn often() {
    if kernel::fences() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else if !mutant("gate_without_fence") {
        fence(Ordering::SeqCst);
    }
}

/// Whether the seldom half did its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    Yes,
    /// The kernel refuses what it granted: a filter of system calls came later, or it has no memory. Nothing can be concluded.
    No,
}

/// The half of the thread that comes seldom. Some microseconds.
pub(crate) fn seldom() -> Fenced {
    fence(Ordering::SeqCst);
    if kernel::fences() && !kernel::fence_all() {
        return Fenced::No;
    }
    fence(Ordering::SeqCst);
    Fenced::Yes
}

//! Whether this process is a forked child.
//!
//! A child of `fork` has one thread, the one that called it: every other thread, a session's drain among them, exists only in the parent, while the memory
//! looks as if they ran. Whoever relies on such a thread keeps the [`generation`] it was started in and compares.
//!
//! Not seen: `vfork`, `posix_spawn` and a `clone` that goes around the C library. Their children are meant to call `exec` at once. Where there is no `fork` the
//! generation is always 0.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Written by the handler below, in a process that has one thread at that moment; read by anyone. A number alone: it publishes nothing else.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How often the line of processes up to this one was forked since [`watch_forks`]: 0 in the first, one more in each child. One relaxed load, fit
/// for signal handlers.
#[inline]
#[must_use]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Counts forks from now on. Any number of calls register once, in this process and all its descendants; the first must not run beside a fork.
///
/// # Errors
///
/// The C library has no memory for the registration; every later call says so again.
pub fn watch_forks() -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::sync::OnceLock;

        // The result of `pthread_atfork`: 0, or an error number.
        static REGISTERED: OnceLock<i32> = OnceLock::new();
        match *REGISTERED.get_or_init(register) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
    #[cfg(not(unix))]
    Ok(())
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "one call of the C library")]
fn register() -> i32 {
    extern "C" fn count_fork() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler is a function of this program's own code, takes nothing, cannot unwind and does one atomic addition, which a child of a process
    // with many threads may do.
    unsafe { libc::pthread_atfork(None, None, Some(count_fork)) }
}

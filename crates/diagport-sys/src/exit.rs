//! What a program still does when it exits in order.

use std::io;

/// Calls `hook` when the program calls `exit` of the C library: at the end of `main`, and by `std::process::exit` on any thread. Not when it calls `_exit`,
/// aborts, or is ended by a signal.
///
/// The hook runs on the exiting thread, whose thread-local values are gone if that is the main thread; the other threads go on beside it. Each call adds
/// one; the last added runs first. A forked child inherits them. A panic in it aborts the process.
///
/// # Errors
///
/// The C library has no memory for it; or there is no such hook on this system.
pub fn at_exit(hook: extern "C" fn()) -> io::Result<()> {
    #[cfg(unix)]
    {
        register(hook)
    }
    #[cfg(not(unix))]
    {
        let _ = hook;
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "one call of the C library")]
fn register(hook: extern "C" fn()) -> io::Result<()> {
    // SAFETY: a function of the program's own code, which takes nothing and cannot unwind: its ABI turns a panic into an abort.
    match unsafe { libc::atexit(hook) } {
        0 => Ok(()),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

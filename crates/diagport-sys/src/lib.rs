//! The few operating-system calls that need unsafe code and that no crate we depend on wraps.
//!
//! * [`stack`]: the return addresses of the calling thread, read along the chain of frame pointers.
//! * [`counter`]: the processor's counter, as the cheapest clock.
//! * [`exit`]: what a program still does when it exits in order.
//! * [`fork`]: whether this process is a forked child, which has none of its parent's other threads.
//!
//! What it does not do: turn addresses into names, look at another thread or process, or unwind with tables. Code without frame pointers
//! shortens or garbles a stack, it never makes a capture unsafe.
//!
//! ```
//! diagport_sys::fork::watch_forks()?;
//! assert_eq!(diagport_sys::fork::generation(), 0);
//!
//! let mut frames = [0; 100];
//! let count = diagport_sys::stack::capture(&mut frames);
//! assert!(count <= frames.len());
//! # Ok::<(), std::io::Error>(())
//! ```
#![deny(unsafe_code)]

pub mod counter;
pub mod exit;
pub mod fork;
pub mod stack;

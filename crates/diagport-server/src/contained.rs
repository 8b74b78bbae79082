//! Work that must go on although a piece of it may panic.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The work has panicked, and is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs the work to its end, or to its panic.
pub(crate) async fn contained<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}

/// Runs what may panic and is not worth it, such as a line for a log whose file system is full.
pub(crate) fn attempt(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}

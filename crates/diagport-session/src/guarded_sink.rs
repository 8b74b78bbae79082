//! A sink whose panics end its session and nothing else.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::dispatcher::panic_text;
use crate::session::EndReason;
use crate::sink::Sink;

/// Each call is contained by itself, so that no panic of a sink unwinds through the drain: what it has done stays consistent, also
/// below the program's own rundown hook. A sink that panicked is only closed.
pub(crate) struct GuardedSink {
    sink: Box<dyn Sink>,
}

// spec: SES-FAIL-3
impl GuardedSink {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Self {
        Self { sink }
    }

    /// # Errors
    /// It panicked.
    pub(crate) fn write(&mut self, bytes: &[u8], wait: Duration) -> Result<io::Result<usize>, EndReason> {
        contained(|| self.sink.write(bytes, wait))
    }

    /// # Errors
    /// It panicked.
    pub(crate) fn peer_closed(&mut self) -> Result<bool, EndReason> {
        contained(|| self.sink.peer_closed())
    }

    /// # Errors
    /// It panicked.
    pub(crate) fn close(self) -> Result<(), EndReason> {
        contained(|| self.sink.close())
    }
}

fn contained<T>(call: impl FnOnce() -> T) -> Result<T, EndReason> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| EndReason::Panicked(panic_text(&*panic).to_owned()))
}

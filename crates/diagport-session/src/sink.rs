//! Where a session's stream goes.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

/// The far end of a session. Only its drain thread calls it.
pub trait Sink: Send {
    /// Passes on some of `bytes` and returns how many. Waits at most about `wait` for the peer to take any; `Ok(0)` says that it
    /// took none in that time. An error ends the session at once.
    ///
    /// # Errors
    /// The peer is gone or can never take more.
    fn write(&mut self, bytes: &[u8], wait: Duration) -> io::Result<usize>;

    /// Whether the peer has gone for good. Asked while there is nothing to write, at most 250 ms apart; must not block.
    fn peer_closed(&mut self) -> bool;

    /// Ends it: a complete stream was written, or the session was cut.
    fn close(self: Box<Self>);
}

/// A stream to a function of the program: it gets the bytes in pieces, each some whole blocks, on the session's drain thread.
///
/// While it runs nothing is drained, so it should be quick; an error ends the session, a panic too and hurts nobody else.
pub struct CallbackSink<F> {
    callback: F,
}

impl<F: FnMut(&[u8]) -> io::Result<()> + Send> CallbackSink<F> {
    /// Calls `callback` with each piece.
    #[must_use]
    pub fn new(callback: F) -> Self {
        Self { callback }
    }
}

impl<F: FnMut(&[u8]) -> io::Result<()> + Send> Sink for CallbackSink<F> {
    fn write(&mut self, bytes: &[u8], _wait: Duration) -> io::Result<usize> {
        (self.callback)(bytes).map(|()| bytes.len())
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

impl<F> fmt::Debug for CallbackSink<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackSink").finish_non_exhaustive()
    }
}

/// A stream to a file.
#[derive(Debug)]
pub struct FileSink {
    file: File,
}

impl FileSink {
    /// Writes from the file's position on.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file }
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8], _wait: Duration) -> io::Result<usize> {
        match self.file.write(bytes)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        }
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

//! A session's far end: the socket that asked for it.

use std::io;
use std::time::Duration;

use diagport_session::Sink;
use diagport_transport::BlockingStream;

/// Unread bytes of the peer that are thrown away at the end, so that it reads an end and no reset.
const DISCARD_BYTES: usize = 256 * 1024;

/// What the system may hold for a reader that is as fast as we are: more is no faster.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// Used by the session's drain thread alone; no lock of the server is held while it writes.
#[derive(Debug)]
pub(super) struct SocketSink {
    stream: BlockingStream,
    /// What is left of the reply to the request.
    reply: Vec<u8>,
}

impl SocketSink {
    /// For a session with so many bytes of buffers. Sends `reply` before the stream.
    pub(super) fn new(stream: BlockingStream, budget_bytes: u64, reply: Vec<u8>) -> Self {
        let part = usize::try_from(budget_bytes / 4).unwrap_or(usize::MAX);
        stream.widen(part.min(MAX_UNREAD_BYTES));
        Self { stream, reply }
    }
}

impl Sink for SocketSink {
    fn write(&mut self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
        while !self.reply.is_empty() {
            let taken = self.stream.write_some(&self.reply, wait)?;
            if taken == 0 {
                return Ok(0);
            }
            self.reply.drain(..taken);
        }
        self.stream.write_some(bytes, wait)
    }

    // A half-close is not the end: clients end their direction right after the request, and read on.
    fn peer_closed(&mut self) -> bool {
        self.stream.peer_closed()
    }

    fn close(self: Box<Self>) {
        // The drop does what is to be done, for every way in which a sink can go.
    }
}

impl Drop for SocketSink {
    fn drop(&mut self) {
        if !self.reply.is_empty() {
            // The session ended before its stream began, or got no thread. Its client is answered all the same, and reads an empty stream; it fits the socket, and
            // nobody waits where it does not.
            let _ = self.stream.write_some(&self.reply, Duration::ZERO);
        }
        self.stream.shutdown_write();
        self.stream.discard_received(DISCARD_BYTES);
    }
}

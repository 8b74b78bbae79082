//! One connection, as a drain thread sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::guarded_socket::GuardedSocket;
use super::stream::hung_up;

/// A connected socket for a thread of its own: every call has a time limit, none needs a runtime.
#[derive(Debug)]
pub struct BlockingStream {
    socket: GuardedSocket,
}

impl BlockingStream {
    pub(super) const fn new(socket: GuardedSocket) -> Self {
        Self { socket }
    }

    /// Lets the system hold about so many bytes that the peer has not read, if it would hold less: then a fast writer and a fast reader wait for each
    /// other less often. The system may give less.
    pub fn widen(&self, bytes: usize) {
        let enough =
            rustix::net::sockopt::socket_send_buffer_size(&self.socket).is_ok_and(|has| has >= bytes);
        if !enough {
            // What it does not give is only slower.
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&self.socket, bytes);
        }
    }

    /// Writes what the peer's buffer takes, waiting at most `wait` for room for the first byte.
    ///
    /// Returns the bytes taken; `Ok(0)`: there was no room all that time. No SIGPIPE, whatever the process's disposition.
    ///
    /// # Errors
    /// The peer is gone ([`io::ErrorKind::BrokenPipe`]), or the operating system's answer.
    pub fn write_some(&self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let started = Instant::now();
        loop {
            match self.socket.send(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let left = wait.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(0);
            }
            let mut watched = [PollFd::new(&self.socket, PollFlags::OUT)];
            match rustix::event::poll(&mut watched, Some(&timespec(left))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether the peer has closed the whole connection; its half-close does not count.
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        hung_up(self.socket.as_fd())
    }

    /// Throws away what the peer has sent and nobody read, up to `limit_bytes`, descriptors included; never waits. A socket
    /// closed with unread bytes makes the peer see a reset in place of the end.
    pub fn discard_received(&self, limit_bytes: usize) {
        let mut chunk = [0; 4096];
        let mut discarded_bytes = 0;
        while discarded_bytes < limit_bytes {
            // Each on its own: the first one, too, is closed where nobody waits.
            match self.socket.receive_with_descriptors(&mut chunk, &mut None) {
                Ok(received) if received > 0 => discarded_bytes += received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }

    /// Ends our direction: the peer reads what was written and then the end.
    pub fn shutdown_write(&self) {
        // The peer may have gone first; then there is nothing to end.
        let _ = self.socket.shutdown_write();
    }
}

impl AsFd for BlockingStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn timespec(wait: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    }
}

//! One connection, as tasks see it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use interprocess::os::unix::uds_local_socket::tokio::Stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, Shutdown, recvmsg,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

use super::blocking::BlockingStream;
use super::peer::PeerIdentity;

/// A connected socket.
///
/// Writing to a peer that has gone is an error value; the process's SIGPIPE disposition is neither used nor changed.
/// Dropping it closes the connection. `AsyncWrite::shutdown` is a real half-close.
#[derive(Debug)]
pub struct IpcStream {
    socket: Stream,
    descriptors: PassedDescriptors,
}

/// What happens to descriptors that the peer attaches to its bytes.
#[derive(Debug)]
enum PassedDescriptors {
    /// The kernel throws them away.
    Discard,
    /// The first is kept, later ones are closed on arrival: a peer cannot fill our table.
    KeepFirst(Option<OwnedFd>),
}

/// Room for what one read may carry. What does not fit is closed by the kernel.
const DESCRIPTORS_PER_READ: usize = 4;

impl IpcStream {
    /// Who connected (or, on an outgoing connection, who listens).
    ///
    /// # Errors
    /// The operating system's answer for a socket that was never connected.
    pub fn peer_identity(&self) -> io::Result<PeerIdentity> {
        PeerIdentity::of(self.socket.inner())
    }

    /// Ends our direction: the peer reads the end, and can still send. Bytes already written arrive.
    ///
    /// # Errors
    /// The operating system's answer; harmless when the peer has already gone.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?)
    }

    /// Whether the peer has closed the whole connection. A peer that only ended its own direction has not.
    #[must_use]
    pub fn peer_hung_up(&self) -> bool {
        hung_up(self.socket.as_fd())
    }

    /// From now on a descriptor that arrives with any byte is kept (the first; later ones are closed).
    ///
    /// Without this call descriptors are discarded by the kernel, so that a peer cannot place any in our process.
    pub fn keep_passed_descriptor(&mut self) {
        if matches!(self.descriptors, PassedDescriptors::Discard) {
            self.descriptors = PassedDescriptors::KeepFirst(None);
        }
    }

    /// Takes the descriptor that has arrived, if one has.
    pub fn take_passed_descriptor(&mut self) -> Option<OwnedFd> {
        match &mut self.descriptors {
            PassedDescriptors::Discard => None,
            PassedDescriptors::KeepFirst(kept) => kept.take(),
        }
    }

    /// Reads one byte after another until a descriptor arrives (or returns the one already here).
    /// `Ok(None)`: the peer ended its direction, or sent `limit_bytes` without one. Waits without limit: bound it.
    ///
    /// # Errors
    /// Errors of the read.
    pub async fn receive_descriptor(&mut self, limit_bytes: usize) -> io::Result<Option<OwnedFd>> {
        self.keep_passed_descriptor();
        for _ in 0..limit_bytes {
            if let Some(descriptor) = self.take_passed_descriptor() {
                return Ok(Some(descriptor));
            }
            if self.read(&mut [0]).await? == 0 {
                break;
            }
        }
        Ok(self.take_passed_descriptor())
    }

    /// Leaves the runtime, for a thread of one's own. The descriptor stays non-blocking.
    ///
    /// # Errors
    /// The runtime could not give the descriptor up.
    pub fn into_blocking(self) -> io::Result<BlockingStream> {
        Ok(BlockingStream::new(OwnedFd::try_from(self.socket)?))
    }

    /// Two connected streams without a file, for tests of what runs on top.
    ///
    /// # Errors
    /// No descriptors, or no runtime.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (left, right) = UnixStream::pair()?;
        Ok((Self::from(Stream::from(left)), Self::from(Stream::from(right))))
    }
}

/// One read that keeps the first descriptor arriving with it.
fn receive(socket: &Stream, kept: &mut Option<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_READ))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let result = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if result.flags.contains(ReturnFlags::CTRUNC) {
        tracing::debug!("more descriptors arrived than one read holds; the rest was closed");
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for descriptor in descriptors {
                kept.get_or_insert(descriptor);
            }
        }
    }
    Ok(result.bytes)
}

impl From<Stream> for IpcStream {
    fn from(socket: Stream) -> Self {
        Self { socket, descriptors: PassedDescriptors::Discard }
    }
}

impl AsFd for IpcStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsyncRead for IpcStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, descriptors } = self.get_mut();
        let PassedDescriptors::KeepFirst(kept) = descriptors else {
            return Pin::new(socket).poll_read(context, buffer);
        };
        loop {
            ready!(socket.inner().poll_read_ready(context))?;
            let attempt = || receive(socket, kept, buffer.initialize_unfilled());
            match socket.inner().try_io(Interest::READABLE, attempt) {
                Ok(received) => {
                    buffer.advance(received);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for IpcStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let socket = &self.get_mut().socket;
        loop {
            ready!(socket.inner().poll_write_ready(context))?;
            // Not the stream's own write: whether that asks for no SIGPIPE depends on the standard library's version.
            let attempt = || Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?);
            match socket.inner().try_io(Interest::WRITABLE, attempt) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown_write())
    }
}

/// POLLHUP or POLLERR, which are reported without being asked for. A half-close is neither.
pub(super) fn hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut watched, Some(&no_wait)) {
        Ok(0) | Err(_) => false,
        Ok(_) => watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
    }
}

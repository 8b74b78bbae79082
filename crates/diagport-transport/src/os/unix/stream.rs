//! One connection, as tasks see it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use interprocess::os::unix::uds_local_socket::Stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};

use super::blocking::BlockingStream;
use super::guarded_socket::{GuardedSocket, PassedDescriptor};
use super::peer::PeerIdentity;

/// A connected socket.
///
/// Writing to a peer that has gone is an error value; the process's SIGPIPE disposition is neither used nor changed.
/// Dropping it closes the connection and never waits. `AsyncWrite::shutdown` is a real half-close.
///
/// It is registered with the runtime when it first has to wait. Most requests are there when we look and most replies find room,
/// so most connections never are.
#[derive(Debug)]
pub struct IpcStream {
    socket: Arc<GuardedSocket>,
    registered: Option<Registered>,
    peer: Option<PeerIdentity>,
    descriptors: PassedDescriptors,
}

#[derive(Debug)]
struct Registered {
    waiting: AsyncFd<Arc<GuardedSocket>>,
    interest: Interest,
}

/// What happens to descriptors that the peer attaches to its bytes.
#[derive(Debug)]
enum PassedDescriptors {
    /// The kernel throws them away.
    Discard,
    /// The first is kept, later ones are closed on arrival: a peer cannot fill our table.
    KeepFirst(Option<PassedDescriptor>),
}

/// What [`IpcStream::take_received`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// That many bytes.
    Bytes(usize),
    /// Nothing, so far.
    Nothing,
    /// The peer has ended its direction, or the connection is broken.
    End,
}

impl IpcStream {
    /// Takes over a connected, non-blocking socket.
    pub(super) fn new(socket: Stream) -> Self {
        let peer = PeerIdentity::of(&socket).ok();
        Self {
            socket: Arc::new(GuardedSocket::new(socket.into())),
            registered: None,
            peer,
            descriptors: PassedDescriptors::Discard,
        }
    }

    /// Who connected (or, on an outgoing connection, who listens).
    ///
    /// # Errors
    /// The operating system did not say, when the connection was made.
    pub fn peer_identity(&self) -> io::Result<PeerIdentity> {
        self.peer.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Ends our direction: the peer reads the end, and can still send. Bytes already written arrive.
    ///
    /// # Errors
    /// The operating system's answer; harmless when the peer has already gone.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown_write()
    }

    /// Whether the peer has closed the whole connection. A peer that only ended its own direction has not.
    #[must_use]
    pub fn peer_hung_up(&self) -> bool {
        hung_up(self.socket.as_fd())
    }

    /// From now on a descriptor that arrives with any byte is kept (the first; later ones are closed).
    ///
    /// Without this call descriptors are discarded by the kernel, so that a peer cannot place any in our process; but then their
    /// close is this thread's, for as long as it takes. Call it for peers that are not trusted.
    pub fn keep_passed_descriptor(&mut self) {
        if matches!(self.descriptors, PassedDescriptors::Discard) {
            self.descriptors = PassedDescriptors::KeepFirst(None);
        }
    }

    /// Takes the descriptor that has arrived, if one has.
    pub fn take_passed_descriptor(&mut self) -> Option<PassedDescriptor> {
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
    pub async fn receive_descriptor(&mut self, limit_bytes: usize) -> io::Result<Option<PassedDescriptor>> {
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

    /// Ends the registration with the runtime, so that nothing the peer does wakes anybody; the next wait makes a new one.
    pub fn leave_runtime(&mut self) {
        self.registered = None;
    }

    /// Takes what has been received, without waiting and without the runtime.
    pub fn take_received(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            match self.descriptors.receive(&self.socket, buffer) {
                Ok(0) => return Received::End,
                Ok(bytes) => return Received::Bytes(bytes),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Received::Nothing,
                    io::ErrorKind::Interrupted => {}
                    _ => return Received::End,
                },
            }
        }
    }

    /// Leaves the runtime, for a thread of one's own. The descriptor stays non-blocking.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn into_blocking(self) -> BlockingStream {
        let Self { socket, registered, .. } = self;
        drop(registered);
        let socket = Arc::into_inner(socket).expect("invariant: only the registration shared it");
        BlockingStream::new(socket)
    }

    /// Two connected streams without a file, for tests of what runs on top.
    ///
    /// # Errors
    /// No descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (left, right) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self::new(left.into()), Self::new(right.into())))
    }

    fn poll_io<T>(
        &mut self,
        interest: Interest,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&GuardedSocket, &mut PassedDescriptors) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let Self { socket, registered, descriptors, .. } = self;
        if !registered.as_ref().is_some_and(|registered| covers(registered.interest, interest)) {
            match attempt(socket, descriptors) {
                Err(error) if is_passing(&error) => {}
                done => return Poll::Ready(done),
            }
        }
        let registered = Registered::for_interest(registered, socket, interest)?;
        loop {
            let mut ready = ready!(registered.poll_ready(interest, context))?;
            match ready.try_io(|socket| attempt(socket.get_ref(), descriptors)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(done) => return Poll::Ready(done),
                // Not any more: wait for the next time.
                Err(_) => {}
            }
        }
    }
}

impl Registered {
    /// The registration that waits for that, made or widened if need be.
    fn for_interest<'a>(
        slot: &'a mut Option<Self>,
        socket: &Arc<GuardedSocket>,
        interest: Interest,
    ) -> io::Result<&'a Self> {
        let interest = match slot.take() {
            Some(registered) if covers(registered.interest, interest) => {
                return Ok(slot.insert(registered));
            }
            Some(registered) => registered.interest | interest,
            None => interest,
        };
        let waiting = socket.register(interest)?;
        Ok(slot.insert(Self { waiting, interest }))
    }

    fn poll_ready(
        &self,
        interest: Interest,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<tokio::io::unix::AsyncFdReadyGuard<'_, Arc<GuardedSocket>>>> {
        if interest.is_readable() {
            self.waiting.poll_read_ready(context)
        } else {
            self.waiting.poll_write_ready(context)
        }
    }
}

fn covers(has: Interest, wanted: Interest) -> bool {
    (has.is_readable() || !wanted.is_readable()) && (has.is_writable() || !wanted.is_writable())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl PassedDescriptors {
    fn receive(&mut self, socket: &GuardedSocket, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Discard => socket.receive(buffer),
            Self::KeepFirst(kept) => socket.receive_with_descriptors(buffer, kept),
        }
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
        let received = ready!(self.get_mut().poll_io(Interest::READABLE, context, |socket, descriptors| {
            descriptors.receive(socket, buffer.initialize_unfilled())
        }))?;
        buffer.advance(received);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for IpcStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_io(Interest::WRITABLE, context, |socket, _| socket.send(bytes))
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

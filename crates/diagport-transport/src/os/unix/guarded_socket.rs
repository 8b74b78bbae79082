//! A socket whose close never waits, whatever its peers have put into it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, Shutdown, recvmsg,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::closer::close_aside;

/// The most that Linux attaches to one message (`SCM_MAX_FD`). What found no room in a read would be closed by the kernel, on
/// the reading thread.
const DESCRIPTORS_PER_READ: usize = 253;

/// Owns a non-blocking socket, connected or listening.
#[derive(Debug)]
pub(super) struct GuardedSocket {
    /// `None` only while it is dropped.
    socket: Option<OwnedFd>,
    /// The peer's end was read: its queue is empty and stays so.
    read_to_end: AtomicBool,
}

impl GuardedSocket {
    pub(super) const fn new(socket: OwnedFd) -> Self {
        Self { socket: Some(socket), read_to_end: AtomicBool::new(false) }
    }

    /// Lets tasks wait for it. Needs a tokio runtime with I/O enabled.
    #[allow(unsafe_code, reason = "one block, explained below")]
    pub(super) fn register(self: &Arc<Self>, interest: Interest) -> io::Result<AsyncFd<Arc<Self>>> {
        // JUSTIFICATION: the safe constructors of AsyncFd are deprecated, and tokio's own sockets register each accepted connection
        // at once, for reading and writing: four wake-ups and two calls more for a request that is answered in ten calls.
        // SAFETY: the descriptor is ours and open, it is only taken out of `self` by the drop, and the AsyncFd holds a
        // reference to `self`, so it stays the same one for as long as the registration lives.
        let registered = unsafe { AsyncFd::register_with_interest(Arc::clone(self), interest) };
        registered.map_err(io::Error::from)
    }

    /// Writes what there is room for. No SIGPIPE, whatever the process's disposition.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    /// Reads what is there; the kernel throws descriptors away.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (received, _) = rustix::net::recv(self, &mut *buffer, RecvFlags::DONTWAIT)?;
        self.note_end(received, buffer.len());
        Ok(received)
    }

    /// Reads what is there. The first descriptor ever to arrive stays in `kept`, the others are closed.
    pub(super) fn receive_with_descriptors(
        &self,
        buffer: &mut [u8],
        kept: &mut Option<PassedDescriptor>,
    ) -> io::Result<usize> {
        let buffer_bytes = buffer.len();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_READ))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let result = recvmsg(self, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
        if result.flags.contains(ReturnFlags::CTRUNC) {
            tracing::debug!("no room for all descriptors of a peer; the kernel closed the rest");
        }
        let mut unwanted = Vec::new();
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(descriptors) = message else { continue };
            for descriptor in descriptors {
                match kept {
                    None => *kept = Some(PassedDescriptor::new(descriptor)),
                    Some(_) => unwanted.push(descriptor),
                }
            }
        }
        close_aside(unwanted);
        self.note_end(result.bytes, buffer_bytes);
        Ok(result.bytes)
    }

    /// Ends our direction.
    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self, Shutdown::Write)?)
    }

    fn note_end(&self, received: usize, buffer_bytes: usize) {
        if received == 0 && buffer_bytes > 0 {
            // Relaxed: whoever drops the socket owns it by then, and what handed it over has synchronised.
            self.read_to_end.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for GuardedSocket {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        if *self.read_to_end.get_mut() {
            return;
        }
        // Nothing arrives behind this, so that what is counted next is all there is. A peer that has gone is no error.
        // A listener gives no count: those who wait in its queue may have sent already.
        let _ = rustix::net::shutdown(&socket, Shutdown::Both);
        if !matches!(rustix::io::ioctl_fionread(&socket), Ok(0)) {
            close_aside(vec![socket]);
        }
    }
}

impl AsFd for GuardedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_ref().expect("invariant: it is there until the drop").as_fd()
    }
}

impl AsRawFd for GuardedSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// A descriptor that a peer attached to its bytes.
///
/// What it is and how long its last close takes is the peer's choice, so dropping it closes it on a thread that nobody waits for.
#[derive(Debug)]
pub struct PassedDescriptor(Option<OwnedFd>);

impl PassedDescriptor {
    const fn new(descriptor: OwnedFd) -> Self {
        Self(Some(descriptor))
    }

    /// The bare descriptor. Who closes it waits for as long as its maker likes.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn into_descriptor(mut self) -> OwnedFd {
        self.0.take().expect("invariant: it is there until the drop")
    }
}

impl AsFd for PassedDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("invariant: it is there until the drop").as_fd()
    }
}

impl Drop for PassedDescriptor {
    fn drop(&mut self) {
        if let Some(descriptor) = self.0.take() {
            close_aside(vec![descriptor]);
        }
    }
}

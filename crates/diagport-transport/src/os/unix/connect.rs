//! Reaching somebody else's port.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use interprocess::ConnectWaitMode;
use interprocess::local_socket::{ConnectOptions, GenericFilePath, prelude::*};
use interprocess::os::unix::uds_local_socket::Stream;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::time::Instant;

use super::path::check_path;
use super::stream::IpcStream;
use crate::{Backoff, ConnectError};

/// Connects to the port at `path`, for `limit` at most.
///
/// Absent, refusing and forbidden ports fail at once; a full queue is waited for. What is returned is connected:
/// the kernel has named the peer.
///
/// # Errors
/// [`ConnectError`], by cause. A path over 107 bytes is refused before anything is opened.
pub async fn connect(path: &Path, limit: Duration) -> Result<IpcStream, ConnectError> {
    check_path(path)?;
    let started = Instant::now();
    let mut backoff = Backoff::new();
    loop {
        match connect_once(path) {
            Ok(Some(stream)) => return Ok(stream),
            Ok(None) => {}
            Err(error) => return Err(named(error, path)),
        }
        let waited = started.elapsed();
        if waited >= limit {
            return Err(ConnectError::TimedOut { path: path.to_owned(), waited_ms: waited.as_millis() });
        }
        tokio::time::sleep(backoff.next_wait().min(limit - waited)).await;
    }
}

/// `None`: the peer's queue is full.
fn connect_once(path: &Path) -> io::Result<Option<IpcStream>> {
    let name = path.as_os_str().to_fs_name::<GenericFilePath>()?;
    // Deferred: a Unix socket connects at once or never, there is no hand-shake to wait for.
    let stream: Stream = ConnectOptions::new()
        .name(name)
        .wait_mode(ConnectWaitMode::Deferred)
        .nonblocking_stream(true)
        .connect_sync_as()?;
    // interprocess takes EAGAIN (queue full) for "in progress" and reports success on an unconnected socket.
    match rustix::net::getpeername(stream.as_fd()) {
        Ok(_) => Ok(Some(IpcStream::new(stream))),
        Err(rustix::io::Errno::NOTCONN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn named(error: io::Error, path: &Path) -> ConnectError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ConnectError::NotFound { path },
        io::ErrorKind::ConnectionRefused => ConnectError::Refused { path },
        io::ErrorKind::PermissionDenied => ConnectError::PermissionDenied { path },
        _ => ConnectError::Io { path, source: error },
    }
}

/// What a socket file answers to one connection attempt. Never waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A process listens (its queue may be full just now).
    Served,
    /// Nobody does: the file is a leftover, or not a socket at all.
    Refused,
    /// No such file.
    Absent,
    /// We may not know: no permission, or another kind of socket, or an error.
    Unknown,
}

/// Tries one connection to `path` and drops it at once, without waiting and without a runtime.
#[must_use]
pub fn probe(path: &Path) -> Probe {
    let attempt = || -> rustix::io::Result<()> {
        let address = SocketAddrUnix::new(path)?;
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::connect(&socket, &address)
    };
    match attempt() {
        Ok(()) | Err(rustix::io::Errno::AGAIN) => Probe::Served,
        Err(rustix::io::Errno::CONNREFUSED) => Probe::Refused,
        Err(rustix::io::Errno::NOENT) => Probe::Absent,
        Err(_) => Probe::Unknown,
    }
}

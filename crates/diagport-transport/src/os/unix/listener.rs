//! One socket file and those who connect to it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interprocess::local_socket::{GenericFilePath, ListenerNonblockingMode, ListenerOptions, prelude::*};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket::Listener;
use rustix::fs::{AtFlags, CWD, Gid, Mode};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::connect::{Probe, probe};
use super::guarded_socket::GuardedSocket;
use super::path::check_path;
use super::peer::effective_uid;
use super::socket_file::{Entry, FileIdentity, entry_at, unlink_if_same};
use super::stream::IpcStream;
use crate::{Backoff, BindError};

const OWNER_ONLY: u32 = 0o600;
const OWNER_AND_GROUP: u32 = 0o660;

/// How often a bind is tried again when the path changes under our hands.
const BIND_ATTEMPTS: usize = 3;
/// A refusing socket is asked twice, this far apart: between another process's bind and listen it refuses, too.
const STALE_RECHECK: Duration = Duration::from_millis(20);

/// Who may open a listening port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortAccess {
    /// The user of this process (mode 0600), and root.
    #[default]
    OwnerOnly,
    /// Members of a group as well (mode 0660 once the group is set; 0600 until then).
    Group {
        /// The group.
        gid: u32,
    },
}

/// How a port is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BindOptions {
    /// Who may connect.
    pub access: PortAccess,
}

/// A listening port. Dropping it removes its file, if the file is still the one it made.
#[derive(Debug)]
pub struct PortListener {
    listener: AsyncFd<Arc<GuardedSocket>>,
    path: PathBuf,
    /// `path`, as it was meant when it was bound, whatever the working directory is later.
    absolute_path: PathBuf,
    identity: FileIdentity,
    options: BindOptions,
    /// Connections that waited in the queue of a listener that has been replaced.
    inherited: Mutex<VecDeque<IpcStream>>,
    /// Given up for a moment to accept-and-close when no descriptor is left.
    spare: Mutex<Option<File>>,
    /// The next wait while there is no room for another connection.
    exhausted: Mutex<Backoff>,
}

/// Whether somebody gave something up for a connection that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeRoom {
    /// A descriptor comes free in a moment.
    Yes,
    /// There is nothing to give up.
    No,
}

impl PortListener {
    /// Opens the port at `path`: its file appears with its final rights, under any umask.
    ///
    /// A leftover socket of our own that refuses connections is replaced. Needs a tokio runtime with I/O enabled;
    /// blocks for file system calls only (20 ms more where a leftover is found).
    ///
    /// # Errors
    /// [`BindError`], by cause; nothing that answers, is not a socket or is not ours is ever removed.
    pub fn bind(path: &Path, options: BindOptions) -> Result<Self, BindError> {
        check_path(path)?;
        let absolute_path = std::path::absolute(path).map_err(|source| io_error(path, source))?;
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..BIND_ATTEMPTS {
            clear_stale(path)?;
            match listen(path) {
                Ok(listener) => {
                    let identity = identify(path)?;
                    let opened = Self {
                        listener,
                        path: path.to_owned(),
                        absolute_path,
                        identity,
                        options,
                        inherited: Mutex::default(),
                        spare: Mutex::new(spare_descriptor()),
                        exhausted: Mutex::default(),
                    };
                    opened.admit_group()?;
                    return Ok(opened);
                }
                // Somebody was faster: look again who it is.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(io_error(path, error)),
            }
        }
        Err(io_error(path, last))
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file at the path is still the one we made.
    #[must_use]
    pub fn is_path_ours(&self) -> bool {
        matches!(entry_at(&self.absolute_path), Ok(Entry::Socket(found)) if found == self.identity)
    }

    /// Makes the file again after it vanished. Connections already waiting stay and are accepted first.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); this listener then goes on as before, reachable by nobody new.
    pub fn recreate(&mut self) -> Result<(), BindError> {
        let mut fresh = Self::bind(&self.absolute_path, self.options)?;
        while let Ok(stream) = accept_now(self.listener.get_ref()) {
            lock(&self.inherited).push_back(stream);
        }
        // The old identity is gone from the disk; only the fresh one may be unlinked from now on.
        std::mem::swap(&mut self.listener, &mut fresh.listener);
        std::mem::swap(&mut self.identity, &mut fresh.identity);
        Ok(())
    }

    /// The next connection. Cancel-safe.
    ///
    /// Where descriptors or memory have run out it waits, growing from 10 ms to 500 ms, and turns one waiting peer
    /// away each time (he sees the end at once instead of nothing for ever); it never spins and never returns
    /// that error.
    ///
    /// # Errors
    /// Errors of the listening socket itself. The caller waits before it asks again.
    pub async fn accept(&self) -> io::Result<IpcStream> {
        self.accept_or_make_room(|| MadeRoom::No).await
    }

    /// As [`accept`](Self::accept), but before a peer is turned away `make_room` may give up something less worth than he is.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub async fn accept_or_make_room(
        &self,
        mut make_room: impl FnMut() -> MadeRoom,
    ) -> io::Result<IpcStream> {
        loop {
            if let Some(stream) = lock(&self.inherited).pop_front() {
                return Ok(stream);
            }
            let mut ready = self.listener.readable().await?;
            let Ok(accepted) = ready.try_io(|listener| accept_now(listener.get_ref())) else { continue };
            match accepted {
                Ok(stream) => {
                    lock(&self.exhausted).reset();
                    return Ok(stream);
                }
                Err(error) if is_exhaustion(&error) => {
                    let wait = lock(&self.exhausted).next_wait();
                    let made_room = make_room();
                    if made_room == MadeRoom::No {
                        self.turn_one_away();
                    }
                    self.tell_exhausted(&error, made_room, wait);
                    tokio::time::sleep(wait).await;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A warning once, when it begins.
    fn tell_exhausted(&self, error: &io::Error, made_room: MadeRoom, wait: Duration) {
        let path = self.path.display();
        if wait == Backoff::new().next_wait() {
            tracing::warn!(%error, %path, "no room for another connection; trying on");
        } else {
            tracing::debug!(%error, ?made_room, ?wait, %path, "still no room for another connection");
        }
    }

    /// Accepts one connection with the spare descriptor and closes it.
    fn turn_one_away(&self) {
        let mut spare = lock(&self.spare);
        drop(spare.take());
        // Nobody there any more, or still no descriptor: then the next one.
        let _ = accept_now(self.listener.get_ref());
        *spare = spare_descriptor();
    }

    fn admit_group(&self) -> Result<(), BindError> {
        let PortAccess::Group { gid } = self.options.access else { return Ok(()) };
        let failed = |error: Errno| io_error(&self.path, error.into());
        // The group first: 0660 with the old group would let the wrong people in for a moment.
        rustix::fs::chownat(CWD, &self.path, None, Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed)?;
        if self.is_path_ours() {
            rustix::fs::chmod(&self.path, Mode::from_raw_mode(OWNER_AND_GROUP)).map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for PortListener {
    fn drop(&mut self) {
        match unlink_if_same(&self.absolute_path, self.identity) {
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, path = %self.absolute_path.display(), "socket file stays behind");
            }
        }
    }
}

fn listen(path: &Path) -> io::Result<AsyncFd<Arc<GuardedSocket>>> {
    let name = path.as_os_str().to_fs_name::<GenericFilePath>()?;
    let listener = ListenerOptions::new()
        .name(name)
        .mode(OWNER_ONLY)
        // interprocess unlinks by path, which may be somebody else's socket by then.
        .reclaim_name(false)
        .nonblocking(ListenerNonblockingMode::Both)
        .create_sync_as::<Listener>()?;
    Arc::new(GuardedSocket::new(listener.into())).register(Interest::READABLE)
}

/// A connection that waits already; `WouldBlock` where none does.
fn accept_now(listener: &GuardedSocket) -> io::Result<IpcStream> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    Ok(IpcStream::new(socket.into()))
}

/// Leaves `path` free, or says who has it.
fn clear_stale(path: &Path) -> Result<(), BindError> {
    let owned = || path.to_owned();
    let found = match entry_at(path).map_err(|source| io_error(path, source))? {
        Entry::Absent => return Ok(()),
        Entry::Other => return Err(BindError::NotASocket { path: owned() }),
        Entry::Socket(found) => found,
    };
    if probe(path) != Probe::Refused {
        return Err(BindError::AlreadyServed { path: owned() });
    }
    let own_uid = effective_uid();
    if found.owner_uid != own_uid {
        return Err(BindError::OwnedByAnother { path: owned(), owner_uid: found.owner_uid, own_uid });
    }
    std::thread::sleep(STALE_RECHECK);
    match probe(path) {
        Probe::Refused => {}
        Probe::Absent => return Ok(()),
        Probe::Served | Probe::Unknown => return Err(BindError::AlreadyServed { path: owned() }),
    }
    let removed = unlink_if_same(path, found).map_err(|source| io_error(path, source))?;
    tracing::info!(path = %path.display(), removed, "stale socket of ours");
    Ok(())
}

fn identify(path: &Path) -> Result<FileIdentity, BindError> {
    match entry_at(path).map_err(|source| io_error(path, source))? {
        Entry::Socket(identity) => Ok(identity),
        Entry::Absent | Entry::Other => Err(io_error(path, io::Error::from(io::ErrorKind::NotFound))),
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    let Some(errno) = Errno::from_io_error(error) else { return false };
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS].contains(&errno)
}

fn spare_descriptor() -> Option<File> {
    File::open("/dev/null").ok()
}

fn io_error(path: &Path, source: io::Error) -> BindError {
    BindError::Io { path: path.to_owned(), source }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

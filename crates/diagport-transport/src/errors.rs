//! Why a port could not be opened: one enum per operation.

use std::io;
use std::path::PathBuf;

/// A path that no Unix socket address can hold.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The address has no room for it. Never truncated: a shortened name is a port nobody finds.
    #[error("socket path is {length_bytes} bytes long, the limit is {limit_bytes}: {}", path.display())]
    TooLong {
        /// The path as given.
        path: PathBuf,
        /// Its length.
        length_bytes: usize,
        /// The longest path that every peer can open: [`crate::MAX_PATH_BYTES`].
        limit_bytes: usize,
    },
    /// Nothing to bind or connect to; the kernel would choose a name by itself.
    #[error("socket path is empty")]
    Empty,
    /// The name would end at its NUL.
    #[error("socket path holds a NUL byte: {}", path.display())]
    HoldsNul {
        /// The path as given.
        path: PathBuf,
    },
}

/// [`crate::PortListener::bind`] failed; nothing was bound and nothing that is not a dead socket of ours was removed.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// No socket address can hold the path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Somebody answers on the path. His port is left alone.
    #[error("already served by another process: {}", path.display())]
    AlreadyServed {
        /// The path.
        path: PathBuf,
    },
    /// A file, a folder or a symbolic link stands there. Never removed, never followed.
    #[error("not a socket, left untouched: {}", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A dead socket, but of another user.
    #[error("stale socket belongs to uid {owner_uid}, we are uid {own_uid}: {}", path.display())]
    OwnedByAnother {
        /// The path.
        path: PathBuf,
        /// Owner of the file.
        owner_uid: u32,
        /// Our effective uid.
        own_uid: u32,
    },
    /// The operating system refused (missing folder, no rights, no descriptors).
    #[error("cannot bind {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

/// [`crate::connect`] failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No socket address can hold the path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// No such file.
    #[error("no socket at {}", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// A socket file whose process is gone, or a file that is no socket.
    #[error("nobody listens at {}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
    },
    /// The file's mode, or its folder's, keeps us out.
    #[error("permission denied: {}", path.display())]
    PermissionDenied {
        /// The path.
        path: PathBuf,
    },
    /// The peer's queue of waiting connections stayed full.
    #[error("no free place in the queue of {} within {waited_ms} ms", path.display())]
    TimedOut {
        /// The path.
        path: PathBuf,
        /// How long we tried.
        waited_ms: u128,
    },
    /// Anything else.
    #[error("cannot connect to {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

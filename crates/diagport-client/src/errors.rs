//! Why a client operation failed: in which phase, at which port, and whose fault it was.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use diagport_codec::{Command, EncodeError, HResult};
use diagport_transport::{ConnectError, PathError, discover, effective_uid};
use thiserror::Error;

/// What an operation was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Opening a connection to a listening port.
    Connect,
    /// Waiting for the process to connect to our listening socket.
    Advertise,
    /// Writing the request.
    Send,
    /// Connected, request sent, waiting for the whole reply.
    Reply(Command),
    /// Reading the environment block behind its reply.
    Environment,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connecting"),
            Self::Advertise => f.write_str("waiting for the process to connect"),
            Self::Send => f.write_str("sending the request"),
            Self::Reply(command) => {
                write!(f, "connected, waiting for the reply to {}", command_name(*command))
            }
            Self::Environment => f.write_str("reading the environment block"),
        }
    }
}

/// The command's name without its number, which no reader of an error line needs.
fn command_name(command: Command) -> String {
    command.name().map_or_else(|| command.to_string(), str::to_owned)
}

/// Whose doing a failure is; exit codes follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing answers there: no file, or nobody behind it.
    NotFound,
    /// The peer, or the operating system on its behalf, said no.
    Refused,
    /// The peer did not answer in time.
    TimedOut,
    /// The peer answered something that is not the protocol, or vanished half-way.
    Peer,
    /// What was asked for cannot be expressed.
    Caller,
    /// The operating system failed us.
    System,
}

/// One request on one connection failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The operation's limit ran out.
    #[error("{port}: time ran out after {}: {phase}", seconds(*.limit))]
    TimedOut {
        /// What was being waited for.
        phase: Phase,
        /// The port.
        port: String,
        /// The limit of the whole operation.
        limit: Duration,
    },
    /// No connection came about.
    #[error(transparent)]
    Unreachable(#[from] UnreachableError),
    /// The peer answered with an error code.
    #[error("{port}: {} was refused by the target: {hresult}{}", command_name(*.command), suffix(.message))]
    Refused {
        /// The port.
        port: String,
        /// The refused command.
        command: Command,
        /// The peer's code.
        hresult: HResult,
        /// The peer's own words, where its reply carries some.
        message: Option<String>,
    },
    /// The peer closed the connection before its answer was complete.
    #[error("{port}: the target closed the connection after {received_bytes} bytes ({phase})")]
    Closed {
        /// What was being waited for.
        phase: Phase,
        /// The port.
        port: String,
        /// Bytes of the answer that had arrived.
        received_bytes: usize,
    },
    /// The peer's answer is not what the protocol prescribes.
    #[error("{port}: malformed answer of the target ({phase}): {detail}")]
    Malformed {
        /// What was being waited for.
        phase: Phase,
        /// The port.
        port: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The operating system failed on an open connection.
    #[error("{port}: {source} ({phase})")]
    Io {
        /// What was being done.
        phase: Phase,
        /// The port.
        port: String,
        /// Its answer.
        source: io::Error,
    },
    /// The request does not fit a message.
    #[error("the request cannot be sent: {0}")]
    Request(#[from] EncodeError),
}

impl ClientError {
    /// Whose doing it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::TimedOut { .. } => Fault::TimedOut,
            Self::Unreachable(error) => error.fault(),
            Self::Refused { .. } => Fault::Refused,
            Self::Closed { .. } | Self::Malformed { .. } => Fault::Peer,
            Self::Io { .. } => Fault::System,
            Self::Request(_) => Fault::Caller,
        }
    }

    /// Whether the peer said that it does not know the command: an older one may do.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Refused { hresult: HResult::UNKNOWN_COMMAND, .. })
    }

    /// Whether the peer is gone rather than slow or unwilling: nobody listens, or the connection broke.
    pub fn is_peer_gone(&self) -> bool {
        match self {
            Self::Unreachable(UnreachableError::SomebodyElse { .. }) => false,
            Self::Unreachable(error) => error.fault() == Fault::NotFound,
            Self::Closed { .. } => true,
            _ => false,
        }
    }
}

/// A port that could not be connected to.
#[derive(Debug, Error)]
pub enum UnreachableError {
    /// No socket address can hold the path; nothing was tried.
    #[error(transparent)]
    Path(#[from] PathError),
    /// No such file.
    #[error("{}: no such socket", .path.display())]
    NoSuchSocket {
        /// The path.
        path: PathBuf,
    },
    /// A file that nobody listens on.
    #[error("{}: nobody listens there (left over from a process that is gone)", .path.display())]
    NobodyListens {
        /// The path.
        path: PathBuf,
    },
    /// Something else than a socket.
    #[error("{}: this is no socket", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A file that is named for the wanted process, but with the key of another one, and served by another one.
    #[error("{}: served by process {served_by}, not by {wanted} (left over from an earlier process of that id, or of another container)", .path.display())]
    SomebodyElse {
        /// The path.
        path: PathBuf,
        /// Who serves it.
        served_by: u32,
        /// Who was looked for.
        wanted: u32,
    },
    /// The file's mode, or its folder's, keeps us out.
    #[error("{}: permission denied: it belongs to uid {}, own uid is {own_uid}", .path.display(), owner(.owner_uid))]
    PermissionDenied {
        /// The path.
        path: PathBuf,
        /// Owner of the file, where we may know.
        owner_uid: Option<u32>,
        /// Our effective uid.
        own_uid: u32,
    },
    /// Anything else.
    #[error("{}: cannot connect: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

impl UnreachableError {
    fn fault(&self) -> Fault {
        match self {
            Self::Path(_) => Fault::Caller,
            Self::NoSuchSocket { .. }
            | Self::NobodyListens { .. }
            | Self::NotASocket { .. }
            | Self::SomebodyElse { .. } => Fault::NotFound,
            Self::PermissionDenied { .. } => Fault::Refused,
            Self::Io { .. } => Fault::System,
        }
    }

    /// Translates the transport's answer; `None` for a full queue, which is a matter of time.
    pub(crate) fn from_connect(error: ConnectError) -> Option<Self> {
        Some(match error {
            ConnectError::Path(error) => Self::Path(error),
            ConnectError::NotFound { path } => Self::NoSuchSocket { path },
            ConnectError::Refused { path } if discover::is_no_socket(&path) => Self::NotASocket { path },
            ConnectError::Refused { path } => Self::NobodyListens { path },
            ConnectError::PermissionDenied { path } => Self::PermissionDenied {
                owner_uid: discover::owner_uid_of(&path),
                own_uid: effective_uid(),
                path,
            },
            ConnectError::TimedOut { .. } => return None,
            ConnectError::Io { path, source } => Self::Io { path, source },
        })
    }
}

fn owner(uid: &Option<u32>) -> String {
    uid.map_or_else(|| "(not ours to know)".to_owned(), |uid| uid.to_string())
}

fn suffix(message: &Option<String>) -> String {
    message.as_deref().filter(|text| !text.is_empty()).map_or_else(String::new, |text| format!(": {text}"))
}

pub(crate) fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

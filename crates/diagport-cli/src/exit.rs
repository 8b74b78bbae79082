//! How the binary ends: its numbered exit codes, and the one error line.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use diagport_client::{ClientError, CollectError, Fault, ResolveError};
use diagport_codec::HResult;
use diagport_transport::{BindError, effective_gid, effective_uid};

/// The exit codes. Their numbers are part of the command line's contract.
// spec: CLI-EXIT-1
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Exit {
    /// All that was asked for is done.
    Ok = 0,
    /// It failed for a reason without a number of its own.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A configuration makes no sense.
    Configuration = 3,
    /// There is no such target.
    NotFound = 4,
    /// The target, or the operating system on its behalf, said no.
    Refused = 5,
    /// A limit ran out.
    TimedOut = 6,
    /// A recording ends before its end.
    Truncated = 7,
    /// A recording lost events and `--fail-on-loss` was given.
    Lossy = 8,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// The word for it in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Configuration => "configuration",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Truncated => "truncated",
            Self::Lossy => "lossy",
        }
    }
}

/// Why a command could not do what was asked: the exit code and one line for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: one_line(&message.into()) }
    }
}

/// Whatever an error holds, its line is one line.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        let exit = match error {
            ResolveError::Path(_) => Exit::Usage,
            ResolveError::NoSuchProcess { .. }
            | ResolveError::NoPort { .. }
            | ResolveError::NoSuchName { .. }
            | ResolveError::Ambiguous { .. } => Exit::NotFound,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match error.fault() {
            Fault::NotFound => Exit::NotFound,
            Fault::Refused => Exit::Refused,
            Fault::TimedOut => Exit::TimedOut,
            Fault::Caller => Exit::Usage,
            Fault::Peer | Fault::System => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<CollectError> for Failure {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Client(error @ ClientError::Refused { hresult: HResult::FAIL, .. }) => {
                let hint = "runtimes say so when they have as many sessions as they can";
                Self::new(Exit::Refused, format!("{error} ({hint})"))
            }
            CollectError::Client(error) => error.into(),
            CollectError::BlockNeedsNet11 { .. } => Self::new(Exit::Refused, error.to_string()),
        }
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        let exit = match &error {
            BindError::Path(_) => Exit::Usage,
            BindError::Io { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                return Self::new(Exit::Refused, format!("{error}{}", rights_of_folder(path)));
            }
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

/// Who may write into the folder of a socket, and who we are: that is what has to be brought together.
fn rights_of_folder(socket: &Path) -> String {
    let folder = match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let own = format!("we are uid {}, gid {}", effective_uid(), effective_gid());
    match std::fs::metadata(folder) {
        Ok(facts) => format!(
            ": {} belongs to uid {}, gid {} with mode {:o}, {own}",
            folder.display(),
            facts.uid(),
            facts.gid(),
            facts.mode() & 0o7777
        ),
        Err(_) => format!(": {own}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_one_line() {
        let failure = Failure::new(Exit::Failed, "first\n\n  second\r\nthird\n");
        assert_eq!(failure.message, "first second third");
    }
}

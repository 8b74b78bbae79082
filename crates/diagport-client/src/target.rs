//! Where requests go: a port that we connect to, or a process that connects to us.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diagport_transport::{ConnectError, IpcStream, connect};

use crate::deadline::Deadline;
use crate::errors::{ClientError, Phase, UnreachableError};
use crate::reverse::AdvertisedRuntime;

/// One process to talk to. Every request takes a connection of its own.
#[derive(Debug, Clone)]
pub enum Target {
    /// We connect to its port.
    Listening(ListeningPort),
    /// It connects to our listener, once for each request.
    Advertised(AdvertisedRuntime),
}

impl Target {
    /// The process id, where it is known without asking.
    pub fn process_id(&self) -> Option<u64> {
        match self {
            Self::Listening(port) => port.process_id().map(u64::from),
            Self::Advertised(runtime) => Some(runtime.process_id()),
        }
    }

    /// How an error names it.
    pub fn describe(&self) -> String {
        match self {
            Self::Listening(port) => port.path().display().to_string(),
            Self::Advertised(runtime) => {
                format!("{} (process {})", runtime.listener_path().display(), runtime.process_id())
            }
        }
    }

    pub(crate) async fn open(&self, deadline: Deadline) -> Result<IpcStream, ClientError> {
        match self {
            Self::Listening(port) => port.open(deadline).await,
            Self::Advertised(runtime) => runtime.take_connection(deadline).await,
        }
    }
}

/// A file that may be the wanted process's port.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    pub(crate) trust: Trust,
}

/// How sure a file's name makes us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It was named by a person, or its key is the process's start time.
    Named,
    /// It holds the right pid only: whoever serves it has to be that process.
    PidOnly,
}

/// A listening port: one path, or several candidates of which at most one is alive.
#[derive(Debug, Clone)]
pub struct ListeningPort {
    shared: Arc<Candidates>,
}

#[derive(Debug)]
struct Candidates {
    /// Best first, never empty.
    paths: Vec<Candidate>,
    process_id: Option<u32>,
    /// Which one took a connection; from then on the only one, so that two requests never go to two processes.
    alive: OnceLock<usize>,
}

impl ListeningPort {
    /// # Panics
    /// `paths` is empty.
    pub(crate) fn new(paths: Vec<Candidate>, process_id: Option<u32>) -> Self {
        assert!(!paths.is_empty(), "a listening port has at least one path");
        Self { shared: Arc::new(Candidates { paths, process_id, alive: OnceLock::new() }) }
    }

    /// The path that took a connection, or the best candidate.
    pub fn path(&self) -> &Path {
        &self.shared.paths[self.shared.alive.get().copied().unwrap_or(0)].path
    }

    /// The pid it was looked up by.
    pub fn process_id(&self) -> Option<u32> {
        self.shared.process_id
    }

    /// Connects to the first candidate that does not refuse.
    // spec: CLI-FIND-3
    async fn open(&self, deadline: Deadline) -> Result<IpcStream, ClientError> {
        if let Some(&index) = self.shared.alive.get() {
            return self.open_one(index, deadline).await;
        }
        let mut failure = None;
        for index in 0..self.shared.paths.len() {
            match self.open_one(index, deadline).await {
                Ok(stream) => {
                    self.shared.alive.get_or_init(|| index);
                    return Ok(stream);
                }
                Err(error) => failure = Some(worse(failure, error)),
            }
        }
        Err(failure.expect("a listening port has at least one path"))
    }

    async fn open_one(&self, index: usize, deadline: Deadline) -> Result<IpcStream, ClientError> {
        let Candidate { path, trust } = &self.shared.paths[index];
        let stream = connect(path, deadline.remaining())
            .await
            .map_err(|error| connect_failure(error, path, deadline))?;
        match (trust, self.shared.process_id, served_by(&stream)) {
            (Trust::PidOnly, Some(wanted), Some(served_by)) if served_by != wanted => {
                Err(UnreachableError::SomebodyElse { path: path.clone(), served_by, wanted }.into())
            }
            _ => Ok(stream),
        }
    }
}

/// The process at the other end, as the kernel knows it; `None` where its pid namespace hides it.
fn served_by(stream: &IpcStream) -> Option<u32> {
    stream.peer_identity().ok()?.pid
}

fn connect_failure(error: ConnectError, path: &Path, deadline: Deadline) -> ClientError {
    UnreachableError::from_connect(error).map_or_else(
        || ClientError::TimedOut {
            phase: Phase::Connect,
            port: path.display().to_string(),
            limit: deadline.limit(),
        },
        ClientError::from,
    )
}

/// Of two failures, the one that says more: a leftover file says nothing beside a port that is alive but closed to us.
fn worse(earlier: Option<ClientError>, later: ClientError) -> ClientError {
    match earlier {
        Some(earlier) if !earlier.is_peer_gone() || later.is_peer_gone() => earlier,
        _ => later,
    }
}

//! The monitor side of reverse connect: we listen, runtimes connect and say who they are.
//!
//! ```text
//!   runtime --connect, Advertise--> listener --by cookie--> one idle connection per runtime
//!                                                              | a request takes it
//!   runtime --connect, Advertise--> (the next one) <-----------+ the runtime connects again
//! ```

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diagport_codec::{Advertise, RuntimeCookie};
use diagport_transport::{BindError, BindOptions, IpcStream, PortListener};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::deadline::Deadline;
use crate::errors::{ClientError, Phase};

/// How long a fresh connection may take to say who it is. The released tools allow 250 ms; on a busy machine that is little.
pub const ADVERTISE_LIMIT: Duration = Duration::from_secs(2);
/// Connections that have not yet said who they are. More than that wait in the listener's queue.
const MAX_SILENT_CONNECTIONS: usize = 512;

/// A listening socket and the runtimes that connected to it. Dropping it closes and removes the socket.
#[derive(Debug)]
pub struct ReverseServer {
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    /// Counts changes of `state`; waiters look again at each.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The idle connection of each runtime, if it has one.
    runtimes: HashMap<RuntimeCookie, Known>,
    /// Runtimes nobody has been told of yet, in order of arrival.
    fresh: VecDeque<RuntimeCookie>,
}

#[derive(Debug)]
struct Known {
    process_id: u64,
    idle: Option<IpcStream>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code runs under this lock that could leave the maps half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A runtime's newest connection replaces the one before: the runtime itself has given that one up.
    // spec: CLI-REVERSE-2
    fn admit(&self, advertise: Advertise, stream: IpcStream) {
        let mut state = self.state();
        match state.runtimes.get_mut(&advertise.cookie) {
            Some(known) => known.idle = Some(stream),
            None => {
                let known = Known { process_id: advertise.process_id, idle: Some(stream) };
                state.runtimes.insert(advertise.cookie, known);
                state.fresh.push_back(advertise.cookie);
            }
        }
        drop(state);
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl ReverseServer {
    /// Starts listening. Must be called within a tokio runtime, on which accepting runs.
    ///
    /// # Errors
    /// [`BindError`]; a path that somebody serves is left alone.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let listener = PortListener::bind(path, BindOptions::default())?;
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        let accepting = tokio::spawn(accept_all(listener, Arc::clone(&shared)));
        Ok(Self { shared, accepting })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The next runtime that has not been returned yet; waits until one arrives. Safe to drop half-way.
    pub async fn accept(&self) -> AdvertisedRuntime {
        let mut changes = self.shared.changes.subscribe();
        loop {
            if let Some(runtime) = self.next_fresh() {
                return runtime;
            }
            if changes.changed().await.is_err() {
                // The sender lives in `shared`, which we hold.
                unreachable!("the change counter outlives its listeners");
            }
        }
    }

    fn next_fresh(&self) -> Option<AdvertisedRuntime> {
        let mut state = self.shared.state();
        let cookie = state.fresh.pop_front()?;
        let process_id = state.runtimes.get(&cookie)?.process_id;
        Some(AdvertisedRuntime { shared: Arc::clone(&self.shared), cookie, process_id })
    }

    /// Stops accepting and removes the socket; returns once it is gone.
    pub async fn close(mut self) {
        self.accepting.abort();
        // Its result can only be "cancelled"; what matters is that the listener has been dropped by then.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for ReverseServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept_all(listener: PortListener, shared: Arc<Shared>) {
    let mut greetings = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if greetings.len() < MAX_SILENT_CONNECTIONS => match accepted {
                Ok(stream) => {
                    greetings.spawn(greet(stream, Arc::clone(&shared)));
                }
                Err(error) => {
                    tracing::debug!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = greetings.join_next() => {}
        }
    }
}

/// Whoever does not introduce himself in time, or not as the protocol says, is dropped.
// spec: CLI-REVERSE-1
async fn greet(mut stream: IpcStream, shared: Arc<Shared>) {
    let mut bytes = [0; diagport_codec::limits::ADVERTISE_BYTES];
    let read = tokio::time::timeout(ADVERTISE_LIMIT, stream.read_exact(&mut bytes)).await;
    if !matches!(read, Ok(Ok(_))) {
        tracing::debug!("a connection did not introduce itself");
        return;
    }
    match Advertise::decode(&bytes) {
        Ok(advertise) => shared.admit(advertise, stream),
        Err(error) => tracing::debug!(%error, "a connection introduced itself wrongly"),
    }
}

/// One runtime that connected to a [`ReverseServer`].
#[derive(Debug, Clone)]
pub struct AdvertisedRuntime {
    shared: Arc<Shared>,
    cookie: RuntimeCookie,
    process_id: u64,
}

impl AdvertisedRuntime {
    /// What it is known by, however often it connects.
    pub fn cookie(&self) -> RuntimeCookie {
        self.cookie
    }

    /// The process id it announced, in its own pid namespace.
    pub fn process_id(&self) -> u64 {
        self.process_id
    }

    pub(crate) fn listener_path(&self) -> &Path {
        &self.shared.path
    }

    /// Takes its idle connection, or waits for the next. One whose peer is gone is passed over.
    // spec: CLI-REVERSE-3
    pub(crate) async fn take_connection(&self, deadline: Deadline) -> Result<IpcStream, ClientError> {
        let mut changes = self.shared.changes.subscribe();
        let take = async {
            loop {
                if let Some(stream) = self.take_idle() {
                    return stream;
                }
                if changes.changed().await.is_err() {
                    unreachable!("the change counter outlives its listeners");
                }
            }
        };
        deadline.run(take).await.ok_or_else(|| ClientError::TimedOut {
            phase: Phase::Advertise,
            port: self.shared.path.display().to_string(),
            limit: deadline.limit(),
        })
    }

    fn take_idle(&self) -> Option<IpcStream> {
        let stream = self.shared.state().runtimes.get_mut(&self.cookie)?.idle.take()?;
        (!stream.peer_hung_up()).then_some(stream)
    }
}

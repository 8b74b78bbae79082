//! A running server, as its embedder holds it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diagport_codec::RuntimeCookie;
use tokio::time::{Instant, timeout_at};

use crate::ServerStatistics;
use crate::shared::Shared;

/// Of the time for shutdown, what is kept back to cut sessions that do not end in order.
const ABORT_SHARE: u32 = 5;

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Everything ended in order.
    Complete,
    /// The time ran out; what was left has been cut.
    Cut,
}

/// A running server. Dropping it stops the server and its sessions without waiting for anything.
pub struct ServerHandle {
    shared: Arc<Shared>,
    default_port_path: Option<PathBuf>,
    unusable_ports: Vec<String>,
}

impl ServerHandle {
    pub(crate) const fn new(
        shared: Arc<Shared>,
        default_port_path: Option<PathBuf>,
        unusable_ports: Vec<String>,
    ) -> Self {
        Self { shared, default_port_path, unusable_ports }
    }

    /// Returns when no port holds startup any more; at once where none did. Also when the server has been shut down:
    /// then nobody can resume it any more. Cancel-safe.
    pub async fn wait_resumed(&self) {
        tokio::select! {
            () = self.shared.gate.wait_resumed() => {}
            () = self.shared.stopping.cancelled() => {}
        }
    }

    /// Whether a port holds startup now.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.shared.gate.is_suspended()
    }

    /// The identity of this server, in every Advertise and ProcessInfo.
    #[must_use]
    pub fn cookie(&self) -> RuntimeCookie {
        self.shared.cookie
    }

    /// Where the default port listens; `None` where there is none.
    #[must_use]
    pub fn default_port_path(&self) -> Option<&Path> {
        self.default_port_path.as_deref()
    }

    /// One line for each configured port that could not be opened. The server runs without them.
    #[must_use]
    pub fn unusable_ports(&self) -> &[String] {
        &self.unusable_ports
    }

    /// What the server has done so far.
    #[must_use]
    pub fn statistics(&self) -> ServerStatistics {
        self.shared.counters.snapshot(self.shared.half_open.count(), self.shared.farewells.count())
    }

    /// Stops: no new connection, silent ones closed, socket files removed; its sessions are stopped in order (last
    /// events, rundown, end of stream), requests under way answered. All within `deadline`; what is not done by
    /// then is cut. A reader that stands still costs [`Limits::stop_grace`](crate::Limits::stop_grace) at most.
    ///
    /// The pipe stays usable.
    // spec: SRV-SHUTDOWN-1
    pub async fn shutdown(&self, deadline: Duration) -> Shutdown {
        let end = Instant::now() + deadline;
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        let mut cut_sessions = self.shared.sessions.stop_all(end, deadline / ABORT_SHARE).await;
        let tasks_ended = timeout_at(end, self.shared.tasks.wait()).await.is_ok();
        // A request that was under way may have started one more session meanwhile.
        cut_sessions += self.shared.sessions.stop_all(end, deadline / ABORT_SHARE).await;
        self.shared.aborting.cancel();
        // One that was parting just when the stop came.
        self.shared.farewells.close_all(self.shared.limits.drain_bytes);
        if cut_sessions == 0 && tasks_ended { Shutdown::Complete } else { Shutdown::Cut }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
        self.shared.aborting.cancel();
        self.shared.sessions.request_stop_all();
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerHandle")
            .field("cookie", &self.shared.cookie)
            .field("default_port_path", &self.default_port_path)
            .finish_non_exhaustive()
    }
}

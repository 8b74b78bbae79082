//! Diagnostics of a running program, as it holds them.

use std::time::Duration;

use diagport_server::{ServerHandle, Shutdown};
use diagport_session::EventPipe;

use crate::{DiagnosticsBuilder, StartupSession};

/// The event pipe, the server and the startup session of a program.
///
/// [`shutdown`](Self::shutdown) ends all in order. A drop without it ends the startup session in order too, which may block for up to
/// 2 s, and the server without waiting for anything.
#[derive(Debug)]
pub struct Diagnostics {
    pub(crate) pipe: EventPipe,
    // Before the server: its file matters more than a port that goes.
    pub(crate) startup_session: Option<StartupSession>,
    pub(crate) server: ServerHandle,
}

impl Diagnostics {
    /// Diagnostics of this process, to be started.
    pub fn builder() -> DiagnosticsBuilder {
        DiagnosticsBuilder::new()
    }

    /// Where providers and events are defined.
    #[must_use]
    pub const fn pipe(&self) -> &EventPipe {
        &self.pipe
    }

    /// The server: its ports, its statistics.
    #[must_use]
    pub const fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// The session that the environment asked for, if it was started.
    #[must_use]
    pub const fn startup_session(&self) -> Option<&StartupSession> {
        self.startup_session.as_ref()
    }

    /// Returns when no port holds startup any more; at once where none did. Cancel-safe.
    pub async fn wait_resumed(&self) {
        self.server.wait_resumed().await;
    }

    /// Ends the startup session (last events, rundown, end of the file) and the server with its sessions, side by side, within
    /// `deadline`; what is not done by then is cut.
    ///
    /// A session without streaming (`EventPipeOutputStreaming=0`) writes its whole file now: give it time.
    // spec: START-END-1, SRV-SHUTDOWN-1
    pub async fn shutdown(&self, deadline: Duration) -> Shutdown {
        let startup_session = async {
            match &self.startup_session {
                Some(session) => session.end(deadline).await,
                None => Shutdown::Complete,
            }
        };
        match tokio::join!(self.server.shutdown(deadline), startup_session) {
            (Shutdown::Complete, Shutdown::Complete) => Shutdown::Complete,
            _ => Shutdown::Cut,
        }
    }
}

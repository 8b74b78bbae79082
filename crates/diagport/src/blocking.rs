//! Diagnostics for programs without an async runtime of their own.

use std::time::Duration;

use diagport_server::{ServerHandle, Shutdown};
use diagport_session::EventPipe;
use tokio::runtime::Runtime;

use crate::{Diagnostics, StartupSession};

/// How long tasks of the server that are still busy may hold its end.
const RUNTIME_LIMIT: Duration = Duration::from_millis(500);

/// [`Diagnostics`] on a thread of their own, for programs that are not async. Made by
/// [`DiagnosticsBuilder::start_blocking`](crate::DiagnosticsBuilder::start_blocking).
///
/// Its methods block, and panic inside an async runtime. A drop ends the startup session in order, which may take up to 2 s, and the
/// server.
#[derive(Debug)]
pub struct BlockingDiagnostics {
    // Both are there until the drop; the first goes while the second still runs.
    diagnostics: Option<Diagnostics>,
    runtime: Option<Runtime>,
}

impl BlockingDiagnostics {
    pub(crate) const fn new(diagnostics: Diagnostics, runtime: Runtime) -> Self {
        Self { diagnostics: Some(diagnostics), runtime: Some(runtime) }
    }

    /// Where providers and events are defined.
    #[must_use]
    pub fn pipe(&self) -> &EventPipe {
        self.diagnostics().pipe()
    }

    /// The server: its ports, its statistics.
    #[must_use]
    pub fn server(&self) -> &ServerHandle {
        self.diagnostics().server()
    }

    /// The session that the environment asked for, if it was started.
    #[must_use]
    pub fn startup_session(&self) -> Option<&StartupSession> {
        self.diagnostics().startup_session()
    }

    /// Blocks until no port holds startup any more; returns at once where none did.
    pub fn wait_resumed(&self) {
        self.block_on(self.diagnostics().wait_resumed());
    }

    /// As [`Diagnostics::shutdown`]; blocks for `deadline` at most.
    pub fn shutdown(&self, deadline: Duration) -> Shutdown {
        self.block_on(self.diagnostics().shutdown(deadline))
    }

    fn diagnostics(&self) -> &Diagnostics {
        self.diagnostics.as_ref().expect("invariant: there until the drop")
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("invariant: there until the drop").block_on(work)
    }
}

impl Drop for BlockingDiagnostics {
    fn drop(&mut self) {
        drop(self.diagnostics.take());
        let Some(runtime) = self.runtime.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            // A runtime must not be waited for inside another one.
            runtime.shutdown_background();
        } else {
            // The tasks that own socket files remove them.
            runtime.shutdown_timeout(RUNTIME_LIMIT);
        }
    }
}

//! What kind of diagnostics a program has.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::sync::Arc;

use diagport_server::{Host, OwnProcess, ServerBuilder, StartError};
use diagport_session::{EventPipe, ProcessDescription};

use crate::startup_session::{self, Notice};
use crate::{BlockingDiagnostics, Diagnostics, StartupSession};

/// Why diagnostics could not be started. Neither a port that cannot be opened nor a startup session that cannot be started is a reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartDiagnosticsError {
    /// The server says why.
    #[error(transparent)]
    Server(#[from] StartError),
    /// [`DiagnosticsBuilder::start_blocking`] needs a thread.
    #[error("cannot start the server's thread: {0}")]
    Thread(io::Error),
}

type Lookup = Box<dyn Fn(&str) -> Option<OsString> + Send>;
type ConfigureServer = Box<dyn FnOnce(ServerBuilder) -> ServerBuilder + Send>;

/// Describes diagnostics; [`start`](Self::start) starts them.
#[must_use = "diagnostics run once started"]
pub struct DiagnosticsBuilder {
    pipe: Option<EventPipe>,
    host: Option<Arc<dyn Host>>,
    lookup: Lookup,
    configure_server: ConfigureServer,
    notice: Notice,
}

impl DiagnosticsBuilder {
    pub(crate) fn new() -> Self {
        Self {
            pipe: None,
            host: None,
            lookup: Box::new(|name| std::env::var_os(name)),
            configure_server: Box::new(|server| server),
            notice: startup_session::standard_error(),
        }
    }

    /// A pipe that exists already, instead of a new one. Events defined before the start are in a startup session from its first moment.
    pub fn pipe(mut self, pipe: EventPipe) -> Self {
        self.pipe = Some(pipe);
        self
    }

    /// What the process can do for tools, instead of [`OwnProcess`].
    pub fn host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = Some(host);
        self
    }

    /// Where variables are looked up, instead of the process's environment.
    pub fn environment(mut self, lookup: impl Fn(&str) -> Option<OsString> + Send + 'static) -> Self {
        self.lookup = Box::new(lookup);
        self
    }

    /// Changes the server that the environment describes: other limits, more ports, another folder.
    pub fn configure_server(
        mut self,
        configure: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static,
    ) -> Self {
        self.configure_server = Box::new(configure);
        self
    }

    /// Where the operator is told, one line a cause, of a startup session that cannot be started or ends early, instead of standard error.
    pub fn startup_notice(mut self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.notice = Arc::new(notice);
        self
    }

    /// Starts the startup session that the environment asks for, then the server, on the current tokio runtime. Returns at once: a
    /// port that suspends startup is waited for with [`Diagnostics::wait_resumed`].
    ///
    /// # Errors
    /// [`StartDiagnosticsError::Server`]: no tokio runtime with I/O and time is running here.
    // spec: START-TIME-1
    pub fn start(self) -> Result<Diagnostics, StartDiagnosticsError> {
        let pipe = self.pipe.unwrap_or_else(|| EventPipe::new(ProcessDescription::of_this_process()));
        let host = self.host.unwrap_or_else(|| Arc::new(OwnProcess::new()));
        let startup_session = StartupSession::from_environment(&pipe, &self.lookup, &self.notice);
        let lookup_text = |name: &str| (self.lookup)(name)?.into_string().ok();
        let server = ServerBuilder::from_environment(pipe.clone(), host, lookup_text);
        let server = (self.configure_server)(server).start()?;
        Ok(Diagnostics { pipe, startup_session, server })
    }

    /// As [`start`](Self::start), for a program without an async runtime: the server gets a thread of its own.
    ///
    /// # Errors
    /// [`StartDiagnosticsError::Thread`].
    pub fn start_blocking(self) -> Result<BlockingDiagnostics, StartDiagnosticsError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("diagport")
            .enable_all()
            .build()
            .map_err(StartDiagnosticsError::Thread)?;
        let diagnostics = {
            let _inside = runtime.enter();
            self.start()?
        };
        Ok(BlockingDiagnostics::new(diagnostics, runtime))
    }
}

impl fmt::Debug for DiagnosticsBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DiagnosticsBuilder").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}

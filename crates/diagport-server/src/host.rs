//! What the server asks of the process it speaks for.

use diagport_codec::{AttachProfiler, GenerateCoreDump, HResult, StartupProfiler};

/// Why a host did not do something. The code goes to the client; the text too, where the command can carry one
/// (`GenerateCoreDump3`), and to the log otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({hresult})")]
pub struct HostError {
    /// The answer's code.
    pub hresult: HResult,
    /// One sentence for a person.
    pub message: String,
}

impl HostError {
    /// An error of that code.
    pub fn new(hresult: HResult, message: impl Into<String>) -> Self {
        Self { hresult, message: message.into() }
    }

    /// A feature that this host does not have. Clients do not retry in another way.
    #[must_use]
    pub fn not_supported(feature: &str) -> Self {
        Self::new(HResult::NOT_SUPPORTED, format!("{feature} is not supported by this process"))
    }

    /// It was tried and went wrong.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(HResult::FAIL, message)
    }
}

/// Who a process is, but for the cookie, which is the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostIdentity {
    /// The process, as its tools' pid namespace numbers it.
    pub process_id: u64,
    /// Arguments joined by single spaces; an argument that holds a space is not quoted.
    pub command_line: String,
    /// `Linux`.
    pub operating_system: String,
    /// `x64`, `arm64`, …
    pub architecture: String,
    /// The program's name.
    pub entry_assembly: String,
    /// Tools read a version from what precedes `+`: from 8 on they share a session for counters, from 10 on they
    /// believe in user_events, so stay between.
    pub product_version: String,
    /// `linux-x64`, …
    pub portable_rid: String,
}

/// A change of one environment variable, as it turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentChange {
    /// The variable has the value now.
    Set,
    /// The variable is gone now.
    Removed,
    /// It was to be removed and was not there.
    NotFound,
    /// The environment takes no more bytes; nothing has changed.
    NoRoom,
}

/// Which perf files are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfMapKind {
    /// Wire value 1.
    All,
    /// Wire value 2.
    JitDump,
    /// Wire value 3.
    PerfMap,
}

/// The process behind the port: implemented by an embedder, or by a sidecar for somebody else's process.
///
/// Everything but the identity has a default that refuses honestly. Calls come from threads where blocking is
/// allowed, several at once, and are waited for within [`Limits`](crate::Limits) (a later result is thrown away); a panic is answered
/// FAIL and goes no further. Arguments have passed the protocol's own checks.
pub trait Host: Send + Sync + 'static {
    /// Who the process is. Answers from memory: unlike all others it is called on a thread of the runtime, for this is what every
    /// tool asks first, and often.
    fn process_info(&self) -> HostIdentity;

    /// The environment, as `NAME=value`.
    ///
    /// # Errors
    /// Not supported by default.
    fn environment(&self) -> Result<Vec<String>, HostError> {
        Err(HostError::not_supported("reading the environment"))
    }

    /// Sets a variable, or removes it (`None`). The name is neither empty nor holds `=`.
    ///
    /// # Errors
    /// Not supported by default.
    fn set_environment_variable(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Result<EnvironmentChange, HostError> {
        let _ = (name, value);
        Err(HostError::not_supported("changing the environment"))
    }

    /// Startup was paused and goes on now: called once, after the last pending port has been resumed.
    fn resumed(&self) {}

    /// Writes a dump; the type is one of the four.
    ///
    /// # Errors
    /// Not supported by default. `GenerateCoreDump3` shows the text to the user.
    fn generate_core_dump(&self, request: &GenerateCoreDump) -> Result<(), HostError> {
        let _ = request;
        Err(HostError::not_supported("writing a dump"))
    }

    /// Begins to write perf files.
    ///
    /// # Errors
    /// Not supported by default.
    fn enable_perf_map(&self, kind: PerfMapKind) -> Result<(), HostError> {
        let _ = kind;
        Err(HostError::not_supported("perf map"))
    }

    /// Stops to write perf files. Nothing to stop is success.
    ///
    /// # Errors
    /// Not supported by default.
    fn disable_perf_map(&self) -> Result<(), HostError> {
        Err(HostError::not_supported("perf map"))
    }

    /// Loads a startup hook.
    ///
    /// # Errors
    /// Not supported by default.
    fn apply_startup_hook(&self, path: &str) -> Result<(), HostError> {
        let _ = path;
        Err(HostError::not_supported("a startup hook"))
    }

    /// Attaches a profiler; never called while startup is paused.
    ///
    /// # Errors
    /// Not supported by default.
    fn attach_profiler(&self, request: &AttachProfiler) -> Result<(), HostError> {
        let _ = request;
        Err(HostError::not_supported("attaching a profiler"))
    }

    /// Names a profiler for startup.
    ///
    /// # Errors
    /// Not supported by default.
    fn startup_profiler(&self, request: &StartupProfiler) -> Result<(), HostError> {
        let _ = request;
        Err(HostError::not_supported("a startup profiler"))
    }
}

//! Names of default ports: the socket's file name, the pipe's name, and dsrouter's forms of both.

use std::fmt;

const PREFIX: &str = "dotnet-diagnostic-";
const ROUTER_PREFIX: &str = "dotnet-diagnostic-dsrouter-";
const SUFFIX: &str = "-socket";

/// File name of a default port's socket: `dotnet-diagnostic-{pid}-{key}-socket`.
// spec: PORT-NAME-1, PORT-NAME-2
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PortName {
    /// Process id, as seen from where the folder belongs to.
    pub process_id: u32,
    /// Disambiguation key: on Linux the process's start time in clock ticks since boot.
    pub key: u64,
}

impl PortName {
    /// Reads a file name: digits only in both places, nothing before and nothing behind.
    #[must_use]
    pub fn parse(file_name: &str) -> Option<Self> {
        Self::parse_with(PREFIX, file_name)
    }

    /// Reads the file name of a dsrouter's socket, `dotnet-diagnostic-dsrouter-{pid}-{key}-socket`, where the
    /// process is the router itself. Tools that are given that process id prefer this socket.
    // spec: PORT-NAME-3
    #[must_use]
    pub fn parse_dsrouter(file_name: &str) -> Option<Self> {
        Self::parse_with(ROUTER_PREFIX, file_name)
    }

    fn parse_with(prefix: &str, file_name: &str) -> Option<Self> {
        let (process_id, key) = file_name.strip_prefix(prefix)?.strip_suffix(SUFFIX)?.split_once('-')?;
        Some(Self { process_id: parse_digits(process_id)?, key: parse_digits(key)? })
    }

    /// The file name of a dsrouter's socket.
    #[must_use]
    pub fn dsrouter_file_name(&self) -> String {
        format!("{ROUTER_PREFIX}{}-{}{SUFFIX}", self.process_id, self.key)
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}{SUFFIX}", self.process_id, self.key)
    }
}

/// Name of the default port's pipe on Windows, without `\\.\pipe\`.
// spec: PORT-NAME-4
#[must_use]
pub fn pipe_name(process_id: u32) -> String {
    format!("{PREFIX}{process_id}")
}

/// The process id of a default port's pipe name.
#[must_use]
pub fn parse_pipe_name(name: &str) -> Option<u32> {
    parse_digits(name.strip_prefix(PREFIX)?)
}

/// The process id of a dsrouter's pipe name, `dotnet-diagnostic-dsrouter-{pid}`.
#[must_use]
pub fn parse_dsrouter_pipe_name(name: &str) -> Option<u32> {
    parse_digits(name.strip_prefix(ROUTER_PREFIX)?)
}

/// `str::parse` alone would take a sign.
fn parse_digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

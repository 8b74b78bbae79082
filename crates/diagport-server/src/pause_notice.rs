//! Telling the operator that startup waits, and for whom.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::suspend_gate::PendingPort;

/// Startup is paused: for whom, and by which settings.
///
/// Its `Display` form is the message, three lines without a closing line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseMessage {
    /// Addresses of the ports that have not been resumed yet, in the order of the configuration.
    pub pending_ports: Vec<String>,
    /// `DOTNET_DiagnosticPorts` as it stands, or the text that says the same.
    pub diagnostic_ports: String,
    /// `DOTNET_DefaultDiagnosticPortSuspend`.
    pub default_port_suspend: u32,
}

impl fmt::Display for PauseMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whom = match self.pending_ports.len() {
            1 => "this Diagnostic Port",
            _ => "each of these Diagnostic Ports",
        };
        writeln!(
            formatter,
            "Startup is paused and waits for a resume command from {whom}: {}",
            self.pending_ports.join(" ")
        )?;
        writeln!(formatter, "DOTNET_DiagnosticPorts=\"{}\"", self.diagnostic_ports)?;
        write!(formatter, "DOTNET_DefaultDiagnosticPortSuspend={}", self.default_port_suspend)
    }
}

/// Where the server tells the operator what he must know. Never standard output: that is the program's.
pub trait PauseNotice: Send + Sync + 'static {
    /// Startup has been paused for a while, or the set of pending ports has changed since.
    fn paused(&self, message: &PauseMessage);

    /// A port cannot be used, and why: one line, once a cause. The server runs on without it.
    fn port_unusable(&self, line: &str);
}

/// Writes to standard error.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardErrorNotice;

impl PauseNotice for StandardErrorNotice {
    fn paused(&self, message: &PauseMessage) {
        write_line(message);
    }

    fn port_unusable(&self, line: &str) {
        write_line(&line);
    }
}

fn write_line(line: &dyn fmt::Display) {
    // Not `eprintln!`: it panics where standard error is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The parts of a message that do not change.
#[derive(Debug, Clone)]
pub(crate) struct PauseSettings {
    pub(crate) diagnostic_ports: String,
    pub(crate) default_port_suspend: u32,
}

/// Announces a pause that lasts, and each change of it, until it ends.
// spec: SRV-SUSPEND-3
pub(crate) async fn announce_pauses(
    mut pending: watch::Receiver<Vec<PendingPort>>,
    settings: PauseSettings,
    notice: Arc<dyn PauseNotice>,
    after: Duration,
) {
    if tokio::time::timeout(after, pending.wait_for(Vec::is_empty)).await.is_ok() {
        return;
    }
    loop {
        let pending_ports: Vec<String> =
            pending.borrow_and_update().iter().map(|port| port.name.clone()).collect();
        if pending_ports.is_empty() {
            return;
        }
        let message = PauseMessage {
            pending_ports,
            diagnostic_ports: settings.diagnostic_ports.clone(),
            default_port_suspend: settings.default_port_suspend,
        };
        let notice = Arc::clone(&notice);
        // Standard error may be a pipe that nobody reads.
        if tokio::task::spawn_blocking(move || notice.paused(&message)).await.is_err() {
            tracing::warn!("the pause notice failed");
        }
        if pending.changed().await.is_err() {
            return;
        }
    }
}

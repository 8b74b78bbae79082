//! Gives a program a .NET Diagnostic Port: one builder, environment variables, startup sessions.
//!
//! ```text
//!  environment ──▶ Diagnostics::builder() ──▶ start()
//!  DOTNET_…                                     ├─ EventPipe        providers and events of the program
//!                                               ├─ StartupSession   DOTNET_EnableEventPipe: events into a file, at once
//!                                               └─ ServerHandle     DOTNET_DiagnosticPorts: tools connect, startup may wait for one
//!                                             shutdown(deadline)    ends the sessions in order, removes the ports
//! ```
//!
//! This one dependency is enough for a service: what it needs of the crates below stands here, and all of them is in [`server`] and
//! [`session`].
//!
//! What it does **not** do: it defines no events of its own, installs no signal handler or log, and prints only what an operator must
//! know, one line each on standard error. A program that calls `std::process::exit` without [`Diagnostics::shutdown`] ends its startup session
//! all the same, in 2 s at most; one that is killed by a signal leaves its file without its end.
//!
//! ```
//! use std::time::Duration;
//!
//! use diagport::{Diagnostics, EventDefinition};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let server_folder = folder.path().to_owned();
//! let diagnostics = Diagnostics::builder()
//! #   .configure_server(|server| server.folder(server_folder))
//!     .start()?;
//! let served = diagnostics
//!     .pipe()
//!     .provider("My-Service")
//!     .define::<(String, i64)>(EventDefinition::new(1, "RequestServed").keywords(1), ["path", "microseconds"])?;
//! diagnostics.wait_resumed().await; // returns at once unless a port suspends startup
//!
//! served.write(("/index", 1_250)); // one load and a branch while nobody records
//!
//! diagnostics.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! A program that is not async calls [`DiagnosticsBuilder::start_blocking`] and has the same methods, blocking.
#![forbid(unsafe_code)]

mod blocking;
mod builder;
mod diagnostics;
mod exit_hook;
mod provider_list;
mod startup_file;
mod startup_session;
mod startup_settings;

pub use diagport_server as server;
pub use diagport_session as session;

pub use blocking::BlockingDiagnostics;
pub use builder::{DiagnosticsBuilder, StartDiagnosticsError};
pub use diagnostics::Diagnostics;
pub use diagport_codec::{PortKind, PortSpec, SuspendMode};
pub use diagport_server::{
    DefaultPort, EnvironmentChange, EnvironmentTable, Host, HostError, HostIdentity, Limits, OwnProcess,
    PauseMessage, PauseNotice, PerfMapKind, ServerBuilder, ServerHandle, SessionFeature, Shutdown,
};
pub use diagport_session::{
    DefineEventError, EnableChange, Event, EventContext, EventDefinition, EventLevel, EventPipe,
    ProcessDescription, Provider, ProviderControl, RundownWriter, WriteOutcome,
};
pub use diagport_transport::PortAccess;
pub use startup_session::StartupSession;

//! The Diagnostic Server: ports, suspend gate, dispatch, streaming sessions.
//!
//! ```text
//!  peers ──▶ listen ports ──┐   one task a port: accepts or connects, never serves
//!  peers ◀── connect ports ─┤
//!                           ▼
//!            one task a connection: request in time ─▶ dispatch (closed match)
//!                           │                             │
//!                 SuspendGate, statistics        Host (blocking threads, bounded)
//!                                                         │
//!                          EventPipe ◀── CollectTracing ──┘
//!                              └─▶ a session's own drain thread owns the socket from the reply on
//! ```
//!
//! What it does **not** do: it buffers no event and writes no stream (`diagport-session` does), knows no bytes of a
//! message (`diagport-codec` does) and no socket call (`diagport-transport` does). It prints nothing to standard
//! output, changes no signal disposition and no environment of the process.
//!
//! Nobody who connects can delay anybody else: no lock is held while bytes go to or come from a peer, and every
//! wait has an end, named in [`Limits`].
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use diagport_server::{OwnProcess, ServerBuilder};
//! use diagport_session::{EventPipe, ProcessDescription};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let pipe = EventPipe::new(ProcessDescription::of_this_process());
//! let host = Arc::new(OwnProcess::new());
//! let server = ServerBuilder::from_environment(pipe, host, |name| std::env::var(name).ok())
//! #   .folder(folder.path())
//!     .start()?;
//! server.wait_resumed().await; // returns at once unless a port suspends startup
//! println!("port {:?}", server.default_port_path());
//! server.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # })
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
mod builder;
mod commands;
mod connection;
mod contained;
mod continuations;
mod dispatch;
mod environment_table;
mod farewells;
mod half_open;
mod host;
mod host_call;
mod limits;
mod live_sessions;
mod own_process;
mod pause_notice;
mod peer_policy;
mod ports;
mod request_reader;
mod server_handle;
mod settings;
mod shared;
mod statistics;
mod suspend_gate;

pub use builder::{DefaultPort, ServerBuilder, SessionFeature, StartError};
pub use environment_table::EnvironmentTable;
pub use host::{EnvironmentChange, Host, HostError, HostIdentity, PerfMapKind};
pub use limits::Limits;
pub use own_process::OwnProcess;
pub use pause_notice::{PauseMessage, PauseNotice, StandardErrorNotice};
pub use server_handle::{ServerHandle, Shutdown};
pub use settings::{setting, setting_number};
pub use statistics::ServerStatistics;

//! The client and monitor side of the Diagnostic IPC protocol: finds a process's port, speaks to it, listens for those
//! that connect by themselves.
//!
//! ```text
//!   pid, name, path --resolve--> ListeningPort --+
//!                                                +--> Target --> Client --> process_info, environment, resume,
//!   listen --> ReverseServer --> AdvertisedRuntime                          collect (a stream), stop_tracing
//! ```
//!
//! What it does **not** do: it does not read the stream of a session (`diagport-nettrace` does), writes no file,
//! prints nothing, catches no signal, starts no process. Finding ports reads procfs and so is Linux only, so far.
//!
//! Every operation takes a [`Deadline`] and ends by it; its error says in which phase, at which port and whose
//! fault it was. Every request has a connection of its own, so the mistake of sending a stop down the
//! stream cannot be made.
//!
//! ```no_run
//! use std::time::Duration;
//! use diagport_client::{Client, Deadline, Target, TargetSelector, resolve};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let port = resolve(&TargetSelector::ProcessId(4711))?;
//! let client = Client::new(Target::Listening(port));
//! let info = client.process_info(Deadline::after(Duration::from_secs(2))).await?;
//! assert_eq!(info.process_id, 4711);
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

mod client;
mod collect;
mod deadline;
mod discovery;
mod errors;
mod exchange;
pub mod profiles;
pub mod provider_text;
mod reverse;
mod target;
pub mod time_text;

pub use client::Client;
pub use collect::{CollectError, CollectRequest, Collection, Concession, KeywordFallback};
pub use deadline::Deadline;
pub use discovery::{DiscoveredProcess, ResolveError, TargetSelector, list_processes, resolve};
pub use errors::{ClientError, Fault, Phase, UnreachableError};
pub use reverse::{ADVERTISE_LIMIT, AdvertisedRuntime, ReverseServer};
pub use target::{ListeningPort, Target};

//! Byte transport of the Diagnostic IPC protocol: sockets, peer identity, passed descriptors, discovery.
//!
//! ```text
//!   diagport-server                    diagport-client
//!        |  PortListener / IpcStream / BlockingStream / discover
//!        v                                  v
//!   +--------------------- diagport-transport ---------------------+
//!   |  PortListener   one socket file: mode 0600, our inode, swept |
//!   |  IpcStream      tokio face: read, write, half-close, peer    |
//!   |  BlockingStream drain-thread face: write with a time limit   |
//!   |  discover       port files of a folder, facts about a pid    |
//!   +--------------------------------------------------------------+
//!        |  interprocess, tokio, rustix (only below src/os)
//! ```
//!
//! What it does **not** do: it knows no message, no command and no port name grammar (`diagport-codec` has
//! them); it starts no task, and no thread but those that
//! close passed descriptors; it keeps no registry. Nothing above it names interprocess.
//!
//! A listener removes exactly the socket file it made and never another one; it never follows a symbolic
//! link; it never takes a path from somebody who still answers on it.
//!
//! ```
//! use std::time::Duration;
//! use diagport_transport::{BindOptions, PortListener, connect};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("port.sock");
//! let listener = PortListener::bind(&path, BindOptions::default())?;
//!
//! let mut client = connect(&path, Duration::from_secs(1)).await?;
//! let mut server = listener.accept().await?;
//! client.write_all(b"hello").await?;
//! client.shutdown_write()?; // a real half-close: the peer reads to the end and can still answer
//!
//! let mut text = Vec::new();
//! server.read_to_end(&mut text).await?;
//! assert_eq!(text, b"hello");
//! assert!(!server.peer_hung_up());
//! # Ok(())
//! # })
//! # }
//! ```
#![deny(unsafe_code)]

#[cfg(not(unix))]
compile_error!("diagport-transport serves Unix sockets only, so far");

mod backoff;
mod errors;
mod os;

pub use backoff::Backoff;
pub use errors::{BindError, ConnectError, PathError};
pub use os::discover;
pub use os::{
    BindOptions, BlockingStream, IpcStream, MAX_PATH_BYTES, MadeRoom, PassedDescriptor, PeerIdentity,
    PortAccess, PortListener, Probe, Received, check_path, connect, descriptor_limit, effective_gid,
    effective_uid, probe,
};

//! Unix domain sockets.

mod blocking;
mod connect;
mod listener;
mod path;
mod peer;
pub(crate) mod socket_file;
mod stream;

pub use blocking::BlockingStream;
pub use connect::{Probe, connect, probe};
pub use listener::{BindOptions, PortAccess, PortListener};
pub use path::{MAX_PATH_BYTES, check_path};
pub use peer::{PeerIdentity, effective_gid, effective_uid};
pub use stream::IpcStream;

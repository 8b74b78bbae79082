//! Unix domain sockets.

mod blocking;
mod closer;
mod connect;
mod descriptor_limit;
pub mod discover;
mod guarded_socket;
mod listener;
mod path;
mod peer;
mod socket_file;
mod stream;

pub use blocking::BlockingStream;
pub use connect::{Probe, connect, probe};
pub use descriptor_limit::descriptor_limit;
pub use guarded_socket::PassedDescriptor;
pub use listener::{BindOptions, MadeRoom, PortAccess, PortListener};
pub use path::{MAX_PATH_BYTES, check_path};
pub use peer::{PeerIdentity, effective_gid, effective_uid};
pub use stream::{IpcStream, Received};

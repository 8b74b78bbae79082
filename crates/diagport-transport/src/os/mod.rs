//! Everything that depends on the operating system.

#[cfg(target_os = "linux")]
mod linux;
mod unix;

#[cfg(target_os = "linux")]
pub(crate) use linux::process;
pub use unix::discover;
pub use unix::{
    BindOptions, BlockingStream, IpcStream, MAX_PATH_BYTES, MadeRoom, PassedDescriptor, PeerIdentity,
    PortAccess, PortListener, Probe, Received, check_path, connect, descriptor_limit, effective_gid,
    effective_uid, probe,
};

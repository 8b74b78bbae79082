//! Everything that depends on the operating system.

#[cfg(target_os = "linux")]
mod linux;
mod unix;

#[cfg(target_os = "linux")]
pub(crate) use linux::process;
pub(crate) use unix::socket_file;
pub use unix::{
    BindOptions, BlockingStream, IpcStream, MAX_PATH_BYTES, PeerIdentity, PortAccess, PortListener, Probe,
    check_path, connect, effective_gid, effective_uid, probe,
};

//! Who is at the other end.

use std::io;

use tokio::net::UnixStream;

/// Credentials of a peer, taken by the kernel when the connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its process id; `None` when it lives in a pid namespace that we cannot see.
    pub pid: Option<u32>,
    /// Its effective user id.
    pub uid: u32,
    /// Its effective group id.
    pub gid: u32,
}

impl PeerIdentity {
    // Not interprocess's `peer_creds`: it takes pid 0, which is how the kernel names a process of a foreign pid
    // namespace (a sidecar container on a shared volume), for an unconnected socket.
    pub(crate) fn of(socket: &UnixStream) -> io::Result<Self> {
        let credentials = socket.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        Ok(Self { pid, uid: credentials.uid(), gid: credentials.gid() })
    }
}

/// Our own effective user id.
#[must_use]
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Our own effective group id.
#[must_use]
pub fn effective_gid() -> u32 {
    rustix::process::getegid().as_raw()
}

//! Who is at the other end.

use std::io;

use interprocess::local_socket::traits::StreamCommon as _;
use interprocess::os::unix::uds_local_socket::Stream;
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
    pub(super) fn of(socket: &Stream) -> io::Result<Self> {
        match socket.peer_creds() {
            Ok(peer) => Ok(Self {
                pid: peer.pid().and_then(|pid| u32::try_from(pid).ok()),
                uid: peer.euid().ok_or(io::ErrorKind::Unsupported)?,
                gid: peer.egid().ok_or(io::ErrorKind::Unsupported)?,
            }),
            // It takes pid 0, which is how the kernel names a process of a foreign pid namespace (a sidecar container on a shared
            // volume), for an unconnected socket.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Self::of_foreign_namespace(socket)
            }
            Err(error) => Err(error),
        }
    }

    fn of_foreign_namespace(socket: &Stream) -> io::Result<Self> {
        let peer = UnixStream::from_std(socket.inner().try_clone()?)?.peer_cred()?;
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        Ok(Self { pid, uid: peer.uid(), gid: peer.gid() })
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

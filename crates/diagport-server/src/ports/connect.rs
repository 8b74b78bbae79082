//! A port that connects to a peer and advertises itself: one idle connection at a time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diagport_transport::{Backoff, IpcStream, connect};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::connection::{RequestSeen, serve_advertised};
use crate::peer_policy::{Door, is_welcome};
use crate::request_reader::first_bytes;
use crate::shared::Shared;
use crate::suspend_gate::PortId;

/// When the next connection is made.
enum Next {
    /// A request took the last one.
    AtOnce,
    /// It came to nothing, having lived that long. Whatever a peer does, it cannot make this a hot loop.
    AfterWait { lived: Duration },
}

/// Keeps one advertised connection open until the server stops.
// spec: SRV-CONNECT-1, SRV-CONNECT-2, SRV-CONNECT-5
pub(crate) async fn run(shared: Arc<Shared>, port: PortId, path: PathBuf) {
    let work = async {
        let mut backoff = Backoff::new();
        let mut reach = Reach::Unknown;
        loop {
            match one_connection(&shared, port, &path, &mut reach).await {
                Next::AtOnce => backoff.reset(),
                Next::AfterWait { lived } => {
                    if lived >= shared.limits.stable_connection {
                        backoff.reset();
                    }
                    tokio::time::sleep(backoff.next_wait()).await;
                }
            }
        }
    };
    tokio::select! {
        () = shared.stopping.cancelled() => {}
        () = work => {}
    }
}

/// Makes a connection, advertises, and waits until it is used or lost.
async fn one_connection(shared: &Arc<Shared>, port: PortId, path: &Path, reach: &mut Reach) -> Next {
    let mut stream = match open(shared, path).await {
        Ok(stream) => {
            reach.set_reached(path);
            stream
        }
        Err(error) => {
            reach.set_unreachable(path, &error);
            return Next::AfterWait { lived: Duration::ZERO };
        }
    };
    shared.counters.advertised_connections.add_one();
    let opened = Instant::now();
    stream.keep_passed_descriptor();
    // Read first, judge the hang-up later: a peer may send a command and close at once.
    let Ok(bytes) = first_bytes(&mut stream).await else {
        return Next::AfterWait { lived: opened.elapsed() };
    };
    if bytes.is_empty() && stream.peer_hung_up() {
        return Next::AfterWait { lived: opened.elapsed() };
    }
    let lived = opened.elapsed();
    let (seen_sender, seen) = oneshot::channel();
    shared.tasks.spawn(serve_advertised(Arc::clone(shared), port, stream, bytes, seen_sender));
    match timeout(shared.limits.advertised_request, seen).await {
        Ok(Ok(RequestSeen::Complete)) => Next::AtOnce,
        // A bad request, or one that dawdles: it is served to its end, and the port goes on more slowly.
        _ => Next::AfterWait { lived },
    }
}

async fn open(shared: &Shared, path: &Path) -> io::Result<IpcStream> {
    let mut stream = connect(path, shared.limits.connect).await.map_err(io::Error::other)?;
    let peer = stream.peer_identity()?;
    if !is_welcome(peer, Door::Connect, shared.access) {
        shared.counters.refused_peers.add_one();
        let text = format!("the listener belongs to uid {}, who is neither us nor root", peer.uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let advertise = shared.advertise().encode();
    match timeout(shared.limits.advertise, stream.write_all(&advertise)).await {
        Ok(result) => result.map(|()| stream),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Whether the peer could be reached lately: changes are logged, attempts are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Unknown,
    Reached,
    Unreachable,
}

impl Reach {
    fn set_reached(&mut self, path: &Path) {
        if *self != Self::Reached {
            tracing::info!(path = %path.display(), "connect port reached its peer");
        }
        *self = Self::Reached;
    }

    fn set_unreachable(&mut self, path: &Path, error: &io::Error) {
        if *self != Self::Unreachable {
            tracing::info!(path = %path.display(), %error, "connect port cannot reach its peer; trying on");
        }
        *self = Self::Unreachable;
    }
}

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
use crate::contained::{attempt, contained};
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

/// Keeps one advertised connection open until the server stops. A panic (of a log's subscriber, say) does not end a port.
pub(crate) async fn run(shared: Arc<Shared>, port: PortId, path: PathBuf) {
    let mut backoff = Backoff::new();
    let work = async {
        loop {
            let _ = contained(keep_connected(&shared, port, &path)).await;
            attempt(|| tracing::error!(path = %path.display(), "a connect port panicked; it goes on"));
            tokio::time::sleep(backoff.next_wait()).await;
        }
    };
    tokio::select! {
        () = shared.stopping.cancelled() => {}
        () = work => {}
    }
}

// spec: SRV-CONNECT-1, SRV-CONNECT-2, SRV-CONNECT-5
async fn keep_connected(shared: &Arc<Shared>, port: PortId, path: &Path) {
    let mut backoff = Backoff::new();
    let mut pace = Pace::new(shared.limits.advertised_step);
    let mut reach = Reach::Unknown;
    loop {
        let now = Instant::now();
        let start = pace.next_start(now);
        // A timer rounds up to a whole millisecond, also where there is nothing to wait for.
        if start > now {
            tokio::time::sleep_until(start).await;
        }
        match one_connection(shared, port, path, &mut reach).await {
            Next::AtOnce => backoff.reset(),
            Next::AfterWait { lived } => {
                if lived >= shared.limits.stable_connection {
                    backoff.reset();
                }
                tokio::time::sleep(backoff.next_wait()).await;
            }
        }
    }
}

/// Connections that may follow each other at once.
const BURST: u32 = 32;

/// Keeps a peer that answers every connection with a request from making this a hot loop.
#[derive(Debug)]
struct Pace {
    step: Duration,
    /// When all that were made would have been due, one in each step.
    due: Option<Instant>,
}

impl Pace {
    const fn new(step: Duration) -> Self {
        Self { step, due: None }
    }

    /// When the next connection may be made: now, or a little later.
    // spec: SRV-CONNECT-6
    fn next_start(&mut self, now: Instant) -> Instant {
        let due = self.due.map_or(now, |due| due.max(now)) + self.step;
        self.due = Some(due);
        due.checked_sub(self.step * BURST).map_or(now, |earliest| earliest.max(now))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{BURST, Pace};

    // spec-test: SRV-CONNECT-6
    #[test]
    fn a_burst_is_free_and_then_there_is_one_each_step() {
        let step = Duration::from_millis(1);
        let mut pace = Pace::new(step);
        let begin = Instant::now();
        let mut now = begin;
        let mut made = 0_u32;
        while now < begin + Duration::from_secs(1) {
            now = pace.next_start(now);
            made += 1;
            assert!(made > BURST || now == begin, "connection {made} waits");
        }
        assert_eq!(made, 1000 + BURST);
        // An idle time gives the burst back, and no more than that.
        now += Duration::from_secs(10);
        let free = (0..2 * BURST).filter(|_| pace.next_start(now) == now).count();
        assert_eq!(free, BURST as usize);
    }
}

//! A port that peers connect to.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use diagport_transport::{Backoff, IpcStream, MadeRoom, PortListener};
use tokio::time::{MissedTickBehavior, interval};

use crate::connection::serve_accepted;
use crate::contained::{attempt, contained};
use crate::half_open::Eviction;
use crate::shared::Shared;
use crate::suspend_gate::PortId;

const SHORTEST_FILE_CHECK: Duration = Duration::from_millis(1);

/// Accepts until the server stops; then the socket file goes with the listener. A panic (of a log's subscriber, say) does not end
/// a port.
pub(crate) async fn run(shared: Arc<Shared>, port: PortId, mut listener: PortListener) {
    let mut backoff = Backoff::new();
    while contained(accept(&shared, port, &mut listener)).await.is_err() {
        attempt(|| tracing::error!(path = %listener.path().display(), "a listen port panicked; it goes on"));
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

// spec: SRV-ACCEPT-1
async fn accept(shared: &Arc<Shared>, port: PortId, listener: &mut PortListener) {
    let mut file_check = interval(shared.limits.socket_file_check.max(SHORTEST_FILE_CHECK));
    file_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut backoff = Backoff::new();
    let mut file = FileState::Ours;
    loop {
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            _ = file_check.tick() => file = check_file(listener, file),
            accepted = listener.accept_or_make_room(|| make_room(shared)) => match accepted {
                Ok(stream) => {
                    backoff.reset();
                    shared.counters.accepted_connections.add_one();
                    serve(shared, port, stream).await;
                }
                Err(error) => {
                    tracing::warn!(%error, path = %listener.path().display(), "accept failed");
                    tokio::time::sleep(backoff.next_wait()).await;
                }
            },
        }
    }
}

/// Most requests have arrived by the time their connection is accepted, and can be answered without any waiting: then no task is
/// needed. Whatever has to wait gets one.
async fn serve(shared: &Arc<Shared>, port: PortId, stream: IpcStream) {
    let mut serving = Box::pin(serve_accepted(Arc::clone(shared), port, stream));
    if poll_fn(|context| Poll::Ready(serving.as_mut().poll(context))).await.is_pending() {
        shared.tasks.spawn(serving);
    }
}

/// A peer that says something is worth more than one that does not, and than one that has its answer.
fn make_room(shared: &Shared) -> MadeRoom {
    if shared.farewells.close_all(shared.limits.drain_bytes) > 0 {
        return MadeRoom::Yes;
    }
    match shared.half_open.evict() {
        Eviction::Done => {
            shared.counters.evicted_connections.add_one();
            MadeRoom::Yes
        }
        Eviction::Nobody => MadeRoom::No,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    Ours,
    Lost,
}

/// Makes the socket file again where somebody removed it; says so once.
fn check_file(listener: &mut PortListener, before: FileState) -> FileState {
    if listener.is_path_ours() {
        return FileState::Ours;
    }
    match listener.recreate() {
        Ok(()) => {
            tracing::info!(path = %listener.path().display(), "socket file had vanished; made again");
            FileState::Ours
        }
        Err(error) => {
            if before == FileState::Ours {
                tracing::warn!(%error, "socket file vanished and cannot be made again yet");
            }
            FileState::Lost
        }
    }
}

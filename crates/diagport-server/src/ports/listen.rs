//! A port that peers connect to.

use std::sync::Arc;
use std::time::Duration;

use diagport_transport::{Backoff, PortListener};
use tokio::time::{MissedTickBehavior, interval};

use crate::connection::serve_accepted;
use crate::shared::Shared;
use crate::suspend_gate::PortId;

const SHORTEST_FILE_CHECK: Duration = Duration::from_millis(1);

/// Accepts until the server stops; then the socket file goes with the listener.
// spec: SRV-ACCEPT-1
pub(crate) async fn run(shared: Arc<Shared>, port: PortId, mut listener: PortListener) {
    let mut file_check = interval(shared.limits.socket_file_check.max(SHORTEST_FILE_CHECK));
    file_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut backoff = Backoff::new();
    let mut file = FileState::Ours;
    loop {
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            _ = file_check.tick() => file = check_file(&mut listener, file),
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    backoff.reset();
                    shared.counters.accepted_connections.add_one();
                    shared.tasks.spawn(serve_accepted(Arc::clone(&shared), port, stream));
                }
                Err(error) => {
                    tracing::warn!(%error, path = %listener.path().display(), "accept failed");
                    tokio::time::sleep(backoff.next_wait()).await;
                }
            },
        }
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

//! A connection from its first byte to its end.

use std::sync::Arc;

use diagport_codec::{IpcMessage, Request};
use diagport_transport::IpcStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::answer::{Answer, answer_and_close};
use crate::dispatch::dispatch;
use crate::half_open::Room;
use crate::peer_policy::is_welcome;
use crate::request_reader::{RequestError, complete_request, first_bytes};
use crate::shared::Shared;
use crate::suspend_gate::PortId;

/// What became of the request on an advertised connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestSeen {
    Complete,
    Bad,
}

/// Serves a connection that a peer made to a listen port.
pub(crate) async fn serve_accepted(shared: Arc<Shared>, port: PortId, mut stream: IpcStream) {
    let _held = shared.counters.connections_now.hold();
    match stream.peer_identity() {
        Ok(peer) if is_welcome(peer, shared.access) => {}
        Ok(peer) => {
            tracing::warn!(?peer, "peer refused");
            shared.counters.refused_peers.add_one();
            return;
        }
        // It has gone already.
        Err(_) => return,
    }
    // A descriptor for user_events may come with any byte; nobody else's is kept beyond this connection.
    stream.keep_passed_descriptor();
    let request = {
        let (place, room) = shared.half_open.enter();
        if room == Room::MadeByEviction {
            tracing::debug!("too many half-open connections: the oldest silent one was closed");
            shared.counters.evicted_connections.add_one();
        }
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            () = place.evicted() => return,
            request = read_accepted(&shared, &mut stream, || place.is_speaking()) => request,
        }
    };
    finish(&shared, port, stream, request).await;
}

async fn read_accepted(
    shared: &Shared,
    stream: &mut IpcStream,
    speaks: impl FnOnce(),
) -> Result<IpcMessage, RequestError> {
    let limit = shared.limits.silence;
    let bytes = timeout(limit, first_bytes(stream)).await.map_err(|_| RequestError::TooLate { limit })??;
    speaks();
    complete_request(stream, bytes, shared.limits.request).await
}

/// Serves an advertised connection whose peer has spoken, or ended its direction (no `bytes`).
pub(crate) async fn serve_advertised(
    shared: Arc<Shared>,
    port: PortId,
    mut stream: IpcStream,
    bytes: Vec<u8>,
    seen: oneshot::Sender<RequestSeen>,
) {
    let _held = shared.counters.connections_now.hold();
    let request = tokio::select! {
        biased;
        () = shared.stopping.cancelled() => return,
        request = complete_request(&mut stream, bytes, shared.limits.request) => request,
    };
    let outcome = if request.is_ok() { RequestSeen::Complete } else { RequestSeen::Bad };
    // The port may have stopped to wait for us.
    let _ = seen.send(outcome);
    finish(&shared, port, stream, request).await;
}

async fn finish(
    shared: &Arc<Shared>,
    port: PortId,
    stream: IpcStream,
    request: Result<IpcMessage, RequestError>,
) {
    let served = async {
        let decoded = request.and_then(|message| Request::decode(&message).map_err(RequestError::Decode));
        match decoded {
            Ok(request) => dispatch(shared, port, stream, request).await,
            Err(error) => {
                tracing::debug!(%error, "bad request");
                answer_and_close(shared, stream, Answer::error(error.hresult())).await;
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = shared.aborting.cancelled() => {}
    }
}

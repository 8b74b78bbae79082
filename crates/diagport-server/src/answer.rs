//! What goes back, and how a connection ends.

use std::io;
use std::time::Duration;

use diagport_codec::{HResult, Reply};
use diagport_transport::IpcStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::shared::Shared;

/// A reply, and the bytes that follow it on the same connection.
#[derive(Debug)]
pub(crate) struct Answer {
    reply: Reply,
    continuation: Vec<u8>,
}

impl Answer {
    pub(crate) fn success() -> Self {
        Reply::success().into()
    }

    pub(crate) fn error(hresult: HResult) -> Self {
        Reply::error(hresult).into()
    }

    pub(crate) fn with_continuation(payload: Vec<u8>, continuation: Vec<u8>) -> Self {
        Self { reply: Reply::Ok { payload }, continuation }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, continuation: Vec::new() }
    }
}

/// Sends the answer, then ends the connection so that the peer sees an end and no reset.
// spec: SRV-CLOSE-1
pub(crate) async fn answer_and_close(shared: &Shared, mut stream: IpcStream, answer: Answer) {
    match &answer.reply {
        Reply::Ok { .. } => shared.counters.succeeded_requests.add_one(),
        Reply::Error { hresult, .. } => {
            tracing::debug!(%hresult, "request refused");
            shared.counters.refused_requests.add_one();
        }
    }
    let limits = &shared.limits;
    if let Err(error) = send_reply(&mut stream, &answer.reply, limits.reply).await {
        // The command has been executed: many peers do not wait for the reply.
        tracing::debug!(%error, "reply not taken");
        return;
    }
    if !answer.continuation.is_empty()
        && let Err(error) = send(&mut stream, &answer.continuation, limits.continuation).await
    {
        tracing::debug!(%error, "continuation not taken");
        return;
    }
    close(stream, limits.drain, limits.drain_bytes).await;
}

pub(crate) async fn send_reply(stream: &mut IpcStream, reply: &Reply, limit: Duration) -> io::Result<()> {
    let bytes = match reply.encode().encode() {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::warn!(%error, "reply does not fit a message");
            // A 24-byte message always fits.
            let fail = Reply::error(HResult::FAIL).encode().encode();
            fail.map_err(io::Error::other)?
        }
    };
    send(stream, &bytes, limit).await
}

async fn send(stream: &mut IpcStream, bytes: &[u8], limit: Duration) -> io::Result<()> {
    match timeout(limit, stream.write_all(bytes)).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Ends our direction, then reads out what the peer still sends, for a while and up to a number of bytes: a socket
/// closed with unread bytes makes the peer see a reset in place of the end.
async fn close(mut stream: IpcStream, limit: Duration, limit_bytes: usize) {
    if stream.shutdown_write().is_err() {
        return;
    }
    let end = Instant::now() + limit;
    let mut chunk = [0; 1024];
    let mut drained_bytes = 0;
    while drained_bytes < limit_bytes {
        match timeout_at(end, stream.read(&mut chunk)).await {
            Ok(Ok(received)) if received > 0 => drained_bytes += received,
            _ => return,
        }
    }
}

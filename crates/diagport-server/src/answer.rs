//! What goes back, and how a connection ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use diagport_codec::{HResult, Reply};
use diagport_transport::IpcStream;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, timeout_at};

use crate::continuations::Continuation;
use crate::shared::Shared;

/// A reply, and the bytes that follow it on the same connection.
#[derive(Debug)]
pub(crate) struct Answer {
    reply: Reply,
    continuation: Option<Continuation>,
}

impl Answer {
    pub(crate) fn success() -> Self {
        Reply::success().into()
    }

    pub(crate) fn error(hresult: HResult) -> Self {
        Reply::error(hresult).into()
    }

    pub(crate) fn with_continuation(payload: Vec<u8>, continuation: Continuation) -> Self {
        Self { reply: Reply::Ok { payload }, continuation: Some(continuation) }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, continuation: None }
    }
}

/// Sends the answer, then ends the connection so that the peer sees an end and no reset.
// spec: SRV-CLOSE-1
pub(crate) async fn answer_and_close(shared: &Arc<Shared>, mut stream: IpcStream, answer: Answer) {
    match &answer.reply {
        Reply::Ok { .. } => shared.counters.succeeded_requests.add_one(),
        Reply::Error { hresult, .. } => {
            tracing::debug!(%hresult, "request refused");
            shared.counters.refused_requests.add_one();
        }
    }
    if let Err(error) = send(shared, &mut stream, &encoded(&answer.reply), shared.limits.reply).await {
        // The command has been executed: many peers do not wait for the reply.
        tracing::debug!(%error, "reply not taken");
        return;
    }
    if let Some(continuation) = &answer.continuation
        && let Err(error) = send(shared, &mut stream, continuation.bytes(), shared.limits.continuation).await
    {
        tracing::debug!(%error, "continuation not taken");
        return;
    }
    shared.farewells.part(shared, stream);
}

/// The bytes of a reply; of FAIL, if it does not fit a message.
pub(crate) fn encoded(reply: &Reply) -> Vec<u8> {
    reply.encode().encode().unwrap_or_else(|error| {
        tracing::warn!(%error, "reply does not fit a message");
        let fail = Reply::error(HResult::FAIL).encode().encode();
        fail.expect("invariant: 24 bytes fit a message")
    })
}

/// All of it within `limit`; and once the server stops, as long as the peer makes progress.
// spec: SRV-SHUTDOWN-1
async fn send(shared: &Shared, stream: &mut IpcStream, bytes: &[u8], limit: Duration) -> io::Result<()> {
    let end = Instant::now() + limit;
    let mut left = bytes;
    while !left.is_empty() {
        let stands_still = async {
            shared.stopping.cancelled().await;
            sleep(shared.limits.stop_grace).await;
        };
        let written = tokio::select! {
            biased;
            written = timeout_at(end, stream.write(left)) => written,
            () = stands_still => return Err(io::ErrorKind::TimedOut.into()),
        };
        match written {
            Ok(Ok(taken)) => left = &left[taken..],
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
    Ok(())
}

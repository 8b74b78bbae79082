//! `StopTracing`: stop, end of the stream, then the reply; but the reply in any case.

use std::sync::Arc;

use diagport_codec::Reply;
use diagport_session::SessionId;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::answer::Answer;
use crate::shared::Shared;

// spec: SRV-STOP-1, SRV-STOP-2
pub(crate) async fn stop_tracing(shared: &Arc<Shared>, session_id: u64) -> Answer {
    // Unknown ids are a success: tools race with sessions that end by themselves.
    if let Some(session) = SessionId::from_u64(session_id).and_then(|id| shared.pipe.session(id)) {
        let (finished_sender, finished) = oneshot::channel();
        session.on_finished(Box::new(move |_end| {
            // The stop may have been answered already.
            let _ = finished_sender.send(());
        }));
        session.request_stop();
        if timeout(shared.limits.stop_reply, finished).await.is_err() {
            tracing::warn!(session_id, "session has not ended yet; its stop is answered nevertheless");
        }
    }
    Reply::session(session_id).into()
}

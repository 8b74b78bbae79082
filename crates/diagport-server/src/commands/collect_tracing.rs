//! `CollectTracing` 1 to 6: from the request to a running session that owns the connection.

use std::sync::Arc;

use diagport_codec::{
    BufferingMode, CollectTracing, EventFilter, FilterSense, HResult, ProviderRequest, Reply, SessionOutput,
    StackWalk, StreamFormat,
};
use diagport_session as session;
use diagport_transport::IpcStream;
use tokio::time::timeout;

use super::socket_sink::SocketSink;
use crate::SessionFeature;
use crate::answer::{Answer, answer_and_close, encoded};
use crate::shared::Shared;

/// Bytes that may come before the one that carries the descriptor of a user_events session.
const DESCRIPTOR_WITHIN_BYTES: usize = 16;

const BYTES_PER_MB: u64 = 1 << 20;

pub(crate) async fn collect_tracing(shared: &Arc<Shared>, stream: IpcStream, request: CollectTracing) {
    match request.output.clone() {
        SessionOutput::Streaming { format: StreamFormat::NetPerf, .. } => {
            answer_and_close(shared, stream, Answer::error(HResult::NOT_SUPPORTED)).await;
        }
        SessionOutput::UserEvents => refuse_user_events(shared, stream).await,
        SessionOutput::Streaming {
            format: StreamFormat::NetTrace,
            circular_buffer_mb,
            stack_walk,
            buffering_mode,
        } => {
            // spec: SRV-SESSION-8
            let budget = (u64::from(circular_buffer_mb) * BYTES_PER_MB).min(shared.limits.session_bytes);
            let config = session_config(shared, &request, budget, stack_walk, buffering_mode);
            start_session(shared, stream, config).await;
        }
    }
}

/// Waits for the descriptor as the protocol says, closes it, and refuses.
// spec: SRV-SESSION-6
async fn refuse_user_events(shared: &Arc<Shared>, mut stream: IpcStream) {
    let received = timeout(shared.limits.request, stream.receive_descriptor(DESCRIPTOR_WITHIN_BYTES)).await;
    let hresult = match received {
        Ok(Ok(Some(descriptor))) => {
            drop(descriptor);
            HResult::FAIL
        }
        _ => HResult::BAD_ENCODING,
    };
    answer_and_close(shared, stream, Answer::error(hresult)).await;
}

// spec: SRV-SESSION-1, SRV-SESSION-2
async fn start_session(shared: &Arc<Shared>, stream: IpcStream, config: session::SessionConfig) {
    let created = match shared.pipe.create_session(config) {
        Ok(created) => created,
        Err(error) => {
            tracing::info!(%error, "session refused");
            return answer_and_close(shared, stream, Answer::error(HResult::FAIL)).await;
        }
    };
    let reply = encoded(&Reply::session(created.id().as_u64()));
    shared.sessions.add(shared, &created);
    shared.counters.succeeded_requests.add_one();
    shared.counters.started_sessions.add_one();
    let budget_bytes = created.config().budget_bytes;
    // The reply goes out by the drain: a client that has it can stop the session at once, and still gets a whole stream.
    created.start(Box::new(SocketSink::new(stream.into_blocking(), budget_bytes, reply)));
}

fn session_config(
    shared: &Shared,
    request: &CollectTracing,
    budget_bytes: u64,
    stack_walk: StackWalk,
    buffering_mode: BufferingMode,
) -> session::SessionConfig {
    session::SessionConfig {
        session_type: session::SessionType::IpcStream,
        buffering_mode: match buffering_mode {
            BufferingMode::Drop => session::BufferingMode::Drop,
            BufferingMode::Block => session::BufferingMode::Block,
        },
        budget_bytes,
        providers: request.providers.iter().map(provider_config).collect(),
        rundown_keyword: rundown_keyword(shared, request.rundown_keyword),
        // spec: START-ALL-2
        stack_walk: match (stack_walk, shared.stack_walk) {
            (StackWalk::On, SessionFeature::AsRequested) => session::StackWalk::On,
            (StackWalk::Off, _) | (_, SessionFeature::Off) => session::StackWalk::Off,
        },
        stall_limit: shared.limits.stall,
        stop_grace: shared.limits.stop_grace,
    }
}

// spec: START-ALL-1
fn rundown_keyword(shared: &Shared, requested: u64) -> u64 {
    match shared.rundown {
        SessionFeature::AsRequested => requested,
        SessionFeature::Off if requested == 0 => 0,
        SessionFeature::Off => {
            tracing::warn!(
                "a session gets no rundown although its client requests one: EventPipeRundown is 0"
            );
            0
        }
    }
}

fn provider_config(request: &ProviderRequest) -> session::ProviderConfig {
    session::ProviderConfig {
        name: request.name.clone(),
        keywords: request.keywords,
        // The codec has checked 0..=5.
        level: session::EventLevel::from_number(request.level).unwrap_or(session::EventLevel::Verbose),
        arguments: request.arguments.clone(),
        filter: event_filter(&request.filter),
    }
}

fn event_filter(filter: &EventFilter) -> session::EventFilter {
    let sense = match filter.sense {
        FilterSense::Allow => session::FilterSense::Allow,
        FilterSense::Deny => session::FilterSense::Deny,
    };
    session::EventFilter::new(sense, filter.ids.clone())
}

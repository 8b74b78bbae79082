//! `ProcessEnvironment` and `SetEnvironmentVariable`.

use std::sync::Arc;

use diagport_codec::{EnvironmentReply, HResult, encode_environment};
use tokio::time::timeout;

use crate::answer::Answer;
use crate::continuations::Continuation;
use crate::host_call::call_host;
use crate::shared::Shared;
use crate::{EnvironmentChange, HostError};

// spec: SRV-ENVIRON-1
pub(crate) async fn process_environment(shared: &Arc<Shared>) -> Answer {
    let block = match environment_block(shared).await {
        Ok(block) => block,
        Err(error) => return Answer::error(error.hresult),
    };
    match EnvironmentReply::announcing(block.bytes()) {
        Ok(reply) => Answer::with_continuation(reply.encode(), block),
        Err(error) => {
            tracing::warn!(%error, "environment too large");
            Answer::error(HResult::FAIL)
        }
    }
}

/// The environment as it is after the request came. Those who ask while one is being made share the next: a large one takes
/// milliseconds and megabytes, and a crowd that asks for it must not take that each.
// spec: SRV-ENVIRON-2
async fn environment_block(shared: &Arc<Shared>) -> Result<Continuation, HostError> {
    let limit = shared.limits.host_call;
    let ticket = shared.environments.ticket();
    let Ok(mut latest) = timeout(limit, shared.environments.latest()).await else {
        return Err(HostError::failed(format!("the environment was not there within {limit:?}")));
    };
    if let Some(block) = latest.made_after(ticket) {
        return Ok(block);
    }
    let answers = shared.environments.tickets_so_far();
    let server = Arc::clone(shared);
    let block = call_host(shared, limit, move |host| {
        let entries = host.environment()?;
        // A client refuses the whole block for one entry without name or `=`.
        let complete = entries.into_iter().filter(|entry| entry.find('=').is_some_and(|at| at > 0));
        server.continuations.share(encode_environment(complete)).ok_or_else(|| {
            HostError::failed("too many different environments wait for peers that do not read")
        })
    })
    .await?;
    latest.set(&block, answers);
    Ok(block)
}

// spec: SRV-SETENV-1
pub(crate) async fn set_environment_variable(
    shared: &Shared,
    name: Option<String>,
    value: Option<String>,
) -> Answer {
    let Some(name) = name.filter(|name| !name.contains('=')) else {
        return Answer::error(HResult::INVALID_ARGUMENT);
    };
    if name.is_empty() {
        return Answer::success();
    }
    let change = call_host(shared, shared.limits.host_call, move |host| {
        host.set_environment_variable(&name, value.as_deref())
    });
    match change.await {
        Ok(EnvironmentChange::Set | EnvironmentChange::Removed) => Answer::success(),
        Ok(EnvironmentChange::NotFound) => Answer::error(HResult::ENVVAR_NOT_FOUND),
        Ok(EnvironmentChange::NoRoom) => Answer::error(HResult::INSUFFICIENT_BUFFER),
        Err(error) => Answer::error(error.hresult),
    }
}

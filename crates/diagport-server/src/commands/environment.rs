//! `ProcessEnvironment` and `SetEnvironmentVariable`.

use diagport_codec::{EnvironmentReply, HResult, encode_environment};

use crate::EnvironmentChange;
use crate::answer::Answer;
use crate::host_call::call_host;
use crate::shared::Shared;

// spec: SRV-ENVIRON-1
pub(crate) async fn process_environment(shared: &Shared) -> Answer {
    let entries = match call_host(shared, shared.limits.host_call, |host| host.environment()).await {
        Ok(entries) => entries,
        Err(error) => return Answer::error(error.hresult),
    };
    // A client refuses the whole block for one entry without name or `=`.
    let block =
        encode_environment(entries.into_iter().filter(|entry| entry.find('=').is_some_and(|at| at > 0)));
    match EnvironmentReply::announcing(&block) {
        Ok(reply) => Answer::with_continuation(reply.encode(), block),
        Err(error) => {
            tracing::warn!(%error, "environment too large");
            Answer::error(HResult::FAIL)
        }
    }
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
        Err(error) => Answer::error(error.hresult),
    }
}

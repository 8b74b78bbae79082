//! `ApplyStartupHook`.

use diagport_codec::HResult;

use super::plain_answer;
use crate::answer::Answer;
use crate::host_call::call_host;
use crate::shared::Shared;

pub(crate) async fn apply_startup_hook(shared: &Shared, path: Option<String>) -> Answer {
    let Some(path) = path else { return Answer::error(HResult::INVALID_ARGUMENT) };
    plain_answer(call_host(shared, shared.limits.host_call, move |host| host.apply_startup_hook(&path)).await)
}

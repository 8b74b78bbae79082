//! `AttachProfiler` and `StartupProfiler`.

use diagport_codec::{AttachProfiler, HResult, StartupProfiler};

use super::plain_answer;
use crate::answer::Answer;
use crate::host_call::call_host;
use crate::shared::Shared;

// spec: SRV-SUSPEND-5
pub(crate) async fn attach_profiler(shared: &Shared, request: AttachProfiler) -> Answer {
    if shared.gate.is_suspended() {
        return Answer::error(HResult::NOT_YET_AVAILABLE);
    }
    plain_answer(call_host(shared, shared.limits.host_call, move |host| host.attach_profiler(&request)).await)
}

pub(crate) async fn startup_profiler(shared: &Shared, request: StartupProfiler) -> Answer {
    plain_answer(
        call_host(shared, shared.limits.host_call, move |host| host.startup_profiler(&request)).await,
    )
}

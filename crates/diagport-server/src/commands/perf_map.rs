//! `EnablePerfMap` and `DisablePerfMap`.

use diagport_codec::HResult;

use super::plain_answer;
use crate::PerfMapKind;
use crate::answer::Answer;
use crate::host_call::call_host;
use crate::shared::Shared;

// spec: SRV-PERF-1
pub(crate) async fn enable_perf_map(shared: &Shared, kind: u32) -> Answer {
    // The kind first: a client learns that its argument is wrong even where the feature is missing.
    let kind = match kind {
        1 => PerfMapKind::All,
        2 => PerfMapKind::JitDump,
        3 => PerfMapKind::PerfMap,
        _ => return Answer::error(HResult::INVALID_ARGUMENT),
    };
    plain_answer(call_host(shared, shared.limits.host_call, move |host| host.enable_perf_map(kind)).await)
}

pub(crate) async fn disable_perf_map(shared: &Shared) -> Answer {
    plain_answer(call_host(shared, shared.limits.host_call, |host| host.disable_perf_map()).await)
}

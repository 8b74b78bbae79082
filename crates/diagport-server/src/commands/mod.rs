//! One file per command or family of commands.

pub(crate) mod collect_tracing;
pub(crate) mod core_dump;
pub(crate) mod environment;
pub(crate) mod perf_map;
pub(crate) mod process_info;
pub(crate) mod profiler;
mod socket_sink;
pub(crate) mod startup_hook;
pub(crate) mod stop_tracing;

use crate::HostError;
use crate::answer::Answer;

/// The answer of commands that answer nothing but their success.
fn plain_answer(result: Result<(), HostError>) -> Answer {
    match result {
        Ok(()) => Answer::success(),
        Err(error) => Answer::error(error.hresult),
    }
}

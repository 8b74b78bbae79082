//! The closed list of what a request may do.

use std::sync::Arc;

use diagport_codec::Request;
use diagport_transport::IpcStream;

use crate::answer::{Answer, answer_and_close};
use crate::commands::{
    collect_tracing, core_dump, environment, perf_map, process_info, profiler, startup_hook, stop_tracing,
};
use crate::shared::Shared;
use crate::suspend_gate::PortId;

/// Executes one request and ends its connection, unless a session has taken the connection over.
pub(crate) async fn dispatch(shared: &Arc<Shared>, port: PortId, stream: IpcStream, request: Request) {
    let answer = match request {
        Request::CollectTracing(request) => {
            return collect_tracing::collect_tracing(shared, stream, request).await;
        }
        Request::StopTracing { session_id } => stop_tracing::stop_tracing(shared, session_id).await,
        Request::ProcessInfo(version) => process_info::process_info(shared, version),
        Request::ResumeRuntime => {
            shared.gate.resume(port);
            Answer::success()
        }
        Request::ProcessEnvironment => environment::process_environment(shared).await,
        Request::SetEnvironmentVariable { name, value } => {
            environment::set_environment_variable(shared, name, value).await
        }
        Request::GenerateCoreDump(request) => core_dump::generate_core_dump(shared, request).await,
        Request::AttachProfiler(request) => profiler::attach_profiler(shared, request).await,
        Request::StartupProfiler(request) => profiler::startup_profiler(shared, request).await,
        Request::EnablePerfMap { kind } => perf_map::enable_perf_map(shared, kind).await,
        Request::DisablePerfMap => perf_map::disable_perf_map(shared).await,
        Request::ApplyStartupHook { path } => startup_hook::apply_startup_hook(shared, path).await,
    };
    answer_and_close(shared, stream, answer).await;
}

//! Every request, in both directions.

use crate::collect_tracing::CollectTracing;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{
    AttachProfiler, CollectTracingVersion, Command, DecodeError, EncodeError, GenerateCoreDump,
    GenerateCoreDumpVersion, IpcMessage, ProcessInfoVersion, StartupProfiler,
};

/// A request whose payload has been read and checked in full.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// Stop a session. Unknown ids are answered with success.
    StopTracing {
        /// The session.
        session_id: u64,
    },
    /// Start a session.
    CollectTracing(CollectTracing),
    /// Write a dump.
    GenerateCoreDump(GenerateCoreDump),
    /// Attach a profiler.
    AttachProfiler(AttachProfiler),
    /// Name a profiler for startup.
    StartupProfiler(StartupProfiler),
    /// Say who you are.
    ProcessInfo(ProcessInfoVersion),
    /// Let a suspended startup go on.
    ResumeRuntime,
    /// Send the environment block.
    ProcessEnvironment,
    /// Set or remove an environment variable.
    // spec: PROC-SET-1
    SetEnvironmentVariable {
        /// Name; null is well formed, and an invalid argument.
        name: Option<String>,
        /// Value; null removes the variable.
        value: Option<String>,
    },
    /// Write perf map files.
    // spec: PROC-PERF-1
    EnablePerfMap {
        /// 1 all, 2 jitdump, 3 perf map; anything else is well formed, and an invalid argument.
        kind: u32,
    },
    /// Stop writing perf map files.
    DisablePerfMap,
    /// Load a startup hook.
    // spec: PROC-HOOK-1
    ApplyStartupHook {
        /// Path of the hook; null is well formed, and an invalid argument.
        path: Option<String>,
    },
}

impl Request {
    /// The command of this request.
    #[must_use]
    pub fn command(&self) -> Command {
        match self {
            Self::StopTracing { .. } => Command::STOP_TRACING,
            Self::CollectTracing(request) => request.version.command(),
            Self::GenerateCoreDump(request) => request.version.command(),
            Self::AttachProfiler(_) => Command::ATTACH_PROFILER,
            Self::StartupProfiler(_) => Command::STARTUP_PROFILER,
            Self::ProcessInfo(version) => version.command(),
            Self::ResumeRuntime => Command::RESUME_RUNTIME,
            Self::ProcessEnvironment => Command::PROCESS_ENVIRONMENT,
            Self::SetEnvironmentVariable { .. } => Command::SET_ENVIRONMENT_VARIABLE,
            Self::EnablePerfMap { .. } => Command::ENABLE_PERF_MAP,
            Self::DisablePerfMap => Command::DISABLE_PERF_MAP,
            Self::ApplyStartupHook { .. } => Command::APPLY_STARTUP_HOOK,
        }
    }

    /// Reads a request. An unknown command is unknown whatever its payload holds; a known one that needs a payload
    /// and has none is badly encoded; a payload nobody asked for is ignored, as are bytes behind the last field.
    ///
    /// # Errors
    /// See [`DecodeError`]; its [`hresult`](DecodeError::hresult) is the answer.
    // spec: IPC-REQ-1, IPC-REQ-2, IPC-REQ-3, IPC-REQ-4
    pub fn decode(message: &IpcMessage) -> Result<Self, DecodeError> {
        let command = message.command;
        let decoded = match command {
            Command::PROCESS_INFO => return Ok(Self::ProcessInfo(ProcessInfoVersion::V1)),
            Command::PROCESS_INFO_2 => return Ok(Self::ProcessInfo(ProcessInfoVersion::V2)),
            Command::PROCESS_INFO_3 => return Ok(Self::ProcessInfo(ProcessInfoVersion::V3)),
            Command::RESUME_RUNTIME => return Ok(Self::ResumeRuntime),
            Command::PROCESS_ENVIRONMENT => return Ok(Self::ProcessEnvironment),
            Command::DISABLE_PERF_MAP => return Ok(Self::DisablePerfMap),
            _ => decode_with_payload(command),
        };
        let Some(decode) = decoded else {
            return Err(DecodeError::UnknownCommand { command });
        };
        if message.payload.is_empty() {
            return Err(DecodeError::EmptyPayload { command });
        }
        decode(&message.payload)
    }

    /// The message of this request.
    ///
    /// # Errors
    /// See [`EncodeError`]. What encodes decodes back to an equal value.
    pub fn encode(&self) -> Result<IpcMessage, EncodeError> {
        let payload = match self {
            Self::StopTracing { session_id } => session_id.to_le_bytes().to_vec(),
            Self::CollectTracing(request) => request.encode()?,
            Self::GenerateCoreDump(request) => request.encode()?,
            Self::AttachProfiler(request) => request.encode()?,
            Self::StartupProfiler(request) => request.encode()?,
            Self::ProcessInfo(_) | Self::ResumeRuntime | Self::ProcessEnvironment | Self::DisablePerfMap => {
                Vec::new()
            }
            Self::SetEnvironmentVariable { name, value } => {
                let mut writer = Writer::new();
                writer.string("name", name.as_deref())?;
                writer.string("value", value.as_deref())?;
                writer.into_bytes()
            }
            Self::EnablePerfMap { kind } => kind.to_le_bytes().to_vec(),
            Self::ApplyStartupHook { path } => {
                let mut writer = Writer::new();
                writer.string("startupHookPath", path.as_deref())?;
                writer.into_bytes()
            }
        };
        Ok(IpcMessage::new(self.command(), payload))
    }
}

type PayloadDecoder = fn(&[u8]) -> Result<Request, DecodeError>;

/// The reader of a command that has a payload; `None` for a command nobody knows.
fn decode_with_payload(command: Command) -> Option<PayloadDecoder> {
    macro_rules! collect {
        ($version:ident) => {
            |payload| {
                CollectTracing::decode(CollectTracingVersion::$version, payload).map(Request::CollectTracing)
            }
        };
    }
    macro_rules! dump {
        ($version:ident) => {
            |payload| {
                GenerateCoreDump::decode(GenerateCoreDumpVersion::$version, payload)
                    .map(Request::GenerateCoreDump)
            }
        };
    }
    Some(match command {
        Command::STOP_TRACING => |payload| {
            Reader::new(payload).u64("sessionId").map(|session_id| Request::StopTracing { session_id })
        },
        Command::COLLECT_TRACING => collect!(V1),
        Command::COLLECT_TRACING_2 => collect!(V2),
        Command::COLLECT_TRACING_3 => collect!(V3),
        Command::COLLECT_TRACING_4 => collect!(V4),
        Command::COLLECT_TRACING_5 => collect!(V5),
        Command::COLLECT_TRACING_6 => collect!(V6),
        Command::GENERATE_CORE_DUMP => dump!(V1),
        Command::GENERATE_CORE_DUMP_2 => dump!(V2),
        Command::GENERATE_CORE_DUMP_3 => dump!(V3),
        Command::ATTACH_PROFILER => |payload| AttachProfiler::decode(payload).map(Request::AttachProfiler),
        Command::STARTUP_PROFILER => |payload| StartupProfiler::decode(payload).map(Request::StartupProfiler),
        Command::SET_ENVIRONMENT_VARIABLE => |payload| {
            let mut reader = Reader::new(payload);
            let name = reader.string("name")?;
            let value = reader.string("value")?;
            Ok(Request::SetEnvironmentVariable { name, value })
        },
        Command::ENABLE_PERF_MAP => {
            |payload| Reader::new(payload).u32("perfMapType").map(|kind| Request::EnablePerfMap { kind })
        }
        Command::APPLY_STARTUP_HOOK => |payload| {
            Reader::new(payload).string("startupHookPath").map(|path| Request::ApplyStartupHook { path })
        },
        _ => return None,
    })
}

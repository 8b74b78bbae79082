//! The .NET Diagnostic IPC protocol as values, sans-I/O.
//!
//! Bytes in, values out, and back: messages, every request and reply of every version, the Advertise of reverse
//! connections, the texts that configure ports and the names that ports go by. The same code serves both sides of
//! a connection. It trusts nothing that it reads; the head of `src/reader.rs` says how.
//!
//! ```text
//!   bytes ──decode_prefix──▶ IpcMessage ──Request::decode──▶ Request      server
//!                                │                             │
//!                                │                       DecodeError ──▶ HResult ──▶ Reply::error
//!                                │
//!                                └──────Reply::decode──────▶ Reply        client
//! ```
//!
//! What it does **not** do: it opens no socket, reads no clock, knows no session and executes no command. Values
//! that are well formed but make no sense to a command (a perf map of kind 9, a null variable name) come out as
//! they are: answering them is the server's business.
//!
//! ```
//! use diagport_codec::{HResult, IpcMessage, Prefix, Reply, Request, decode_prefix};
//!
//! // A client asks for a session to be stopped.
//! let bytes = Request::StopTracing { session_id: 7 }.encode()?.encode()?;
//!
//! // A server reads what has arrived so far.
//! assert_eq!(decode_prefix(&bytes[..20])?, Prefix::Incomplete { needed_bytes: 8 });
//! let message = IpcMessage::decode_exact(&bytes)?;
//! let reply = match Request::decode(&message) {
//!     Ok(Request::StopTracing { session_id }) => Reply::session(session_id),
//!     Ok(_) => Reply::error(HResult::NOT_SUPPORTED),
//!     Err(error) => Reply::error(&error),
//! };
//! assert_eq!(reply.encode().encode()?.len(), 28);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

pub mod limits;

mod advertise;
mod collect_tracing;
mod command;
mod core_dump;
mod decode_error;
mod encode_error;
mod environment;
mod event_filter;
mod guid;
mod hresult;
mod message;
mod port_config;
mod port_name;
mod process_info;
mod profiler;
mod provider_request;
mod reader;
mod reply;
mod request;
#[cfg(feature = "tokio-util")]
mod tokio_codec;
mod tracepoint;
mod writer;

pub use advertise::{ADVERTISE_MAGIC, Advertise, AdvertisePrefix};
pub use collect_tracing::{
    BufferingMode, CollectTracing, CollectTracingVersion, SessionOutput, StackWalk, StreamFormat,
};
pub use command::{Command, CommandId, CommandSet};
pub use core_dump::{DumpFlags, DumpType, GenerateCoreDump, GenerateCoreDumpVersion};
pub use decode_error::DecodeError;
pub use encode_error::EncodeError;
pub use environment::{EnvironmentReply, decode_environment, encode_environment};
pub use event_filter::{EventFilter, FilterSense};
pub use guid::{Guid, RuntimeCookie};
pub use hresult::HResult;
pub use message::{IpcHeader, IpcMessage, MAGIC, Prefix, decode_prefix, end_of_input};
pub use port_config::{
    ParseToolPortError, PortKind, PortSpec, SuspendMode, ToolPort, parse_diagnostic_ports, parse_tool_port,
};
pub use port_name::{PortName, parse_dsrouter_pipe_name, parse_pipe_name, pipe_name};
pub use process_info::{ProcessInfo, ProcessInfoVersion};
pub use profiler::{AttachProfiler, StartupProfiler};
pub use provider_request::ProviderRequest;
pub use reply::{Reply, decode_result_code, decode_session_id, encode_session_id};
pub use request::Request;
#[cfg(feature = "tokio-util")]
pub use tokio_codec::{IpcCodecError, IpcMessageCodec};
pub use tracepoint::{TracepointConfig, TracepointSet};

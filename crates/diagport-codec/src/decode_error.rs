//! What can be wrong with bytes that arrived, and the one mapping to result codes.

use thiserror::Error;

use crate::{Command, HResult, limits};

/// Why bytes are not a message, or a message not a request or reply.
///
/// `field` names are the protocol's own, so that a log line can be held against the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The input ended inside the header.
    #[error("the input ended after {available_bytes} of {} header bytes", limits::HEADER_BYTES)]
    HeaderTruncated {
        /// Bytes that arrived.
        available_bytes: usize,
    },
    /// The size field is smaller than the header itself.
    #[error("message size {size} is below the header's {}", limits::HEADER_BYTES)]
    SizeBelowHeader {
        /// The size field.
        size: u16,
    },
    /// The first 14 bytes are not the magic.
    #[error("the message does not begin with the magic DOTNET_IPC_V1")]
    BadMagic,
    /// The input ended inside the payload.
    #[error("the input ended after {available_bytes} of {expected_bytes} payload bytes")]
    PayloadTruncated {
        /// Payload bytes the size field announces.
        expected_bytes: usize,
        /// Payload bytes that arrived.
        available_bytes: usize,
    },
    /// More bytes than the one message that was expected.
    #[error("{extra_bytes} bytes follow the message")]
    BytesAfterMessage {
        /// Bytes after the message's end.
        extra_bytes: usize,
    },
    /// Unknown command set, or unknown id in a known set.
    #[error("unknown command {command}")]
    UnknownCommand {
        /// The command of the header.
        command: Command,
    },
    /// The message is not a reply.
    #[error("{command} is not a reply")]
    NotAReply {
        /// The command of the header.
        command: Command,
    },
    /// A known command that needs a payload came without one.
    #[error("{command} needs a payload")]
    EmptyPayload {
        /// The command of the header.
        command: Command,
    },
    /// A field needs more bytes than remain.
    #[error("{field} needs {needed_bytes} bytes, {remaining_bytes} remain")]
    FieldTruncated {
        /// The field.
        field: &'static str,
        /// Bytes the field needs.
        needed_bytes: usize,
        /// Bytes that remain.
        remaining_bytes: usize,
    },
    /// A count announces more items than the remaining bytes can hold.
    #[error("{field} announces {count} items, {remaining_bytes} bytes remain")]
    CountTooLarge {
        /// The field.
        field: &'static str,
        /// The count on the wire.
        count: u32,
        /// Bytes that remain.
        remaining_bytes: usize,
    },
    /// The last unit of a string is not NUL.
    #[error("{field} does not end with NUL")]
    UnterminatedString {
        /// The field.
        field: &'static str,
    },
    /// A string that must be there is null (count 0).
    #[error("{field} is null")]
    NullString {
        /// The field.
        field: &'static str,
    },
    /// A string that must say something is empty.
    #[error("{field} is empty")]
    EmptyString {
        /// The field.
        field: &'static str,
    },
    /// The session type is neither streaming (0) nor user_events (1).
    #[error("session type {value} is neither 0 nor 1")]
    SessionType {
        /// The value on the wire.
        value: u32,
    },
    /// The buffer size is 0 MB.
    #[error("the circular buffer size is 0 MB")]
    ZeroCircularBuffer,
    /// The stream format is neither NetPerf (0) nor NetTrace (1).
    #[error("stream format {value} is neither 0 nor 1")]
    StreamFormat {
        /// The value on the wire.
        value: u32,
    },
    /// No provider, or too many.
    #[error("{count} providers, allowed are 1 to {}", limits::MAX_PROVIDERS)]
    ProviderCount {
        /// The count on the wire.
        count: u32,
    },
    /// A provider's level is above Verbose.
    #[error("provider level {value} is above {}", limits::MAX_EVENT_LEVEL)]
    ProviderLevel {
        /// The value on the wire.
        value: u32,
    },
    /// The buffering mode is neither Drop (0) nor Block (1).
    #[error("buffering mode 0x{value:08X} is neither 0 nor 1")]
    BufferingMode {
        /// The value on the wire.
        value: u32,
    },
    /// A provider of a user_events session has neither a default tracepoint nor a set.
    #[error("a provider names no tracepoint")]
    NoTracepoint,
    /// A tracepoint name is empty. The request is well formed; the session cannot be registered.
    #[error("a tracepoint name is empty")]
    EmptyTracepointName,
    /// A tracepoint name does not fit the kernel's registration text. The request is well formed.
    #[error("a tracepoint name has {name_bytes} bytes, at most {} fit", limits::MAX_TRACEPOINT_NAME_BYTES)]
    TracepointNameTooLong {
        /// Length of the name in UTF-8.
        name_bytes: usize,
    },
    /// An event id stands twice in the tracepoint sets of a provider. The request is well formed.
    #[error("event id {event_id} stands twice in a provider's tracepoint sets")]
    DuplicateTracepointId {
        /// The event id.
        event_id: u32,
    },
    /// An Advertise does not begin with its magic.
    #[error("the advertisement does not begin with the magic ADVR_V1")]
    BadAdvertiseMagic,
}

// spec: ERR-MAP-1
impl From<&DecodeError> for HResult {
    fn from(error: &DecodeError) -> Self {
        // No wildcard: whoever adds a variant decides its code here.
        match error {
            DecodeError::BadMagic | DecodeError::BadAdvertiseMagic => Self::UNKNOWN_MAGIC,
            DecodeError::UnknownCommand { .. } | DecodeError::NotAReply { .. } => Self::UNKNOWN_COMMAND,
            DecodeError::EmptyTracepointName
            | DecodeError::TracepointNameTooLong { .. }
            | DecodeError::DuplicateTracepointId { .. } => Self::FAIL,
            DecodeError::HeaderTruncated { .. }
            | DecodeError::SizeBelowHeader { .. }
            | DecodeError::PayloadTruncated { .. }
            | DecodeError::BytesAfterMessage { .. }
            | DecodeError::EmptyPayload { .. }
            | DecodeError::FieldTruncated { .. }
            | DecodeError::CountTooLarge { .. }
            | DecodeError::UnterminatedString { .. }
            | DecodeError::NullString { .. }
            | DecodeError::EmptyString { .. }
            | DecodeError::SessionType { .. }
            | DecodeError::ZeroCircularBuffer
            | DecodeError::StreamFormat { .. }
            | DecodeError::ProviderCount { .. }
            | DecodeError::ProviderLevel { .. }
            | DecodeError::BufferingMode { .. }
            | DecodeError::NoTracepoint => Self::BAD_ENCODING,
        }
    }
}

impl From<DecodeError> for HResult {
    fn from(error: DecodeError) -> Self {
        Self::from(&error)
    }
}

impl DecodeError {
    /// The result code a server answers with.
    #[must_use]
    pub fn hresult(&self) -> HResult {
        HResult::from(self)
    }
}

//! What cannot be said on the wire.

use thiserror::Error;

use crate::{CollectTracingVersion, limits};

/// Why a value has no wire form. What encodes decodes back to an equal value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EncodeError {
    /// The message would be larger than its 16-bit size field can say.
    #[error("a message of {message_bytes} bytes is above {}", limits::MAX_MESSAGE_BYTES)]
    MessageTooLarge {
        /// Header and payload.
        message_bytes: usize,
    },
    /// The continuation would be larger than its 32-bit size can say.
    #[error("a continuation of {continuation_bytes} bytes is above 4 GB")]
    ContinuationTooLarge {
        /// Bytes of the continuation.
        continuation_bytes: usize,
    },
    /// A string holds a NUL, where every reader would stop.
    #[error("{field} holds a NUL")]
    InteriorNul {
        /// The field.
        field: &'static str,
    },
    /// A string that must say something is empty.
    #[error("{field} is empty")]
    EmptyString {
        /// The field.
        field: &'static str,
    },
    /// The buffer size is 0 MB.
    #[error("the circular buffer size is 0 MB")]
    ZeroCircularBuffer,
    /// No provider, or too many.
    #[error("{count} providers, allowed are 1 to {}", limits::MAX_PROVIDERS)]
    ProviderCount {
        /// Providers in the value.
        count: usize,
    },
    /// A provider's level is above Verbose.
    #[error("provider level {value} is above {}", limits::MAX_EVENT_LEVEL)]
    ProviderLevel {
        /// The level.
        value: u32,
    },
    /// This version of the command has no way to say what the value asks for.
    #[error("{version:?} cannot say: {feature}")]
    NotExpressible {
        /// The version of the value.
        version: CollectTracingVersion,
        /// What it cannot say.
        feature: &'static str,
    },
    /// The tracepoints of a provider cannot be registered, or do not belong to this kind of session.
    #[error("tracepoints: {problem}")]
    Tracepoints {
        /// What is wrong.
        problem: &'static str,
    },
}

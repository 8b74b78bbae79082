//! Replies, success and error, in both directions.

use crate::reader::Reader;
use crate::writer::{Writer, cut_to_units, until_nul};
use crate::{Command, DecodeError, HResult, IpcMessage, limits};

/// Most UTF-16 units of an error text: code, count and terminator have to fit too.
const MAX_ERROR_TEXT_UNITS: usize = (limits::MAX_PAYLOAD_BYTES - 4 - 4 - 2) / 2;

/// What comes back.
// spec: ERR-REPLY-1, ERR-REPLY-2
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// Success.
    Ok {
        /// What the command answers; see the payload types of each command.
        payload: Vec<u8>,
    },
    /// An error.
    Error {
        /// The code.
        hresult: HResult,
        /// A text, which only failures of `GenerateCoreDump3` carry (there always, if need be empty).
        message: Option<String>,
    },
}

impl Reply {
    /// The success most commands answer: a zero code.
    // spec: ERR-REPLY-3
    #[must_use]
    pub fn success() -> Self {
        Self::Ok { payload: HResult::OK.0.to_le_bytes().to_vec() }
    }

    /// The reply of a started, and of a stopped, session.
    #[must_use]
    pub fn session(session_id: u64) -> Self {
        Self::Ok { payload: encode_session_id(session_id) }
    }

    /// An error without text.
    #[must_use]
    pub fn error(hresult: impl Into<HResult>) -> Self {
        Self::Error { hresult: hresult.into(), message: None }
    }

    /// The message. Always fits: an error text is cut at a code point if need be. A success payload is the
    /// caller's, and held against the limit by [`IpcMessage::encode`].
    #[must_use]
    pub fn encode(&self) -> IpcMessage {
        match self {
            Self::Ok { payload } => IpcMessage::new(Command::OK_REPLY, payload.clone()),
            Self::Error { hresult, message } => {
                let mut writer = Writer::new();
                writer.u32(hresult.0);
                if let Some(text) = message {
                    writer.reply_string(cut_to_units(until_nul(text), MAX_ERROR_TEXT_UNITS));
                }
                IpcMessage::new(Command::ERROR_REPLY, writer.into_bytes())
            }
        }
    }

    /// Reads a reply. Bytes behind an error's code that are not a text are ignored: the code matters more.
    ///
    /// # Errors
    /// [`DecodeError::NotAReply`]; [`DecodeError::FieldTruncated`] for an error without code.
    // spec: ERR-REPLY-4
    pub fn decode(message: &IpcMessage) -> Result<Self, DecodeError> {
        match message.command {
            Command::OK_REPLY => Ok(Self::Ok { payload: message.payload.clone() }),
            Command::ERROR_REPLY => {
                let mut reader = Reader::new(&message.payload);
                let hresult = HResult(reader.u32("hresult")?);
                let message = reader.string("errorMessage").ok().flatten();
                Ok(Self::Error { hresult, message })
            }
            command => Err(DecodeError::NotAReply { command }),
        }
    }
}

/// Payload of the success that answers CollectTracing and StopTracing.
// spec: EP-REPLY-1
#[must_use]
pub fn encode_session_id(session_id: u64) -> Vec<u8> {
    session_id.to_le_bytes().to_vec()
}

/// Reads the payload of the success that answers CollectTracing and StopTracing.
///
/// # Errors
/// [`DecodeError::FieldTruncated`] below 8 bytes.
pub fn decode_session_id(payload: &[u8]) -> Result<u64, DecodeError> {
    Reader::new(payload).u64("sessionId")
}

/// Reads the payload of a success that carries a code.
///
/// # Errors
/// [`DecodeError::FieldTruncated`] below 4 bytes.
pub fn decode_result_code(payload: &[u8]) -> Result<HResult, DecodeError> {
    Reader::new(payload).u32("result").map(HResult)
}

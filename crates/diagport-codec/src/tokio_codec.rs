//! `tokio_util` covers over the incremental decoder.

use bytes::{Buf, BytesMut};
use thiserror::Error;
use tokio_util::codec::{Decoder, Encoder};

use crate::{DecodeError, EncodeError, IpcMessage, Prefix, decode_prefix, end_of_input};

/// Why a framed connection ended.
#[derive(Debug, Error)]
pub enum IpcCodecError {
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The peer sent no message.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The message has no wire form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Frames a byte stream into messages. Remembers nothing: all state is in the buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct IpcMessageCodec;

impl Decoder for IpcMessageCodec {
    type Item = IpcMessage;
    type Error = IpcCodecError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<IpcMessage>, IpcCodecError> {
        match decode_prefix(source)? {
            Prefix::Incomplete { needed_bytes } => {
                // Never above one message: the size has been judged by now, or the header is what is missing.
                source.reserve(needed_bytes);
                Ok(None)
            }
            Prefix::Complete { message, consumed_bytes } => {
                source.advance(consumed_bytes);
                Ok(Some(message))
            }
        }
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<IpcMessage>, IpcCodecError> {
        match self.decode(source)? {
            None if !source.is_empty() => Err(end_of_input(source).into()),
            item => Ok(item),
        }
    }
}

impl Encoder<IpcMessage> for IpcMessageCodec {
    type Error = IpcCodecError;

    fn encode(&mut self, message: IpcMessage, target: &mut BytesMut) -> Result<(), IpcCodecError> {
        target.extend_from_slice(&message.encode()?);
        Ok(())
    }
}

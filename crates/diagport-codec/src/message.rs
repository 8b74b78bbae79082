//! The frame: header, message, and the judge of a growing input.

use crate::reader::Reader;
use crate::{Command, CommandId, CommandSet, DecodeError, EncodeError, limits};

/// The 14 bytes every message begins with.
pub const MAGIC: [u8; 14] = *b"DOTNET_IPC_V1\0";

/// The 20 bytes before a payload, magic left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpcHeader {
    /// Header and payload, in bytes: `20..=65535`.
    pub size: u16,
    /// The command.
    pub command: Command,
    /// Written as 0, ignored when read.
    pub reserved: u16,
}

impl IpcHeader {
    /// Reads a header. The size is judged before the magic, as the reference runtime does.
    ///
    /// # Errors
    /// [`DecodeError::SizeBelowHeader`], then [`DecodeError::BadMagic`].
    // spec: IPC-HDR-1, IPC-HDR-2, IPC-HDR-3
    pub fn decode(bytes: &[u8; limits::HEADER_BYTES]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let magic: [u8; 14] = reader.array("magic")?;
        let size = reader.u16("size")?;
        let [set, id] = reader.array("command")?;
        let reserved = reader.u16("reserved")?;
        if usize::from(size) < limits::HEADER_BYTES {
            return Err(DecodeError::SizeBelowHeader { size });
        }
        if magic != MAGIC {
            return Err(DecodeError::BadMagic);
        }
        Ok(Self { size, command: Command { set: CommandSet(set), id: CommandId(id) }, reserved })
    }

    /// Writes a header.
    #[must_use]
    pub fn encode(&self) -> [u8; limits::HEADER_BYTES] {
        let mut bytes = [0; limits::HEADER_BYTES];
        let fields = MAGIC
            .into_iter()
            .chain(self.size.to_le_bytes())
            .chain([self.command.set.0, self.command.id.0])
            .chain(self.reserved.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(byte, value)| *byte = value);
        bytes
    }

    /// Bytes that follow the header.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        usize::from(self.size).saturating_sub(limits::HEADER_BYTES)
    }
}

/// One message: a command and its payload, not yet looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpcMessage {
    /// The command.
    pub command: Command,
    /// The payload, at most [`limits::MAX_PAYLOAD_BYTES`] when it came off the wire.
    pub payload: Vec<u8>,
}

impl IpcMessage {
    /// A message of these parts.
    #[must_use]
    pub fn new(command: Command, payload: Vec<u8>) -> Self {
        Self { command, payload }
    }

    /// The bytes on the wire.
    ///
    /// # Errors
    /// [`EncodeError::MessageTooLarge`] above 65,535 bytes.
    // spec: IPC-HDR-4
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let message_bytes = limits::HEADER_BYTES.saturating_add(self.payload.len());
        let size =
            u16::try_from(message_bytes).map_err(|_| EncodeError::MessageTooLarge { message_bytes })?;
        let header = IpcHeader { size, command: self.command, reserved: 0 };
        let mut bytes = Vec::with_capacity(message_bytes);
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(&self.payload);
        Ok(bytes)
    }

    /// Reads an input that holds exactly one message and has ended.
    ///
    /// # Errors
    /// Everything [`decode_prefix`] says, and [`end_of_input`] where it wants more bytes;
    /// [`DecodeError::BytesAfterMessage`] where bytes follow.
    pub fn decode_exact(bytes: &[u8]) -> Result<Self, DecodeError> {
        match decode_prefix(bytes)? {
            Prefix::Incomplete { .. } => Err(end_of_input(bytes)),
            Prefix::Complete { message, consumed_bytes } => {
                match bytes.len().saturating_sub(consumed_bytes) {
                    0 => Ok(message),
                    extra_bytes => Err(DecodeError::BytesAfterMessage { extra_bytes }),
                }
            }
        }
    }
}

/// What the bytes so far amount to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prefix {
    /// Nothing wrong so far; at least this many more bytes are needed before there is more to say.
    Incomplete {
        /// More bytes to read, never 0.
        needed_bytes: usize,
    },
    /// The input begins with this message.
    Complete {
        /// The message.
        message: IpcMessage,
        /// Bytes of the input that were the message. Bytes behind them belong to nobody yet.
        consumed_bytes: usize,
    },
}

/// Judges the beginning of an input that may still grow.
///
/// Size and magic are judged as soon as 20 bytes are there, so a stranger who announces 60 KB is turned away at
/// once. Asking again with more bytes gives the same answer as asking once with all of them.
///
/// # Errors
/// [`DecodeError::SizeBelowHeader`], [`DecodeError::BadMagic`].
// spec: IPC-HDR-2, IPC-HDR-5
pub fn decode_prefix(bytes: &[u8]) -> Result<Prefix, DecodeError> {
    let Some((head, rest)) = bytes.split_first_chunk::<{ limits::HEADER_BYTES }>() else {
        return Ok(Prefix::Incomplete { needed_bytes: limits::HEADER_BYTES.saturating_sub(bytes.len()) });
    };
    let header = IpcHeader::decode(head)?;
    let payload_bytes = header.payload_bytes();
    let Some((payload, _)) = rest.split_at_checked(payload_bytes) else {
        return Ok(Prefix::Incomplete { needed_bytes: payload_bytes.saturating_sub(rest.len()) });
    };
    let message = IpcMessage::new(header.command, payload.to_vec());
    Ok(Prefix::Complete { message, consumed_bytes: limits::HEADER_BYTES + payload_bytes })
}

/// The error of an input that ended while [`decode_prefix`] wanted more: no byte at all counts as a cut header.
// spec: IPC-HDR-6
#[must_use]
pub fn end_of_input(bytes: &[u8]) -> DecodeError {
    match bytes.split_first_chunk::<{ limits::HEADER_BYTES }>() {
        None => DecodeError::HeaderTruncated { available_bytes: bytes.len() },
        Some((head, rest)) => match IpcHeader::decode(head) {
            Err(error) => error,
            Ok(header) => DecodeError::PayloadTruncated {
                expected_bytes: header.payload_bytes(),
                available_bytes: rest.len(),
            },
        },
    }
}

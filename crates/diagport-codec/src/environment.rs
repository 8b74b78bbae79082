//! The environment reply and the block that follows it.

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{DecodeError, EncodeError};

/// What the reply to ProcessEnvironment announces; the block follows on the connection, then its end.
// spec: PROC-ENV-1
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EnvironmentReply {
    /// Bytes of the block.
    pub incoming_bytes: u32,
}

impl EnvironmentReply {
    /// The reply that announces `block`.
    ///
    /// # Errors
    /// [`EncodeError::ContinuationTooLarge`] above 4 GB.
    pub fn announcing(block: &[u8]) -> Result<Self, EncodeError> {
        let continuation_bytes = block.len();
        u32::try_from(continuation_bytes)
            .map(|incoming_bytes| Self { incoming_bytes })
            .map_err(|_| EncodeError::ContinuationTooLarge { continuation_bytes })
    }

    /// The reply's payload.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u32(self.incoming_bytes);
        writer.u16(0);
        writer.into_bytes()
    }

    /// Reads the reply's payload.
    ///
    /// # Errors
    /// [`DecodeError::FieldTruncated`].
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let incoming_bytes = reader.u32("nIncomingBytes")?;
        reader.u16("future")?;
        Ok(Self { incoming_bytes })
    }
}

/// The block of these `NAME=value` entries. Entries that are empty or have no `=` are left out: tools give up on
/// the whole block when they meet one.
// spec: PROC-ENV-2, PROC-ENV-3
pub fn encode_environment<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut items = Writer::new();
    let mut count = 0;
    for entry in entries {
        if entry.as_ref().contains('=') {
            items.reply_string(entry.as_ref());
            count += 1;
        }
    }
    let mut block = Writer::new();
    block.count(count);
    block.raw(&items.into_bytes());
    block.into_bytes()
}

/// The entries of a block, as they stand there.
///
/// # Errors
/// A count that the block cannot hold, an entry that is cut or not terminated.
pub fn decode_environment(block: &[u8]) -> Result<Vec<String>, DecodeError> {
    let mut reader = Reader::new(block);
    let count = reader.count("environment", 4)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(reader.string("environment.entry")?.unwrap_or_default());
    }
    Ok(entries)
}

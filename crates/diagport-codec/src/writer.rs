//! Puts fields behind each other.

use crate::{EncodeError, Guid};

/// A payload being built. Little-endian, packed, as [`Reader`](crate::reader::Reader) reads it.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn guid(&mut self, value: Guid) {
        self.bytes.extend_from_slice(&value.to_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A count of items. Beyond 32 bits it is far beyond any message, and the message limit reports it: so the
    /// value is only held to its largest.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(crate) fn u32_array(&mut self, values: &[u32]) {
        self.count(values.len());
        values.iter().for_each(|value| self.u32(*value));
    }

    /// A string of a request: `None` is the null string. A NUL inside is refused, because the peer stops there.
    pub(crate) fn string(&mut self, field: &'static str, text: Option<&str>) -> Result<(), EncodeError> {
        let Some(text) = text else {
            self.u32(0);
            return Ok(());
        };
        if text.contains('\0') {
            return Err(EncodeError::InteriorNul { field });
        }
        self.units(text);
        Ok(())
    }

    /// A string of a reply: never null, ends at a NUL inside.
    // spec: IPC-STR-6
    pub(crate) fn reply_string(&mut self, text: &str) {
        self.units(until_nul(text));
    }

    fn units(&mut self, text: &str) {
        self.count(utf16_units(text) + 1);
        text.encode_utf16().for_each(|unit| self.u16(unit));
        self.u16(0);
    }
}

/// The part every reader of the wire form would see.
pub(crate) fn until_nul(text: &str) -> &str {
    text.split_once('\0').map_or(text, |(head, _)| head)
}

/// UTF-16 units of `text`, without a terminator.
pub(crate) fn utf16_units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Bytes a string takes on the wire, count and terminator included.
pub(crate) fn string_bytes(text: &str) -> usize {
    4 + 2 * (utf16_units(text) + 1)
}

/// The longest head of `text` that has at most `max_units` UTF-16 units. Never splits a code point.
// spec: PROC-INFO-5
pub(crate) fn cut_to_units(text: &str, max_units: usize) -> &str {
    let mut units = 0;
    for (at_byte, character) in text.char_indices() {
        units += character.len_utf16();
        if units > max_units {
            return text.split_at_checked(at_byte).map_or("", |(head, _)| head);
        }
    }
    text
}

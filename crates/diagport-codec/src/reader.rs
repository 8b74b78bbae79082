//! How this crate reads bytes it does not trust.
//!
//! Everything a peer sends goes through one [`Reader`], which can do exactly one thing: hand out the next bytes
//! and forget them. There is no position to set, no way back and no way to look past the end, so a decoder
//! cannot get its offsets wrong; it can only ask for fields in an order.
//!
//! ```text
//!   payload   [ level | count ............ units ............ | next field ...
//!              u32 ─┘   │                                     ^
//!                       └─ take(count × 2): an exact piece ───┘ the reader goes on here, whatever
//!                                                               the piece turns out to hold
//! ```
//!
//! Rules that every decoder of the crate follows:
//!
//! 1. **Length before memory.** A count is held against the bytes that remain before anything is allocated for it
//!    ([`Reader::count`]). Arithmetic on lengths is checked: a count of `0x8000_0000` units is too long, not zero
//!    bytes. What is allocated is therefore a small multiple of what the peer really sent.
//! 2. **Exact pieces.** A field of variable length is cut out first, then looked at. A mistake inside it cannot
//!    move the fields behind it.
//! 3. **Forward only.** Each byte is handed out once, so work is proportional to the payload. Duplicates are found
//!    with a hash set, not by comparing all with all.
//! 4. **No index.** The crate denies slice indexing; what is not there comes back as a `None` that becomes a
//!    [`DecodeError`] with the field's name.
//! 5. **What follows the last field is accepted and ignored.** A later version of a command may append fields.
//! 6. **Encoding first, meaning second.** Errors of the encoding come out before errors of meaning, whichever stands
//!    earlier in the payload.

use crate::{DecodeError, Guid, limits};

/// Forward-only view of the bytes that remain.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn truncated(&self, field: &'static str, needed_bytes: usize) -> DecodeError {
        DecodeError::FieldTruncated { field, needed_bytes, remaining_bytes: self.rest.len() }
    }

    /// The next `len` bytes, exactly.
    // spec: IPC-FIELD-1
    pub(crate) fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], DecodeError> {
        let (piece, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.truncated(field, len))?;
        self.rest = rest;
        Ok(piece)
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (piece, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.truncated(field, N))?;
        self.rest = rest;
        Ok(*piece)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// One byte; everything but 0 is true.
    // spec: IPC-BOOL-1
    pub(crate) fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte != 0)
    }

    pub(crate) fn guid(&mut self, field: &'static str) -> Result<Guid, DecodeError> {
        self.array(field).map(Guid)
    }

    /// A count of items that take at least `min_item_bytes` each, held against what remains.
    // spec: IPC-FIELD-2
    pub(crate) fn count(&mut self, field: &'static str, min_item_bytes: usize) -> Result<usize, DecodeError> {
        let count = self.u32(field)?;
        self.fits(field, count, min_item_bytes)
    }

    /// The count of providers: within its range first, then held against what remains.
    // spec: EP-PROV-4
    pub(crate) fn provider_count(&mut self, min_item_bytes: usize) -> Result<usize, DecodeError> {
        let count = self.u32("providers")?;
        match usize::try_from(count) {
            Ok(1..=limits::MAX_PROVIDERS) => self.fits("providers", count, min_item_bytes),
            _ => Err(DecodeError::ProviderCount { count }),
        }
    }

    fn fits(&self, field: &'static str, count: u32, min_item_bytes: usize) -> Result<usize, DecodeError> {
        let remaining_bytes = self.rest.len();
        usize::try_from(count)
            .ok()
            .filter(|items| items.checked_mul(min_item_bytes).is_some_and(|bytes| bytes <= remaining_bytes))
            .ok_or(DecodeError::CountTooLarge { field, count, remaining_bytes })
    }

    pub(crate) fn u32_array(&mut self, field: &'static str) -> Result<Vec<u32>, DecodeError> {
        let count = self.count(field, 4)?;
        let piece = self.take(field, count * 4)?;
        let (items, _) = piece.as_chunks::<4>();
        Ok(items.iter().map(|item| u32::from_le_bytes(*item)).collect())
    }

    /// A string: `u32` count of UTF-16 units with the NUL, then the units. Count 0 is the null string.
    // spec: IPC-STR-1, IPC-STR-2, IPC-STR-3, IPC-STR-4, IPC-STR-5
    pub(crate) fn string(&mut self, field: &'static str) -> Result<Option<String>, DecodeError> {
        let count = self.count(field, 2)?;
        if count == 0 {
            return Ok(None);
        }
        let piece = self.take(field, count * 2)?;
        let (units, _) = piece.as_chunks::<2>();
        if units.last() != Some(&[0, 0]) {
            return Err(DecodeError::UnterminatedString { field });
        }
        let until_nul = units.iter().map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0);
        let text = char::decode_utf16(until_nul).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(Some(text.collect()))
    }

    /// A string that must be there and say something.
    pub(crate) fn non_empty_string(&mut self, field: &'static str) -> Result<String, DecodeError> {
        match self.string(field)? {
            None => Err(DecodeError::NullString { field }),
            Some(text) if text.is_empty() => Err(DecodeError::EmptyString { field }),
            Some(text) => Ok(text),
        }
    }
}

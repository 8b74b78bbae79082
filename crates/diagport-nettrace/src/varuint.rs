//! Base-128 numbers, least significant group first, bit 7 set on every byte but the last.

/// Longest form of a 64-bit number, in bytes.
// spec: NT4-VAR-1
pub const MAX_BYTES_64: usize = 10;
/// Longest form of a 32-bit number, in bytes.
pub const MAX_BYTES_32: usize = 5;

/// Numbers below this take one byte or two.
pub(crate) const TWO_BYTES_END: u64 = 1 << 14;

/// The shortest form of a number below [`TWO_BYTES_END`], first byte lowest, and its length in bytes.
///
/// Without a branch: whether the time since the last event takes one byte or two, no processor can foresee.
#[inline(always)]
pub(crate) fn short_form(value: u64) -> (u16, usize) {
    debug_assert!(value < TWO_BYTES_END);
    let more = u64::from(value >= 0x80);
    ((value & 0x7F | more << 7 | (value & 0x3F80) << 1) as u16, 1 + more as usize)
}

/// Writes the shortest form of `value` at `at` and returns the position after it. The byte after a form of one byte is
/// overwritten with zero.
///
/// # Panics
/// When the form, or two bytes, do not fit.
#[inline(always)]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u64) -> usize {
    if value >= TWO_BYTES_END {
        return put_long(bytes, at, value);
    }
    let (form, length) = short_form(value);
    bytes[at..at + 2].copy_from_slice(&form.to_le_bytes());
    at + length
}

fn put_long(bytes: &mut [u8], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        bytes[at] = (value as u8) | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    at + 1
}

/// Appends the shortest form of `value`.
pub fn encode(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; MAX_BYTES_64];
    let end = put(&mut bytes, 0, value);
    out.extend_from_slice(&bytes[..end]);
}

/// Why a number could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaruintError {
    /// The bytes end before the number does.
    #[error("the bytes end inside a variable-length number")]
    Incomplete,
    /// More bytes, or more bits, than the width allows.
    #[error("a variable-length number does not fit its width")]
    Overflow,
}

/// Reads a 64-bit number from the front of `bytes`: the value and its length in bytes.
///
/// # Errors
/// [`VaruintError`] as described there; a long form with redundant zero groups is accepted up to [`MAX_BYTES_64`] bytes.
pub fn decode_64(bytes: &[u8]) -> Result<(u64, usize), VaruintError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(MAX_BYTES_64).enumerate() {
        if index == MAX_BYTES_64 - 1 && byte > 1 {
            return Err(VaruintError::Overflow);
        }
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return Ok((value, index + 1));
        }
    }
    Err(if bytes.len() < MAX_BYTES_64 { VaruintError::Incomplete } else { VaruintError::Overflow })
}

/// Reads a 32-bit number from the front of `bytes`: the value and its length in bytes.
///
/// # Errors
/// [`VaruintError`]; more than [`MAX_BYTES_32`] bytes is an overflow even if the value would fit.
pub fn decode_32(bytes: &[u8]) -> Result<(u32, usize), VaruintError> {
    let head = &bytes[..bytes.len().min(MAX_BYTES_32)];
    match decode_64(head) {
        Ok((value, used)) => {
            u32::try_from(value).map(|value| (value, used)).map_err(|_| VaruintError::Overflow)
        }
        Err(_) if head.len() == MAX_BYTES_32 => Err(VaruintError::Overflow),
        Err(error) => Err(error),
    }
}

//! A forward-only view of bytes that are already there.

/// The bytes end before the item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfBytes;

/// Reads little-endian items from the front of a slice; it never goes back and never reads past the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], OutOfBytes> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or(OutOfBytes)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], OutOfBytes> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(OutOfBytes)?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, OutOfBytes> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, OutOfBytes> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, OutOfBytes> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, OutOfBytes> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, OutOfBytes> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, OutOfBytes> {
        self.array().map(i64::from_le_bytes)
    }

    /// UTF-16 text up to a zero unit. Lone surrogates become U+FFFD.
    pub(crate) fn utf16z(&mut self) -> Result<String, OutOfBytes> {
        let units = self.rest.as_chunks::<2>().0;
        let length = units.iter().position(|unit| *unit == [0, 0]).ok_or(OutOfBytes)?;
        self.rest = &self.rest[2 * length + 2..];
        Ok(utf16_lossy(&units[..length]))
    }
}

pub(crate) fn utf16_lossy(units: &[[u8; 2]]) -> String {
    char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit)))
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

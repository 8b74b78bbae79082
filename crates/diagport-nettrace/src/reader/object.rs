//! Object framing: tags, type object, and where the body lies.

use std::ops::Range;

use super::Container;
use crate::cursor::Cursor;
use crate::framing::{
    EVENT_BLOCK_NAME, METADATA_BLOCK_NAME, SEQUENCE_POINT_BLOCK_NAME, STACK_BLOCK_NAME, TAG_BEGIN,
    TAG_BEGIN_PRIVATE, TAG_END, TAG_NULL, TRACE_NAME, padding_bytes,
};
use crate::trace_info::TRACE_BODY_BYTES;
use crate::{ReadError, TraceInfo};

/// Longest type name that is looked at.
const MAX_NAME_BYTES: usize = 64;
/// Largest block that is collected. Writers stay near 100 KB; readers of the format allow 2 GB.
// spec: NT4-READ-6
const MAX_BLOCK_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Trace,
    EventBlock,
    MetadataBlock,
    StackBlock,
    SequencePointBlock,
}

impl ObjectKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Trace => TRACE_NAME,
            Self::EventBlock => EVENT_BLOCK_NAME,
            Self::MetadataBlock => METADATA_BLOCK_NAME,
            Self::StackBlock => STACK_BLOCK_NAME,
            Self::SequencePointBlock => SEQUENCE_POINT_BLOCK_NAME,
        }
    }

    fn from_name(container: Container, name: &[u8]) -> Option<Self> {
        let known: &[Self] = match container {
            Container::NetPerf3 => &[Self::Trace, Self::EventBlock],
            Container::NetTrace4 => &[
                Self::Trace,
                Self::EventBlock,
                Self::MetadataBlock,
                Self::StackBlock,
                Self::SequencePointBlock,
            ],
        };
        known.iter().copied().find(|kind| kind.name().as_bytes() == name)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectHead {
    pub(super) kind: ObjectKind,
    /// From the first tag to the end of the type object.
    pub(super) bytes: usize,
}

impl ObjectHead {
    /// Reads the head at the front of `bytes`, which stand at `position`; `None` when it is not all there. Each byte is judged
    /// as soon as it is there.
    // spec: NT4-OBJ-1
    pub(super) fn parse(
        container: Container,
        bytes: &[u8],
        position: u64,
    ) -> Result<Option<Self>, ReadError> {
        let begin = match container {
            Container::NetPerf3 => TAG_BEGIN,
            Container::NetTrace4 => TAG_BEGIN_PRIVATE,
        };
        for (index, expected) in [begin, begin, TAG_NULL].into_iter().enumerate() {
            let Some(&found) = bytes.get(index) else { return Ok(None) };
            expect_tag(expected, found, position + index as u64)?;
        }
        let mut cursor = Cursor::new(&bytes[3..]);
        let (Ok(version), Ok(least_reader), Ok(name_bytes)) = (cursor.u32(), cursor.u32(), cursor.i32())
        else {
            return Ok(None);
        };
        let name_bytes = usize::try_from(name_bytes)
            .ok()
            .filter(|length| *length <= MAX_NAME_BYTES)
            .ok_or_else(|| ReadError::BadSize {
                what: "object name length",
                value: i64::from(name_bytes),
                at_byte: position + 11,
            })?;
        let Ok(name) = cursor.bytes(name_bytes) else { return Ok(None) };
        let kind = ObjectKind::from_name(container, name).ok_or_else(|| ReadError::UnknownObject {
            name: String::from_utf8_lossy(name).into_owned(),
            at_byte: position + 15,
        })?;
        check_version(container, kind, version, least_reader, position + 3)?;
        let Ok(end) = cursor.u8() else { return Ok(None) };
        expect_tag(TAG_END, end, position + 15 + name_bytes as u64)?;
        Ok(Some(Self { kind, bytes: 16 + name_bytes }))
    }

    /// Where the body lies in `bytes`, once the closing tag behind it is there too.
    // spec: NT4-BLOCK-1
    pub(super) fn body(&self, bytes: &[u8], position: u64) -> Result<Option<Range<usize>>, ReadError> {
        let body = if self.kind == ObjectKind::Trace {
            self.bytes..self.bytes + TRACE_BODY_BYTES
        } else {
            let Ok(said) = Cursor::new(&bytes[self.bytes..]).i32() else { return Ok(None) };
            let size_at = position + self.bytes as u64;
            let size =
                usize::try_from(said).ok().filter(|size| *size <= MAX_BLOCK_BYTES).ok_or_else(|| {
                    ReadError::BadSize { what: "block size", value: i64::from(said), at_byte: size_at }
                })?;
            let start = self.bytes + 4 + padding_bytes(size_at + 4);
            start..start + size
        };
        let Some(&found) = bytes.get(body.end) else { return Ok(None) };
        expect_tag(TAG_END, found, position + body.end as u64)?;
        Ok(Some(body))
    }

    /// The Trace object whose complete body [`ObjectHead::body`] has found, and its length in bytes.
    pub(super) fn trace_info(&self, bytes: &[u8]) -> (TraceInfo, usize) {
        let body =
            bytes[self.bytes..].first_chunk().expect("invariant: body() has found the closing tag behind it");
        (TraceInfo::from_bytes(body), self.bytes + TRACE_BODY_BYTES + 1)
    }
}

fn check_version(
    container: Container,
    kind: ObjectKind,
    version: u32,
    least_reader: u32,
    at_byte: u64,
) -> Result<(), ReadError> {
    let fits = match (container, kind) {
        (Container::NetPerf3, ObjectKind::Trace) => version == 3 && least_reader <= 3,
        (Container::NetPerf3, _) => version <= 1 && least_reader <= 1,
        (Container::NetTrace4, ObjectKind::Trace) => matches!(version, 4 | 5) && least_reader <= 5,
        (Container::NetTrace4, _) => least_reader <= 2,
    };
    let what = if kind == ObjectKind::Trace { "format" } else { kind.name() };
    if fits { Ok(()) } else { Err(ReadError::UnsupportedVersion { what, version, at_byte }) }
}

fn expect_tag(expected: u8, found: u8, at_byte: u64) -> Result<(), ReadError> {
    if found == expected { Ok(()) } else { Err(ReadError::BadTag { expected, found, at_byte }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec-test: NT4-OBJ-1
    // spec-test: NT4-BLOCK-1
    #[test]
    fn v05_head_of_a_real_event_block() {
        // At offset 0x1b1: the head, size 251, one zero byte so that the body starts at 0x1d0.
        let mut bytes = b"\x05\x05\x01\x02\0\0\0\x02\0\0\0\x0a\0\0\0EventBlock\x06\xfb\0\0\0\0".to_vec();
        for cut in 0..26 {
            let head = ObjectHead::parse(Container::NetTrace4, &bytes[..cut], 0x1b1);
            assert!(matches!(head, Ok(None)), "{cut} bytes: {head:?}");
        }
        let head = ObjectHead::parse(Container::NetTrace4, &bytes, 0x1b1).unwrap().unwrap();
        assert_eq!((head.kind, head.bytes), (ObjectKind::EventBlock, 26));
        assert_eq!(head.body(&bytes, 0x1b1), Ok(None));
        bytes.resize(31 + 251, 0xEE);
        assert_eq!(head.body(&bytes, 0x1b1), Ok(None), "the closing tag is missing");
        bytes.push(TAG_END);
        assert_eq!(head.body(&bytes, 0x1b1), Ok(Some(0x1d0 - 0x1b1..0x1d0 - 0x1b1 + 251)));
    }
}

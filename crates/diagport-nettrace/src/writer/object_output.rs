//! The bytes of the stream that the caller has not taken yet: head, Trace object, then whole blocks.

use crate::TraceInfo;
use crate::framing::{
    BLOCK_VERSION, MAGIC, SEQUENCE_POINT_BLOCK_NAME, SIGNATURE, TAG_BEGIN_PRIVATE, TAG_END, TAG_NULL,
    TRACE_NAME, TRACE_VERSION, padding_bytes,
};

/// The most that a block adds to what is in it: type object, size, padding, end.
const OBJECT_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct ObjectOutput {
    bytes: Vec<u8>,
    /// Bytes of the stream that have left `bytes`. Alignment counts from the first byte of the stream.
    cleared_bytes: u64,
}

impl ObjectOutput {
    // spec: NT4-HEAD-1
    pub(super) fn new(info: &TraceInfo) -> Self {
        let mut output = Self { bytes: Vec::new(), cleared_bytes: 0 };
        output.bytes.extend_from_slice(MAGIC);
        output.bytes.extend_from_slice(&size_field(SIGNATURE.len()));
        output.bytes.extend_from_slice(SIGNATURE);
        output.begin_object(TRACE_NAME, TRACE_VERSION);
        output.bytes.extend_from_slice(&info.to_bytes());
        output.put_tag(TAG_END);
        output
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.cleared_bytes += self.bytes.len() as u64;
        self.bytes.clear();
    }

    pub(super) fn put_tag(&mut self, tag: u8) {
        self.bytes.push(tag);
    }

    // spec: NT4-OBJ-1
    fn begin_object(&mut self, name: &str, version: u32) {
        self.bytes.extend_from_slice(&[TAG_BEGIN_PRIVATE, TAG_BEGIN_PRIVATE, TAG_NULL]);
        self.bytes.extend_from_slice(&version.to_le_bytes());
        self.bytes.extend_from_slice(&version.to_le_bytes());
        self.bytes.extend_from_slice(&size_field(name.len()));
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(TAG_END);
    }

    /// One block whose body is the parts in a row.
    pub(super) fn put_block(&mut self, name: &str, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if self.bytes.len() < bytes {
            // Exact: whoever takes the output after each batch never needs more. Doubling is for those who let it grow.
            self.bytes.reserve_exact(bytes + OBJECT_BYTES);
        }
        self.begin_object(name, BLOCK_VERSION);
        self.bytes.extend_from_slice(&size_field(bytes));
        self.pad();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.put_tag(TAG_END);
    }

    // spec: NT4-SP-1
    pub(super) fn put_sequence_point(&mut self, ticks: i64, threads: impl IntoIterator<Item = (u64, u32)>) {
        self.begin_object(SEQUENCE_POINT_BLOCK_NAME, BLOCK_VERSION);
        let size_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.pad();
        let body_at = self.bytes.len();
        self.bytes.extend_from_slice(&ticks.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        let mut count = 0_u32;
        for (capture_thread, sequence) in threads {
            self.bytes.extend_from_slice(&capture_thread.to_le_bytes());
            self.bytes.extend_from_slice(&sequence.to_le_bytes());
            count += 1;
        }
        let size = size_field(self.bytes.len() - body_at);
        self.bytes[size_at..size_at + 4].copy_from_slice(&size);
        self.bytes[body_at + 8..body_at + 12].copy_from_slice(&count.to_le_bytes());
        self.put_tag(TAG_END);
    }

    // spec: NT4-BLOCK-1
    fn pad(&mut self) {
        let position = self.cleared_bytes + self.bytes.len() as u64;
        self.bytes.extend_from_slice(&[0; 3][..padding_bytes(position)]);
    }
}

pub(super) fn size_field(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).expect("invariant: a block holds about 100 KB or one definition").to_le_bytes()
}

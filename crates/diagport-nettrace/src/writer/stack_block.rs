//! The open StackBlock and the ids of the region since the last sequence point.

use super::object_output::size_field;
use super::stack_table::StackTable;
use crate::framing::MAX_BLOB_BYTES;

#[derive(Debug)]
pub(super) struct StackBlock {
    bytes: Vec<u8>,
    count: u32,
    table: StackTable,
    /// By far the most frequent stack needs no hash.
    empty_id: Option<u32>,
}

impl StackBlock {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), count: 0, table: StackTable::new(), empty_id: None }
    }

    /// The id if this is the empty stack or the same as the last one.
    #[inline]
    pub(super) fn recent_id(&self, frames: &[u64]) -> Option<u32> {
        if frames.is_empty() { self.empty_id } else { self.table.recent_id(frames) }
    }

    pub(super) fn id_of(&mut self, frames: &[u64]) -> Option<u32> {
        if frames.is_empty() { self.empty_id } else { self.table.id_of(frames) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn cache_bytes(&self) -> usize {
        self.table.bytes()
    }

    pub(super) fn is_full_for(&self, stack_bytes: usize) -> bool {
        self.count > 0 && self.bytes.len() + 4 + stack_bytes >= MAX_BLOB_BYTES
    }

    pub(super) fn push(&mut self, frames: &[u64], pointer_size: usize) -> u32 {
        self.bytes.extend_from_slice(&size_field(frames.len() * pointer_size));
        for frame in frames {
            self.bytes.extend_from_slice(&frame.to_le_bytes()[..pointer_size]);
        }
        self.count += 1;
        let id = self.table.push(frames);
        if frames.is_empty() {
            self.empty_id = Some(id);
        }
        id
    }

    // spec: NT4-STACK-2
    pub(super) fn header(&self) -> [u8; 8] {
        let mut header = [0; 8];
        header[0..4].copy_from_slice(&(self.table.last_id() + 1 - self.count).to_le_bytes());
        header[4..8].copy_from_slice(&self.count.to_le_bytes());
        header
    }

    pub(super) fn restart(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    pub(super) fn forget(&mut self) {
        self.restart();
        self.table.clear();
        self.empty_id = None;
    }
}

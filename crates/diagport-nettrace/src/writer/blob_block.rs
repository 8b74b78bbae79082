//! An open EventBlock or MetadataBlock.

use crate::EventRow;
use crate::blob_header::{BlobHeader, HEADER_ROOM_BYTES, MAX_HEADER_BYTES};
use crate::framing::{BLOCK_HEADER_BYTES, FLAG_COMPRESSED, MAX_BLOB_BYTES};

/// What a block takes at first; it grows from there and keeps what it has.
const FIRST_ROOM_BYTES: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct BlobBlock {
    /// Initialised memory, so that a header is written in place with stores of constant size; the first `used` bytes are
    /// the blobs.
    room: Vec<u8>,
    used: usize,
    previous: BlobHeader,
    min_ticks: i64,
    max_ticks: i64,
}

impl BlobBlock {
    pub(super) fn new() -> Self {
        Self {
            room: Vec::new(),
            used: 0,
            previous: BlobHeader::ZERO,
            min_ticks: i64::MAX,
            max_ticks: i64::MIN,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn bytes_used(&self) -> usize {
        self.used
    }

    pub(super) fn blobs(&self) -> &[u8] {
        &self.room[..self.used]
    }

    #[inline]
    pub(super) fn is_full_for(&self, payload_bytes: usize) -> bool {
        self.used + MAX_HEADER_BYTES + payload_bytes >= MAX_BLOB_BYTES && self.used > 0
    }

    /// Readers look the capture thread up only at the first event of a block and at sorted ones.
    // spec: NT4-ORDER-2
    #[inline]
    pub(super) fn splits_before(&self, next: &EventRow<'_>) -> bool {
        !next.sorted && self.used > 0 && self.previous.capture_thread != next.capture_thread
    }

    /// Takes an event that differs from the one before only as most do, if there is room for it; whether it did.
    ///
    /// Never the first of a block: its metadata id is not that of [`BlobHeader::ZERO`].
    #[inline(always)]
    pub(super) fn push_usual(&mut self, row: &EventRow<'_>) -> bool {
        // The room of an event block is never larger than a full block.
        let needed = self.used + HEADER_ROOM_BYTES + row.payload.len();
        let Some(room) = self.room.get_mut(self.used..needed) else { return false };
        let Some((header, header_bytes)) = self.previous.usual_step(row) else { return false };
        room[..header.len()].copy_from_slice(&header);
        copy_payload(row.payload, &mut room[header_bytes..]);
        self.used += header_bytes + row.payload.len();
        // It is not older than the one before, so not the oldest.
        self.max_ticks = self.max_ticks.max(row.ticks);
        true
    }

    #[inline(always)]
    pub(super) fn push(&mut self, header: &BlobHeader, payload: &[u8]) {
        let needed = self.used + HEADER_ROOM_BYTES + payload.len();
        if self.room.len() < needed {
            self.grow(needed);
        }
        let room = &mut self.room[self.used..];
        let head = room.first_chunk_mut().expect("invariant: the room is as large as needed");
        let header_bytes = self.previous.step(header, head);
        copy_payload(payload, &mut room[header_bytes..]);
        self.used += header_bytes + payload.len();
        self.min_ticks = self.min_ticks.min(header.ticks);
        self.max_ticks = self.max_ticks.max(header.ticks);
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let doubled = (2 * self.room.len()).clamp(FIRST_ROOM_BYTES, MAX_BLOB_BYTES);
        self.room.resize(needed.max(doubled), 0);
    }

    pub(super) fn header(&self) -> [u8; BLOCK_HEADER_BYTES as usize] {
        block_header(self.min_ticks, self.max_ticks)
    }

    pub(super) fn restart(&mut self) {
        *self = Self { room: std::mem::take(&mut self.room), ..Self::new() };
    }
}

/// Copies to the front of `to`. Short ones as two halves of constant size that overlap, without a call.
#[inline(always)]
fn copy_payload(payload: &[u8], to: &mut [u8]) {
    let to = &mut to[..payload.len()];
    if !(copy_halves::<32>(payload, to) || copy_halves::<16>(payload, to) || copy_halves::<8>(payload, to)) {
        to.copy_from_slice(payload);
    }
}

/// For `N` to 2 `N` bytes.
#[inline(always)]
fn copy_halves<const N: usize>(from: &[u8], to: &mut [u8]) -> bool {
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else { return false };
    if from.len() > 2 * N {
        return false;
    }
    to[..N].copy_from_slice(first);
    to[from.len() - N..].copy_from_slice(last);
    true
}

// spec: NT4-BLOCK-2
pub(super) fn block_header(min_ticks: i64, max_ticks: i64) -> [u8; BLOCK_HEADER_BYTES as usize] {
    let mut header = [0; BLOCK_HEADER_BYTES as usize];
    header[0..2].copy_from_slice(&BLOCK_HEADER_BYTES.to_le_bytes());
    header[2..4].copy_from_slice(&FLAG_COMPRESSED.to_le_bytes());
    header[4..12].copy_from_slice(&min_ticks.to_le_bytes());
    header[12..20].copy_from_slice(&max_ticks.to_le_bytes());
    header
}

//! The compressed header in front of every event and definition: only what differs from the header before it.

use crate::varuint::{self, VaruintError};
use crate::{EventRow, UNKNOWN_PROCESSOR};

/// Longest compressed header, in bytes.
pub const MAX_HEADER_BYTES: usize = 88;
/// What [`BlobHeader::step`] writes into; short numbers are stored two bytes at a time, so it is more than a header takes.
pub(crate) const HEADER_ROOM_BYTES: usize = MAX_HEADER_BYTES + 8;
/// What [`BlobHeader::usual_step`] gives: at most three bytes in one store.
pub(crate) const USUAL_HEADER_ROOM_BYTES: usize = 4;

const METADATA_ID: u8 = 0x01;
const CAPTURE: u8 = 0x02;
const THREAD_ID: u8 = 0x04;
const STACK_ID: u8 = 0x08;
const ACTIVITY_ID: u8 = 0x10;
const RELATED_ACTIVITY_ID: u8 = 0x20;
const SORTED: u8 = 0x40;
const PAYLOAD_BYTES: u8 = 0x80;

/// The header of one blob, and at the same time the state the next header is a difference to.
///
/// Every block starts from [`BlobHeader::ZERO`]; nothing else resets the state.
// spec: NT4-BLOB-1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHeader {
    /// Metadata id; 0 for a definition.
    pub metadata_id: u32,
    /// Sequence number of the capture thread, modulo 2^32.
    pub sequence: u32,
    /// The thread whose buffer the event was in.
    pub capture_thread: u64,
    /// The thread the event is about.
    pub thread_id: u64,
    /// Processor, or 0xFFFFFFFF for unknown.
    pub processor: u32,
    /// Stack id; 0 is none.
    pub stack_id: u32,
    /// Ticks of the trace's clock.
    pub ticks: i64,
    /// Activity id, all zero for none.
    pub activity_id: [u8; 16],
    /// Related activity id, all zero for none.
    pub related_activity_id: [u8; 16],
    /// No later event of the stream is older.
    pub sorted: bool,
    /// Payload length in bytes.
    pub payload_bytes: u32,
}

impl BlobHeader {
    /// The state at the start of every block.
    pub const ZERO: Self = Self {
        metadata_id: 0,
        sequence: 0,
        capture_thread: 0,
        thread_id: 0,
        processor: 0,
        stack_id: 0,
        ticks: 0,
        activity_id: [0; 16],
        related_activity_id: [0; 16],
        sorted: false,
        payload_bytes: 0,
    };

    /// The sequence number a blob of that metadata id has when it says nothing: definitions do not step it.
    fn implied_sequence(previous: &Self, metadata_id: u32) -> u32 {
        previous.sequence.wrapping_add(u32::from(metadata_id != 0))
    }

    /// Appends this header as the difference to `previous`.
    pub fn encode(&self, previous: &Self, out: &mut Vec<u8>) {
        let (mut state, mut bytes) = (*previous, [0; HEADER_ROOM_BYTES]);
        let length = state.step(self, &mut bytes);
        out.extend_from_slice(&bytes[..length]);
    }

    /// If `row` differs from this as most events of a run do, becomes the header of `row`: the difference, and its length in
    /// bytes. That is the next number of the same capture thread, sorted, soon after, and all else as it is.
    // A branch for each field: joined into one test, the compiler loads neighbouring fields as a vector, which has to wait
    // until each store of the caller into them is in the cache; that costs as much as all the rest.
    #[inline(always)]
    pub(crate) fn usual_step(
        &mut self,
        row: &EventRow<'_>,
    ) -> Option<([u8; USUAL_HEADER_ROOM_BYTES], usize)> {
        let ticks = (row.ticks as u64).wrapping_sub(self.ticks as u64);
        let sequence = Self::implied_sequence(self, row.metadata_id);
        if row.sequence != sequence
            || row.capture_thread != self.capture_thread
            || row.metadata_id != self.metadata_id
            || row.thread_id != self.thread_id
            || row.processor != self.processor
            || row.payload.len() != self.payload_bytes as usize
            || row.stack_id != self.stack_id
            || row.activity_id != self.activity_id
            || row.related_activity_id != self.related_activity_id
            || !row.sorted
            || ticks >= varuint::TWO_BYTES_END
        {
            return None;
        }
        self.sequence = sequence;
        self.ticks = row.ticks;
        let (form, length) = varuint::short_form(ticks);
        Some(((u32::from(SORTED) | u32::from(form) << 8).to_le_bytes(), 1 + length))
    }

    /// Becomes `next` and writes the difference to the front of `bytes`; returns its length, at most [`MAX_HEADER_BYTES`].
    /// Bytes after it are overwritten with anything.
    // Fields are compared and moved one by one, never as a whole: a copy of the whole waits for the stores that made it.
    #[inline(always)]
    pub(crate) fn step(&mut self, next: &Self, bytes: &mut [u8; HEADER_ROOM_BYTES]) -> usize {
        let (mut flags, mut at) = (if next.sorted { SORTED } else { 0 }, 1);
        let implied = Self::implied_sequence(self, next.metadata_id);
        if next.metadata_id != self.metadata_id {
            flags |= METADATA_ID;
            at = varuint::put(bytes, at, u64::from(next.metadata_id));
            self.metadata_id = next.metadata_id;
        }
        if next.sequence != implied
            || next.capture_thread != self.capture_thread
            || next.processor != self.processor
        {
            flags |= CAPTURE;
            // Deltas wrap on purpose: a thread switch goes back in number and in time (spec: NT4-BLOB-2).
            let delta = next.sequence.wrapping_sub(self.sequence).wrapping_sub(1);
            at = varuint::put(bytes, at, u64::from(delta));
            at = varuint::put(bytes, at, next.capture_thread);
            at = put_processor(bytes, at, next.processor);
            (self.capture_thread, self.processor) = (next.capture_thread, next.processor);
        }
        self.sequence = next.sequence;
        if next.thread_id != self.thread_id {
            flags |= THREAD_ID;
            at = varuint::put(bytes, at, next.thread_id);
            self.thread_id = next.thread_id;
        }
        if next.stack_id != self.stack_id {
            flags |= STACK_ID;
            at = varuint::put(bytes, at, u64::from(next.stack_id));
            self.stack_id = next.stack_id;
        }
        at = varuint::put(bytes, at, (next.ticks as u64).wrapping_sub(self.ticks as u64));
        (self.ticks, self.sorted) = (next.ticks, next.sorted);
        if next.activity_id != self.activity_id {
            flags |= ACTIVITY_ID;
            at = put_array(bytes, at, &next.activity_id);
            self.activity_id = next.activity_id;
        }
        if next.related_activity_id != self.related_activity_id {
            flags |= RELATED_ACTIVITY_ID;
            at = put_array(bytes, at, &next.related_activity_id);
            self.related_activity_id = next.related_activity_id;
        }
        if next.payload_bytes != self.payload_bytes {
            flags |= PAYLOAD_BYTES;
            at = varuint::put(bytes, at, u64::from(next.payload_bytes));
            self.payload_bytes = next.payload_bytes;
        }
        bytes[0] = flags;
        at
    }

    /// Reads a header from the front of `bytes`: the header and its length in bytes.
    ///
    /// # Errors
    /// When the bytes end inside the header or a number is longer than its width allows.
    pub fn decode(previous: &Self, bytes: &[u8]) -> Result<(Self, usize), VaruintError> {
        let mut rest = bytes;
        let mut header = *previous;
        let [flags] = take_array(&mut rest)?;
        if flags & METADATA_ID != 0 {
            header.metadata_id = take_32(&mut rest)?;
        }
        // The metadata id of this blob decides whether the number steps, so it is read first (spec: NT4-BLOB-3).
        if flags & CAPTURE != 0 {
            header.sequence = previous.sequence.wrapping_add(take_32(&mut rest)?).wrapping_add(1);
            header.capture_thread = take_64(&mut rest)?;
            header.processor = take_32(&mut rest)?;
        } else {
            header.sequence = Self::implied_sequence(previous, header.metadata_id);
        }
        if flags & THREAD_ID != 0 {
            header.thread_id = take_64(&mut rest)?;
        }
        if flags & STACK_ID != 0 {
            header.stack_id = take_32(&mut rest)?;
        }
        header.ticks = (previous.ticks as u64).wrapping_add(take_64(&mut rest)?) as i64;
        if flags & ACTIVITY_ID != 0 {
            header.activity_id = take_array(&mut rest)?;
        }
        if flags & RELATED_ACTIVITY_ID != 0 {
            header.related_activity_id = take_array(&mut rest)?;
        }
        header.sorted = flags & SORTED != 0;
        if flags & PAYLOAD_BYTES != 0 {
            header.payload_bytes = take_32(&mut rest)?;
        }
        Ok((header, bytes.len() - rest.len()))
    }
}

/// Nearly always unknown, and that is a long number.
#[inline(always)]
fn put_processor(bytes: &mut [u8; HEADER_ROOM_BYTES], at: usize, processor: u32) -> usize {
    const UNKNOWN: [u8; 5] = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
    if processor != UNKNOWN_PROCESSOR {
        return varuint::put(bytes, at, u64::from(processor));
    }
    bytes[at..at + UNKNOWN.len()].copy_from_slice(&UNKNOWN);
    at + UNKNOWN.len()
}

fn put_array(bytes: &mut [u8], at: usize, array: &[u8; 16]) -> usize {
    bytes[at..at + 16].copy_from_slice(array);
    at + 16
}

fn take_32(rest: &mut &[u8]) -> Result<u32, VaruintError> {
    let (value, used) = varuint::decode_32(rest)?;
    *rest = &rest[used..];
    Ok(value)
}

fn take_64(rest: &mut &[u8]) -> Result<u64, VaruintError> {
    let (value, used) = varuint::decode_64(rest)?;
    *rest = &rest[used..];
    Ok(value)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], VaruintError> {
    let (head, tail) = rest.split_first_chunk().ok_or(VaruintError::Incomplete)?;
    *rest = tail;
    Ok(*head)
}

//! The compressed header in front of every event and definition: only what differs from the header before it.

use crate::varuint::{self, VaruintError};

/// Longest compressed header, in bytes.
pub const MAX_HEADER_BYTES: usize = 88;

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
    // Deltas wrap on purpose: a thread switch goes back in number and in time (spec: NT4-BLOB-2).
    pub fn encode(&self, previous: &Self, out: &mut Vec<u8>) {
        let mut bytes = [0; MAX_HEADER_BYTES];
        let (mut flags, mut at) = (0, 1);
        if self.metadata_id != previous.metadata_id {
            flags |= METADATA_ID;
            at = varuint::put(&mut bytes, at, u64::from(self.metadata_id));
        }
        if self.sequence != Self::implied_sequence(previous, self.metadata_id)
            || self.capture_thread != previous.capture_thread
            || self.processor != previous.processor
        {
            flags |= CAPTURE;
            let delta = self.sequence.wrapping_sub(previous.sequence).wrapping_sub(1);
            at = varuint::put(&mut bytes, at, u64::from(delta));
            at = varuint::put(&mut bytes, at, self.capture_thread);
            at = varuint::put(&mut bytes, at, u64::from(self.processor));
        }
        if self.thread_id != previous.thread_id {
            flags |= THREAD_ID;
            at = varuint::put(&mut bytes, at, self.thread_id);
        }
        if self.stack_id != previous.stack_id {
            flags |= STACK_ID;
            at = varuint::put(&mut bytes, at, u64::from(self.stack_id));
        }
        let delta = (self.ticks as u64).wrapping_sub(previous.ticks as u64);
        at = varuint::put(&mut bytes, at, delta);
        for (flag, id, before) in [
            (ACTIVITY_ID, &self.activity_id, &previous.activity_id),
            (RELATED_ACTIVITY_ID, &self.related_activity_id, &previous.related_activity_id),
        ] {
            if id != before {
                flags |= flag;
                bytes[at..at + 16].copy_from_slice(id);
                at += 16;
            }
        }
        if self.sorted {
            flags |= SORTED;
        }
        if self.payload_bytes != previous.payload_bytes {
            flags |= PAYLOAD_BYTES;
            at = varuint::put(&mut bytes, at, u64::from(self.payload_bytes));
        }
        bytes[0] = flags;
        out.extend_from_slice(&bytes[..at]);
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

//! A run of records of one thread, in the order they were written.

use std::mem::MaybeUninit;

use crate::chunk_memory::{ChunkMemory, Slab};
use crate::payload_space::PayloadSpace;

/// Bytes of an event's largest payload. Readers keep 16 bits, so one byte more would read as an empty payload.
pub const MAX_PAYLOAD_BYTES: usize = 65_535;

/// Frames of an event's deepest stack; deeper stacks are cut at their outer end.
pub const MAX_STACK_FRAMES: usize = 100;

/// ticks u64, attempt u64, event key u32, payload bytes u16, stack frames u8, flags u8
const HEADER_BYTES: usize = 24;
const HAS_ACTIVITY: u8 = 1;
const HAS_RELATED_ACTIVITY: u8 = 2;
const HAS_THREAD_ID: u8 = 4;

/// An event on its way into a lane.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Whatever number the caller knows the event's definition by; the buffer does not look at it.
    pub event_key: u32,
    /// At most [`MAX_PAYLOAD_BYTES`]; a longer one is a counted drop.
    pub payload: &'a [u8],
    /// None is the all-zero id.
    pub activity_id: Option<[u8; 16]>,
    /// None is the all-zero id.
    pub related_activity_id: Option<[u8; 16]>,
    /// The OS thread the event is about, where that is not the writing thread (a sampler's events).
    pub thread_id: Option<u64>,
    /// Return addresses, innermost first; at most [`MAX_STACK_FRAMES`] are kept.
    pub stack: &'a [u64],
}

impl<'a> Record<'a> {
    /// A record with a payload and nothing else.
    #[must_use]
    pub fn new(event_key: u32, payload: &'a [u8]) -> Self {
        Self { event_key, payload, activity_id: None, related_activity_id: None, thread_id: None, stack: &[] }
    }

    #[inline]
    fn frames(&self) -> &'a [u64] {
        &self.stack[..self.stack.len().min(MAX_STACK_FRAMES)]
    }

    /// Bytes that the record takes in a chunk.
    #[inline]
    pub(crate) fn encoded_bytes(&self) -> usize {
        HEADER_BYTES
            + self.payload.len()
            + 16 * usize::from(self.activity_id.is_some())
            + 16 * usize::from(self.related_activity_id.is_some())
            + 8 * usize::from(self.thread_id.is_some())
            + 8 * self.frames().len()
    }
}

/// An event as the reader finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRecord<'a> {
    /// The how-manieth attempt of its lane this was, from 1. A step of more than one is loss in between.
    pub attempt: u64,
    /// The stamp the producer gave it, in whatever unit.
    pub ticks: u64,
    /// See [`Record::event_key`].
    pub event_key: u32,
    /// See [`Record::thread_id`].
    pub thread_id: Option<u64>,
    /// All zero where none was given.
    pub activity_id: [u8; 16],
    /// All zero where none was given.
    pub related_activity_id: [u8; 16],
    /// Frames as little-endian u64, innermost first.
    pub stack_bytes: &'a [u8],
    /// The encoded fields.
    pub payload: &'a [u8],
}

/// A piece of a session's budget that one thread fills and the reader empties.
///
/// Its capacity is fixed when it is made: writing into it never allocates.
#[derive(Debug)]
pub struct Chunk {
    memory: ChunkMemory,
    read_at: usize,
}

impl Chunk {
    /// No chunk: nothing fits it.
    pub(crate) const NONE: Self = Self { memory: ChunkMemory::NONE, read_at: 0 };

    /// None where there is no memory.
    pub(crate) fn on_heap(capacity_bytes: usize) -> Option<Self> {
        Some(Self { memory: ChunkMemory::on_heap(capacity_bytes)?, read_at: 0 })
    }

    /// None where the slab has too little left.
    pub(crate) fn of_slab(slab: &mut Slab, capacity_bytes: usize) -> Option<Self> {
        Some(Self { memory: slab.cut(capacity_bytes)?, read_at: 0 })
    }

    #[inline]
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.memory.capacity()
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.memory.len()
    }

    #[inline]
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.memory.capacity() - self.memory.len() >= bytes
    }

    pub(crate) fn reset(&mut self) {
        self.memory.clear();
        self.read_at = 0;
    }

    #[inline]
    fn unread(&self) -> &[u8] {
        &self.memory.bytes()[self.read_at..]
    }

    /// The caller has checked that it [`fits`](Self::fits) and that the payload is within its limit.
    #[inline]
    pub(crate) fn push(&mut self, attempt: u64, ticks: u64, record: &Record<'_>) {
        debug_assert!(self.fits(record.encoded_bytes()) && record.payload.len() <= MAX_PAYLOAD_BYTES);
        let frames = record.frames();
        let flag = |present: bool, bit: u8| if present { bit } else { 0 };
        let flags = flag(record.activity_id.is_some(), HAS_ACTIVITY)
            | flag(record.related_activity_id.is_some(), HAS_RELATED_ACTIVITY)
            | flag(record.thread_id.is_some(), HAS_THREAD_ID);
        let header = header_of(attempt, ticks, record.event_key, record.payload.len(), frames.len(), flags);
        let out = &mut self.memory;
        out.append(&header);
        if flags != 0 || !frames.is_empty() {
            for id in [record.activity_id, record.related_activity_id].into_iter().flatten() {
                out.append(&id);
            }
            if let Some(thread_id) = record.thread_id {
                out.append(&thread_id.to_le_bytes());
            }
            for frame in frames {
                out.append(&frame.to_le_bytes());
            }
        }
        out.append(record.payload);
    }

    /// Encodes a record with nothing but a payload in place. False, and nothing is written, where it does not fit or its payload fails.
    #[allow(unsafe_code, reason = "the record is in memory that was not initialised")]
    #[inline(always)]
    pub(crate) fn push_in_place(
        &mut self,
        attempt: u64,
        ticks: u64,
        event_key: u32,
        encode: impl FnOnce(&mut PayloadSpace<'_>),
    ) -> bool {
        self.memory.prefetch();
        let Some((header, room)) = self.memory.spare().split_first_chunk_mut::<HEADER_BYTES>() else {
            return false;
        };
        let room_bytes = room.len().min(MAX_PAYLOAD_BYTES);
        let mut space = PayloadSpace::new(&mut room[..room_bytes]);
        encode(&mut space);
        let Some(payload_bytes) = space.used_bytes() else { return false };
        *header = header_of(attempt, ticks, event_key, payload_bytes, 0, 0).map(MaybeUninit::new);
        // SAFETY: the header is, just now, and so much of the room by the space's promise.
        unsafe { self.memory.extend_over(HEADER_BYTES + payload_bytes) };
        true
    }

    /// The stamp of the oldest unread record.
    #[inline]
    #[must_use]
    pub fn front_ticks(&self) -> Option<u64> {
        let header = self.unread().first_chunk::<HEADER_BYTES>()?;
        Some(u64::from_le_bytes(array_at(header, 0)))
    }

    /// The oldest unread record.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Option<StoredRecord<'_>> {
        let unread = self.unread();
        let header = unread.first_chunk::<HEADER_BYTES>()?;
        let payload_bytes = usize::from(u16::from_le_bytes(array_at(header, 20)));
        let mut stored = StoredRecord {
            ticks: u64::from_le_bytes(array_at(header, 0)),
            attempt: u64::from_le_bytes(array_at(header, 8)),
            event_key: u32::from_le_bytes(array_at(header, 16)),
            thread_id: None,
            activity_id: [0; 16],
            related_activity_id: [0; 16],
            stack_bytes: &[],
            payload: &[],
        };
        let (frames, flags) = (usize::from(header[22]), header[23]);
        let mut at = HEADER_BYTES;
        if flags | header[22] != 0 {
            if flags & HAS_ACTIVITY != 0 {
                stored.activity_id = array_at(unread, at);
                at += 16;
            }
            if flags & HAS_RELATED_ACTIVITY != 0 {
                stored.related_activity_id = array_at(unread, at);
                at += 16;
            }
            if flags & HAS_THREAD_ID != 0 {
                stored.thread_id = Some(u64::from_le_bytes(array_at(unread, at)));
                at += 8;
            }
            stored.stack_bytes = &unread[at..at + 8 * frames];
            at += 8 * frames;
        }
        stored.payload = &unread[at..at + payload_bytes];
        Some(stored)
    }

    /// Steps over the oldest unread record.
    #[inline]
    pub fn pop_front(&mut self) {
        let Some(header) = self.unread().first_chunk::<HEADER_BYTES>() else { return };
        let (frames, flags) = (usize::from(header[22]), header[23]);
        let ids = 16 * usize::from(flags & HAS_ACTIVITY != 0)
            + 16 * usize::from(flags & HAS_RELATED_ACTIVITY != 0)
            + 8 * usize::from(flags & HAS_THREAD_ID != 0);
        let payload_bytes = usize::from(u16::from_le_bytes(array_at(header, 20)));
        self.memory.prefetch_for_reading(self.read_at);
        self.read_at += HEADER_BYTES + ids + 8 * frames + payload_bytes;
    }

    /// Whether every record was read.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read_at == self.memory.len()
    }
}

#[inline(always)]
fn header_of(
    attempt: u64,
    ticks: u64,
    event_key: u32,
    payload_bytes: usize,
    frames: usize,
    flags: u8,
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&ticks.to_le_bytes());
    header[8..16].copy_from_slice(&attempt.to_le_bytes());
    header[16..20].copy_from_slice(&event_key.to_le_bytes());
    // Both are within their limits, by the callers.
    header[20..22].copy_from_slice(&(payload_bytes as u16).to_le_bytes());
    header[22] = frames as u8;
    header[23] = flags;
    header
}

#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes is an array of N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_went_in() {
        let deep: Vec<u64> = (0..150).collect();
        let record = Record {
            event_key: 7,
            payload: b"payload",
            activity_id: Some([1; 16]),
            related_activity_id: Some([2; 16]),
            thread_id: Some(99),
            stack: &deep,
        };
        let plain = Record::new(8, b"");
        let related = Record { related_activity_id: Some([3; 16]), ..plain };
        let mut chunk = Chunk::on_heap(4096).unwrap();
        for (attempt, record) in [(1, &record), (5, &plain), (6, &related)] {
            assert!(chunk.fits(record.encoded_bytes()));
            chunk.push(attempt, 1000 + attempt, record);
        }
        let stored = chunk.front().unwrap();
        assert_eq!(stored.stack_bytes.len(), 8 * MAX_STACK_FRAMES);
        assert_eq!(stored.stack_bytes[8..16], 1_u64.to_le_bytes());
        assert_eq!((stored.activity_id, stored.related_activity_id), ([1; 16], [2; 16]));
        assert_eq!((stored.thread_id, stored.payload), (Some(99), &b"payload"[..]));
        assert_eq!((stored.attempt, stored.ticks, stored.event_key), (1, 1001, 7));
        chunk.pop_front();
        let stored = chunk.front().unwrap();
        assert_eq!((stored.attempt, stored.event_key, stored.thread_id), (5, 8, None));
        assert_eq!((stored.activity_id, stored.payload, stored.stack_bytes), ([0; 16], &b""[..], &b""[..]));
        assert_eq!(chunk.front_ticks(), Some(1005));
        chunk.pop_front();
        let stored = chunk.front().unwrap();
        assert_eq!((stored.activity_id, stored.related_activity_id), ([0; 16], [3; 16]));
        chunk.pop_front();
        assert!(chunk.is_empty() && chunk.front().is_none() && chunk.front_ticks().is_none());
    }

    #[test]
    fn a_chunk_never_grows() {
        let mut chunk = Chunk::on_heap(100).unwrap();
        let capacity = chunk.capacity_bytes();
        let record = Record::new(0, b"12345678");
        let mut attempt = 0;
        while chunk.fits(record.encoded_bytes()) {
            attempt += 1;
            chunk.push(attempt, 0, &record);
        }
        assert_eq!(chunk.capacity_bytes(), capacity);
        assert_eq!(attempt, capacity as u64 / record.encoded_bytes() as u64);
    }
}

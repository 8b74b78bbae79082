//! A run of records of one thread, in the order they were written.

use std::collections::TryReserveError;

/// Bytes of an event's largest payload. Readers keep 16 bits, so one byte more would read as an empty payload.
pub const MAX_PAYLOAD_BYTES: usize = 65_535;

/// Frames of an event's deepest stack; deeper stacks are cut at their outer end.
pub const MAX_STACK_FRAMES: usize = 100;

/// length u32, event key u32, attempt u64, ticks i64, payload bytes u16, stack frames u8, flags u8
const HEADER_BYTES: usize = 28;
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

    fn frames(&self) -> &'a [u64] {
        &self.stack[..self.stack.len().min(MAX_STACK_FRAMES)]
    }

    /// Bytes that the record takes in a chunk.
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
    /// The stamp the producer gave it.
    pub ticks: i64,
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
    bytes: Vec<u8>,
    read_at: usize,
}

impl Chunk {
    pub(crate) fn with_capacity(capacity_bytes: usize) -> Result<Self, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(capacity_bytes)?;
        Ok(Self { bytes, read_at: 0 })
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() >= bytes
    }

    pub(crate) fn reset(&mut self) {
        self.bytes.clear();
        self.read_at = 0;
    }

    /// The caller has checked that it [`fits`](Self::fits) and that the payload is within its limit.
    pub(crate) fn push(&mut self, attempt: u64, ticks: i64, record: &Record<'_>) {
        let length = record.encoded_bytes();
        debug_assert!(self.fits(length) && record.payload.len() <= MAX_PAYLOAD_BYTES);
        let frames = record.frames();
        let flag = |present: bool, bit: u8| if present { bit } else { 0 };
        let flags = flag(record.activity_id.is_some(), HAS_ACTIVITY)
            | flag(record.related_activity_id.is_some(), HAS_RELATED_ACTIVITY)
            | flag(record.thread_id.is_some(), HAS_THREAD_ID);
        let out = &mut self.bytes;
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out.extend_from_slice(&record.event_key.to_le_bytes());
        out.extend_from_slice(&attempt.to_le_bytes());
        out.extend_from_slice(&ticks.to_le_bytes());
        out.extend_from_slice(&(record.payload.len() as u16).to_le_bytes());
        out.extend_from_slice(&[frames.len() as u8, flags]);
        for id in [record.activity_id, record.related_activity_id].into_iter().flatten() {
            out.extend_from_slice(&id);
        }
        if let Some(thread_id) = record.thread_id {
            out.extend_from_slice(&thread_id.to_le_bytes());
        }
        for frame in frames {
            out.extend_from_slice(&frame.to_le_bytes());
        }
        out.extend_from_slice(record.payload);
    }

    /// The stamp of the oldest unread record.
    #[must_use]
    pub fn front_ticks(&self) -> Option<i64> {
        let unread = &self.bytes[self.read_at..];
        (!unread.is_empty()).then(|| i64::from_le_bytes(array_at(unread, 16)))
    }

    /// The oldest unread record.
    #[must_use]
    pub fn front(&self) -> Option<StoredRecord<'_>> {
        let unread = &self.bytes[self.read_at..];
        if unread.is_empty() {
            return None;
        }
        let length = u32::from_le_bytes(array_at(unread, 0)) as usize;
        let payload_bytes = usize::from(u16::from_le_bytes(array_at(unread, 24)));
        let (frames, flags) = (usize::from(unread[26]), unread[27]);
        let mut at = HEADER_BYTES;
        let mut guid = |present: u8| {
            if flags & present == 0 {
                return [0; 16];
            }
            at += 16;
            array_at(unread, at - 16)
        };
        let (activity_id, related_activity_id) = (guid(HAS_ACTIVITY), guid(HAS_RELATED_ACTIVITY));
        let thread_id = (flags & HAS_THREAD_ID != 0).then(|| {
            at += 8;
            u64::from_le_bytes(array_at(unread, at - 8))
        });
        Some(StoredRecord {
            attempt: u64::from_le_bytes(array_at(unread, 8)),
            ticks: i64::from_le_bytes(array_at(unread, 16)),
            event_key: u32::from_le_bytes(array_at(unread, 4)),
            thread_id,
            activity_id,
            related_activity_id,
            stack_bytes: &unread[at..at + 8 * frames],
            payload: &unread[length - payload_bytes..length],
        })
    }

    /// Steps over the oldest unread record.
    pub fn pop_front(&mut self) {
        let unread = &self.bytes[self.read_at..];
        if !unread.is_empty() {
            self.read_at += u32::from_le_bytes(array_at(unread, 0)) as usize;
        }
    }

    /// Whether every record was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read_at == self.bytes.len()
    }
}

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
        let mut chunk = Chunk::with_capacity(4096).unwrap();
        for (attempt, record) in [(1, &record), (5, &plain), (6, &related)] {
            assert!(chunk.fits(record.encoded_bytes()));
            chunk.push(attempt, 1000 + attempt as i64, record);
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
        let mut chunk = Chunk::with_capacity(100).unwrap();
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

//! Counts the events of one event block by stepping over them: a few nanoseconds each, nothing of them is kept or understood.

const COMPRESSED: u8 = 1;
const METADATA_ID: u8 = 1;
const SEQUENCE: u8 = 1 << 1;
const THREAD_ID: u8 = 1 << 2;
const STACK_ID: u8 = 1 << 3;
const ACTIVITY: u8 = 1 << 4;
const RELATED_ACTIVITY: u8 = 1 << 5;
const PAYLOAD_SIZE: u8 = 1 << 7;
const ACTIVITY_BYTES: usize = 16;

/// How many events `block` holds, its own header included; `None` where its headers are not compressed or it ends within an event.
pub(crate) fn count(block: &[u8]) -> Option<u64> {
    let header = usize::from(u16::from_le_bytes(*block.first_chunk()?));
    let is_compressed = *block.get(2)? & COMPRESSED != 0;
    let mut walk = Walk { rest: block.get(header..).filter(|_| is_compressed)?, payload: 0 };
    let mut events = 0;
    while !walk.rest.is_empty() {
        walk.step()?;
        events += 1;
    }
    Some(events)
}

struct Walk<'a> {
    rest: &'a [u8],
    /// An event without a size of its own has that of the one before it.
    payload: usize,
}

impl Walk<'_> {
    #[inline]
    fn step(&mut self) -> Option<()> {
        let flags = *self.rest.first()?;
        self.skip(1)?;
        if flags & METADATA_ID != 0 {
            self.number()?;
        }
        if flags & SEQUENCE != 0 {
            // Sequence number, capture thread, processor.
            self.number()?;
            self.number()?;
            self.number()?;
        }
        for field in [THREAD_ID, STACK_ID] {
            if flags & field != 0 {
                self.number()?;
            }
        }
        // The time.
        self.number()?;
        for field in [ACTIVITY, RELATED_ACTIVITY] {
            if flags & field != 0 {
                self.skip(ACTIVITY_BYTES)?;
            }
        }
        if flags & PAYLOAD_SIZE != 0 {
            self.payload = usize::try_from(self.number()?).ok()?;
        }
        self.skip(self.payload)
    }

    #[inline]
    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    /// Seven bits a byte, the lowest first.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for (index, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Some(value);
            }
        }
        None
    }
}

//! Counts the blocks of a NetTrace stream as its bytes go by, and the events in them where that is wanted.

use crate::event_walk;

/// Magic, and the signature with its length.
const HEAD_BYTES: usize = 32;
const TAG_END_OF_STREAM: u8 = 1;
/// Three tags, two versions and the length of the name.
const OBJECT_BYTES: usize = 3 + 4 + 4 + 4;
/// What the Trace object holds, with its end tag.
const TRACE_BYTES: u64 = 48 + 1;

/// What a stream held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Event blocks.
    pub(crate) count: u64,
    /// What these hold, their own headers included.
    pub(crate) bytes: u64,
    /// Events in these, those of the engine itself included; 0 where they are not counted.
    pub(crate) events: u64,
    /// Did the end marker come, behind blocks that could all be read?
    pub(crate) complete: bool,
}

/// Sees a stream in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct BlockCounter {
    seen: Blocks,
    past_head: bool,
    /// Position of the stream behind `pending`.
    position: u64,
    /// The beginning of an object, as far as it has come.
    pending: Vec<u8>,
    /// Bytes that belong to the body of an object.
    skip: u64,
    /// The body of an event block that comes in pieces.
    body: Vec<u8>,
    /// Its size; 0 outside of one.
    body_bytes: usize,
    counts_events: bool,
    garbled: bool,
}

impl BlockCounter {
    /// Counts events too: a few nanoseconds for each.
    pub(crate) fn with_events() -> Self {
        Self { counts_events: true, ..Self::default() }
    }

    pub(crate) fn blocks(&self) -> Blocks {
        self.seen
    }

    pub(crate) fn feed(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if self.skip > 0 {
                let step = usize::try_from(self.skip).map_or(piece.len(), |skip| skip.min(piece.len()));
                piece = &piece[step..];
                self.skip -= step as u64;
                self.position += step as u64;
                continue;
            }
            if self.body_bytes > 0 {
                piece = self.take_body(piece);
                continue;
            }
            self.pending.push(piece[0]);
            self.position += 1;
            piece = &piece[1..];
            if self.take_object().is_some() {
                self.pending.clear();
            }
        }
    }

    /// What is left of `piece`. A body that is all there is not copied.
    fn take_body<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let (mine, rest) = piece.split_at(piece.len().min(self.body_bytes - self.body.len()));
        self.position += mine.len() as u64;
        if mine.len() == self.body_bytes {
            self.count_events(mine);
        } else {
            self.body.extend_from_slice(mine);
            if self.body.len() == self.body_bytes {
                let body = std::mem::take(&mut self.body);
                self.count_events(&body);
                self.body = body;
                self.body.clear();
            }
        }
        rest
    }

    fn count_events(&mut self, body: &[u8]) {
        match event_walk::count(body) {
            Some(events) => self.seen.events += events,
            None => self.garbled = true,
        }
        self.body_bytes = 0;
        // The end tag.
        self.skip = 1;
    }

    /// `None` while more bytes are needed.
    fn take_object(&mut self) -> Option<()> {
        let bytes = &self.pending;
        if !self.past_head {
            self.past_head = bytes.len() == HEAD_BYTES;
            return self.past_head.then_some(());
        }
        if bytes[0] == TAG_END_OF_STREAM {
            self.seen.complete = !self.garbled;
            return Some(());
        }
        let name_bytes = number(bytes.get(OBJECT_BYTES - 4..OBJECT_BYTES)?);
        // The name and the end tag of the type.
        let body = OBJECT_BYTES + usize::try_from(name_bytes).ok()? + 1;
        let name = bytes.get(OBJECT_BYTES..body)?;
        if name.starts_with(b"Trace") {
            self.skip = TRACE_BYTES;
            return Some(());
        }
        let size = number(bytes.get(body..body + 4)?);
        let padding = self.position.wrapping_neg() % 4;
        if name.starts_with(b"EventBlock") {
            self.seen.count += 1;
            self.seen.bytes += u64::from(size);
            if self.counts_events && size > 0 {
                self.skip = padding;
                self.body_bytes = usize::try_from(size).ok()?;
                return Some(());
            }
        }
        self.skip = padding + u64::from(size) + 1;
        Some(())
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

//! Writes a V4 stream, object by object, into one output buffer.

mod blob_block;
mod object_output;
mod stack_block;
mod stack_table;

use blob_block::{BlobBlock, block_header};
use object_output::ObjectOutput;
use stack_block::StackBlock;

use crate::blob_header::BlobHeader;
use crate::framing::{
    EVENT_BLOCK_NAME, MAX_EVENT_PAYLOAD_BYTES, MAX_STACK_BYTES, METADATA_BLOCK_NAME, STACK_BLOCK_NAME,
    TAG_NULL, UNKNOWN_PROCESSOR,
};
use crate::metadata_encode::encode_metadata;
use crate::{EventMetadata, TraceInfo};

/// An event with a payload of so many bytes or more gets a block of its own from [`Writer::event`].
pub const LARGE_PAYLOAD_BYTES: usize = 32 << 10;

/// One event as a writer takes it.
// spec: NT4-BLOB-1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRow<'a> {
    /// Id that [`Writer::define`] returned.
    pub metadata_id: u32,
    /// Number of the event on its capture thread: 1, 2, … modulo 2^32; a number left out is a lost event.
    pub sequence: u32,
    /// The capture thread id the numbers belong to.
    pub capture_thread: u64,
    /// The thread readers attribute the event to.
    pub thread_id: u64,
    /// Processor, or [`UNKNOWN_PROCESSOR`].
    pub processor: u32,
    /// Id that [`Writer::stack`] returned since the last sequence point, or 0 for none.
    pub stack_id: u32,
    /// Ticks of the trace's clock.
    pub ticks: i64,
    /// Activity id, all zero for none.
    pub activity_id: [u8; 16],
    /// Related activity id, all zero for none.
    pub related_activity_id: [u8; 16],
    /// Promise that no event written later is older. An event without it that changes the
    /// capture thread starts a new block.
    pub sorted: bool,
    /// Field values, at most [`MAX_EVENT_PAYLOAD_BYTES`].
    pub payload: &'a [u8],
}

/// Writer of one V4 stream.
///
/// The output grows by whole objects only, in batches Metadata, Stack, Event; take it with [`Writer::output`] and give it
/// back with [`Writer::clear_output`]. Nothing here blocks or fails; memory is three open blocks, the output, and one entry
/// for each distinct stack since the last sequence point; [`Writer::encoded_bytes`] and [`Writer::stack_cache_bytes`] say how
/// much, so that a caller with a limit can act.
#[derive(Debug)]
pub struct Writer {
    output: ObjectOutput,
    pointer_size: usize,
    max_frames: usize,
    metadata: BlobBlock,
    events: BlobBlock,
    stacks: StackBlock,
    last_metadata_id: u32,
    /// A definition is encoded here first, because its header holds its length.
    definition: Vec<u8>,
    ended: bool,
}

impl Writer {
    /// Starts a stream; its head and Trace object (102 bytes) are in the output at once.
    ///
    /// A pointer size other than 4 is taken as 8.
    // spec: NT4-HEAD-1
    pub fn new(info: &TraceInfo) -> Self {
        let pointer_size = if info.pointer_size == 4 { 4 } else { 8 };
        let info = TraceInfo { pointer_size: if pointer_size == 4 { 4 } else { 8 }, ..*info };
        Self {
            output: ObjectOutput::new(&info),
            pointer_size,
            max_frames: MAX_STACK_BYTES / pointer_size,
            metadata: BlobBlock::new(),
            events: BlobBlock::new(),
            stacks: StackBlock::new(),
            last_metadata_id: 0,
            definition: Vec::new(),
            ended: false,
        }
    }

    /// Defines an event and returns its metadata id: 1, 2, … A second call with an equal definition gives a second id, so
    /// the caller keeps the first.
    ///
    /// `ticks` and `thread_id` are those of the first event that uses it.
    // spec: NT4-META-5
    pub fn define(&mut self, metadata: &EventMetadata, ticks: i64, thread_id: u64) -> u32 {
        self.last_metadata_id += 1;
        let id = self.last_metadata_id;
        let mut payload = std::mem::take(&mut self.definition);
        payload.clear();
        encode_metadata(id, metadata, &mut payload);
        if self.metadata.is_full_for(payload.len()) {
            self.flush();
        }
        let header = BlobHeader {
            ticks,
            thread_id,
            processor: UNKNOWN_PROCESSOR,
            sorted: true,
            payload_bytes: payload.len() as u32, // size_field refuses more than 2 GB when the block is closed
            ..BlobHeader::ZERO
        };
        self.metadata.push(&header, &payload);
        self.definition = payload;
        id
    }

    /// Id of a stack, innermost frame first, valid until the next sequence point. An empty stack is a stack like any other.
    ///
    /// Frames that do not fit 65,527 bytes are left out at the outer end.
    // spec: NT4-STACK-1
    #[inline]
    pub fn stack(&mut self, frames: &[u64]) -> u32 {
        match self.stacks.recent_id(frames) {
            Some(id) => id,
            None => self.other_stack(frames),
        }
    }

    #[inline(never)]
    fn other_stack(&mut self, frames: &[u64]) -> u32 {
        let frames = &frames[..frames.len().min(self.max_frames)];
        if let Some(id) = self.stacks.id_of(frames) {
            return id;
        }
        if self.stacks.is_full_for(frames.len() * self.pointer_size) {
            self.flush();
        }
        self.stacks.push(frames, self.pointer_size)
    }

    /// Writes an event into the open block; a block that is full goes to the output first, with the blocks it needs. So does a
    /// payload of [`LARGE_PAYLOAD_BYTES`] or more, in a block of its own.
    ///
    /// A payload above [`MAX_EVENT_PAYLOAD_BYTES`] would corrupt readers, so such an event is left out; the hole in its
    /// thread's numbers then tells readers of the loss (NT4-LIMIT-2).
    #[inline]
    pub fn event(&mut self, row: &EventRow<'_>) {
        debug_assert!(!self.ended, "an event after the end of the stream");
        debug_assert!(
            row.metadata_id != 0 && row.metadata_id <= self.last_metadata_id,
            "an undefined metadata id"
        );
        if !self.events.push_usual(row) {
            self.push_other(row);
        }
    }

    // Kept out of line: what it needs on the stack would be the larger part of the usual event.
    #[inline(never)]
    fn push_other(&mut self, row: &EventRow<'_>) {
        if row.payload.len() > MAX_EVENT_PAYLOAD_BYTES {
            return;
        }
        let large = row.payload.len() >= LARGE_PAYLOAD_BYTES;
        if large || self.events.is_full_for(row.payload.len()) || self.events.splits_before(row) {
            self.flush();
        }
        let header = BlobHeader {
            metadata_id: row.metadata_id,
            sequence: row.sequence,
            capture_thread: row.capture_thread,
            thread_id: row.thread_id,
            processor: row.processor,
            stack_id: row.stack_id,
            ticks: row.ticks,
            activity_id: row.activity_id,
            related_activity_id: row.related_activity_id,
            sorted: row.sorted,
            payload_bytes: row.payload.len() as u32, // at most 65,535, checked above
        };
        if large {
            self.put_lone_event(&header, row.payload);
        } else {
            self.events.push(&header, row.payload);
        }
    }

    /// An event in a block of its own, laid into the output at once: its bytes are not held twice.
    #[cold]
    fn put_lone_event(&mut self, header: &BlobHeader, payload: &[u8]) {
        let mut head = block_header(header.ticks, header.ticks).to_vec();
        header.encode(&BlobHeader::ZERO, &mut head);
        self.output.put_block(EVENT_BLOCK_NAME, &[&head, payload]);
    }

    /// Closes the open blocks, writes a sequence point and forgets all stacks.
    ///
    /// `ticks` must be above those of every event so far and not above any later one; `threads` are pairs of capture thread
    /// id and the number of the last event that thread tried to write.
    // spec: NT4-SP-1
    pub fn sequence_point(&mut self, ticks: i64, threads: impl IntoIterator<Item = (u64, u32)>) {
        debug_assert!(!self.ended, "a sequence point after the end of the stream");
        self.flush();
        self.output.put_sequence_point(ticks, threads);
        self.stacks.forget();
    }

    /// Moves the open blocks to the output: Metadata, Stack, Event, each only if it holds something.
    // spec: NT4-ORDER-1
    pub fn flush(&mut self) {
        let Self { output, metadata, stacks, events, .. } = self;
        if !metadata.is_empty() {
            output.put_block(METADATA_BLOCK_NAME, &[&metadata.header(), metadata.blobs()]);
            metadata.restart();
        }
        if !stacks.is_empty() {
            output.put_block(STACK_BLOCK_NAME, &[&stacks.header(), stacks.bytes()]);
            stacks.restart();
        }
        if !events.is_empty() {
            output.put_block(EVENT_BLOCK_NAME, &[&events.header(), events.blobs()]);
            events.restart();
        }
    }

    /// Closes the open blocks and ends the stream. A second call does nothing. Write nothing after it.
    // spec: NT4-END-1
    pub fn finish(&mut self) {
        if !self.ended {
            self.flush();
            self.output.put_tag(TAG_NULL);
            self.ended = true;
        }
    }

    /// The bytes written since the last [`Writer::clear_output`]: whole objects only.
    pub fn output(&self) -> &[u8] {
        self.output.bytes()
    }

    /// Forgets the output after the caller has passed it on; the position in the stream keeps counting.
    pub fn clear_output(&mut self) {
        self.output.clear();
    }

    /// Bytes of the output and of the open blocks: about what comes out at the next flush.
    pub fn encoded_bytes(&self) -> usize {
        self.output.bytes().len()
            + self.metadata.bytes_used()
            + self.stacks.bytes().len()
            + self.events.bytes_used()
    }

    /// Memory, about, that the stacks since the last sequence point take so that each is written once. A sequence point frees it.
    pub fn stack_cache_bytes(&self) -> usize {
        self.stacks.cache_bytes()
    }

    /// True when something written is still in an open block, so that [`Writer::flush`] would add to the output.
    pub fn has_pending(&self) -> bool {
        !(self.metadata.is_empty() && self.events.is_empty() && self.stacks.is_empty())
    }
}

//! Writes a V4 stream, object by object, into one output buffer.

use std::collections::HashMap;

use crate::blob_header::{BlobHeader, MAX_HEADER_BYTES};
use crate::framing::{
    BLOCK_HEADER_BYTES, BLOCK_VERSION, EVENT_BLOCK_NAME, FLAG_COMPRESSED, MAGIC, MAX_BLOB_BYTES,
    MAX_EVENT_PAYLOAD_BYTES, MAX_STACK_BYTES, METADATA_BLOCK_NAME, SEQUENCE_POINT_BLOCK_NAME, SIGNATURE,
    STACK_BLOCK_NAME, TAG_BEGIN_PRIVATE, TAG_END, TAG_NULL, TRACE_NAME, TRACE_VERSION, UNKNOWN_PROCESSOR,
    padding_bytes,
};
use crate::metadata_encode::encode_metadata;
use crate::{EventMetadata, TraceInfo};

/// An event with a payload of so many bytes or more gets a block of its own from [`Writer::event`].
pub const LARGE_PAYLOAD_BYTES: usize = 32 << 10;
/// The most that a block adds to what is in it: type object, size, padding, end.
const OBJECT_BYTES: usize = 64;
/// What the map of stacks takes for each besides its frames, about.
const STACK_ENTRY_BYTES: usize = 80;

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
    output: Vec<u8>,
    /// Bytes of the stream that have left `output`. Alignment counts from the first byte of the stream.
    cleared_bytes: u64,
    pointer_size: usize,
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
        let mut writer = Self {
            output: Vec::new(),
            cleared_bytes: 0,
            pointer_size,
            metadata: BlobBlock::new(),
            events: BlobBlock::new(),
            stacks: StackBlock::new(),
            last_metadata_id: 0,
            definition: Vec::new(),
            ended: false,
        };
        writer.output.extend_from_slice(MAGIC);
        writer.output.extend_from_slice(&20_u32.to_le_bytes());
        writer.output.extend_from_slice(SIGNATURE);
        writer.begin_object(TRACE_NAME, TRACE_VERSION);
        let info = TraceInfo { pointer_size: if pointer_size == 4 { 4 } else { 8 }, ..*info };
        writer.output.extend_from_slice(&info.to_bytes());
        writer.output.push(TAG_END);
        writer
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
    pub fn stack(&mut self, frames: &[u64]) -> u32 {
        let frames = &frames[..frames.len().min(MAX_STACK_BYTES / self.pointer_size)];
        if let Some(id) = self.stacks.id_of(frames) {
            return id;
        }
        let bytes = frames.len() * self.pointer_size;
        if self.stacks.is_full_for(bytes) {
            self.flush();
        }
        self.stacks.push(frames, self.pointer_size)
    }

    /// Writes an event into the open block; a block that is full goes to the output first, with the blocks it needs. So does a
    /// payload of [`LARGE_PAYLOAD_BYTES`] or more, in a block of its own.
    ///
    /// A payload above [`MAX_EVENT_PAYLOAD_BYTES`] would corrupt readers, so such an event is left out; the hole in its
    /// thread's numbers then tells readers of the loss (NT4-LIMIT-2).
    pub fn event(&mut self, row: &EventRow<'_>) {
        debug_assert!(!self.ended, "an event after the end of the stream");
        debug_assert!(
            row.metadata_id != 0 && row.metadata_id <= self.last_metadata_id,
            "an undefined metadata id"
        );
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
    fn put_lone_event(&mut self, header: &BlobHeader, payload: &[u8]) {
        let mut head = block_header(header.ticks, header.ticks).to_vec();
        header.encode(&BlobHeader::ZERO, &mut head);
        self.put_block(EVENT_BLOCK_NAME, &[&head, payload]);
    }

    /// Closes the open blocks, writes a sequence point and forgets all stacks.
    ///
    /// `ticks` must be above those of every event so far and not above any later one; `threads` are pairs of capture thread
    /// id and the number of the last event that thread tried to write.
    // spec: NT4-SP-1
    pub fn sequence_point(&mut self, ticks: i64, threads: impl IntoIterator<Item = (u64, u32)>) {
        debug_assert!(!self.ended, "a sequence point after the end of the stream");
        self.flush();
        self.begin_object(SEQUENCE_POINT_BLOCK_NAME, BLOCK_VERSION);
        let size_at = self.output.len();
        self.output.extend_from_slice(&[0; 4]);
        self.pad();
        let body_at = self.output.len();
        self.output.extend_from_slice(&ticks.to_le_bytes());
        self.output.extend_from_slice(&[0; 4]);
        let mut count = 0_u32;
        for (capture_thread, sequence) in threads {
            self.output.extend_from_slice(&capture_thread.to_le_bytes());
            self.output.extend_from_slice(&sequence.to_le_bytes());
            count += 1;
        }
        let size = size_field(self.output.len() - body_at);
        self.output[size_at..size_at + 4].copy_from_slice(&size);
        self.output[body_at + 8..body_at + 12].copy_from_slice(&count.to_le_bytes());
        self.output.push(TAG_END);
        self.stacks.forget();
    }

    /// Moves the open blocks to the output: Metadata, Stack, Event, each only if it holds something.
    // spec: NT4-ORDER-1
    pub fn flush(&mut self) {
        let mut metadata = std::mem::take(&mut self.metadata);
        let mut stacks = std::mem::take(&mut self.stacks);
        let mut events = std::mem::take(&mut self.events);
        if !metadata.blobs.is_empty() {
            self.put_block(METADATA_BLOCK_NAME, &[&metadata.header(), &metadata.blobs]);
            metadata.restart();
        }
        if stacks.count > 0 {
            self.put_block(STACK_BLOCK_NAME, &[&stacks.header(), &stacks.bytes]);
            stacks.restart();
        }
        if !events.blobs.is_empty() {
            self.put_block(EVENT_BLOCK_NAME, &[&events.header(), &events.blobs]);
            events.restart();
        }
        (self.metadata, self.stacks, self.events) = (metadata, stacks, events);
    }

    /// Closes the open blocks and ends the stream. A second call does nothing. Write nothing after it.
    // spec: NT4-END-1
    pub fn finish(&mut self) {
        if !self.ended {
            self.flush();
            self.output.push(TAG_NULL);
            self.ended = true;
        }
    }

    /// The bytes written since the last [`Writer::clear_output`]: whole objects only.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Forgets the output after the caller has passed it on; the position in the stream keeps counting.
    pub fn clear_output(&mut self) {
        self.cleared_bytes += self.output.len() as u64;
        self.output.clear();
    }

    /// Bytes of the output and of the open blocks: about what comes out at the next flush.
    pub fn encoded_bytes(&self) -> usize {
        self.output.len() + self.metadata.blobs.len() + self.stacks.bytes.len() + self.events.blobs.len()
    }

    /// Memory, about, that the stacks since the last sequence point take so that each is written once. A sequence point frees it.
    pub fn stack_cache_bytes(&self) -> usize {
        self.stacks.cache_bytes
    }

    /// True when something written is still in an open block, so that [`Writer::flush`] would add to the output.
    pub fn has_pending(&self) -> bool {
        !self.metadata.blobs.is_empty() || !self.events.blobs.is_empty() || self.stacks.count > 0
    }

    // spec: NT4-OBJ-1
    fn begin_object(&mut self, name: &str, version: u32) {
        self.output.extend_from_slice(&[TAG_BEGIN_PRIVATE, TAG_BEGIN_PRIVATE, TAG_NULL]);
        self.output.extend_from_slice(&version.to_le_bytes());
        self.output.extend_from_slice(&version.to_le_bytes());
        self.output.extend_from_slice(&size_field(name.len()));
        self.output.extend_from_slice(name.as_bytes());
        self.output.push(TAG_END);
    }

    fn put_block(&mut self, name: &str, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if self.output.len() < bytes {
            // Exact: whoever takes the output after each batch never needs more. Doubling is for those who let it grow.
            self.output.reserve_exact(bytes + OBJECT_BYTES);
        }
        self.begin_object(name, BLOCK_VERSION);
        self.output.extend_from_slice(&size_field(bytes));
        self.pad();
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
        self.output.push(TAG_END);
    }

    // spec: NT4-BLOCK-1
    fn pad(&mut self) {
        let position = self.cleared_bytes + self.output.len() as u64;
        self.output.extend_from_slice(&[0; 3][..padding_bytes(position)]);
    }
}

fn size_field(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).expect("invariant: a block holds about 100 KB or one definition").to_le_bytes()
}

// spec: NT4-BLOCK-2
fn block_header(min_ticks: i64, max_ticks: i64) -> [u8; BLOCK_HEADER_BYTES as usize] {
    let mut header = [0; BLOCK_HEADER_BYTES as usize];
    header[0..2].copy_from_slice(&BLOCK_HEADER_BYTES.to_le_bytes());
    header[2..4].copy_from_slice(&FLAG_COMPRESSED.to_le_bytes());
    header[4..12].copy_from_slice(&min_ticks.to_le_bytes());
    header[12..20].copy_from_slice(&max_ticks.to_le_bytes());
    header
}

/// An open EventBlock or MetadataBlock.
#[derive(Debug, Default)]
struct BlobBlock {
    blobs: Vec<u8>,
    previous: Option<BlobHeader>,
    min_ticks: i64,
    max_ticks: i64,
}

impl BlobBlock {
    fn new() -> Self {
        Self::default()
    }

    fn is_full_for(&self, payload_bytes: usize) -> bool {
        !self.blobs.is_empty() && self.blobs.len() + MAX_HEADER_BYTES + payload_bytes >= MAX_BLOB_BYTES
    }

    /// Readers look the capture thread up only at the first event of a block and at sorted ones.
    // spec: NT4-ORDER-2
    fn splits_before(&self, row: &EventRow<'_>) -> bool {
        !row.sorted && self.previous.is_some_and(|previous| previous.capture_thread != row.capture_thread)
    }

    fn push(&mut self, header: &BlobHeader, payload: &[u8]) {
        match &self.previous {
            Some(previous) => {
                header.encode(previous, &mut self.blobs);
                self.min_ticks = self.min_ticks.min(header.ticks);
                self.max_ticks = self.max_ticks.max(header.ticks);
            }
            None => {
                header.encode(&BlobHeader::ZERO, &mut self.blobs);
                (self.min_ticks, self.max_ticks) = (header.ticks, header.ticks);
            }
        }
        self.blobs.extend_from_slice(payload);
        self.previous = Some(*header);
    }

    fn header(&self) -> [u8; BLOCK_HEADER_BYTES as usize] {
        block_header(self.min_ticks, self.max_ticks)
    }

    fn restart(&mut self) {
        self.blobs.clear();
        self.previous = None;
    }
}

/// The open StackBlock and the ids of the region since the last sequence point.
#[derive(Debug, Default)]
struct StackBlock {
    bytes: Vec<u8>,
    count: u32,
    /// Last id given out in this region; ids start at 1.
    last_id: u32,
    ids: HashMap<Box<[u64]>, u32>,
    /// By far the most frequent stack needs no hash.
    empty_id: Option<u32>,
    cache_bytes: usize,
}

impl StackBlock {
    fn new() -> Self {
        Self::default()
    }

    fn id_of(&self, frames: &[u64]) -> Option<u32> {
        if frames.is_empty() { self.empty_id } else { self.ids.get(frames).copied() }
    }

    fn is_full_for(&self, stack_bytes: usize) -> bool {
        self.count > 0 && self.bytes.len() + 4 + stack_bytes >= MAX_BLOB_BYTES
    }

    fn push(&mut self, frames: &[u64], pointer_size: usize) -> u32 {
        self.bytes.extend_from_slice(&size_field(frames.len() * pointer_size));
        for frame in frames {
            self.bytes.extend_from_slice(&frame.to_le_bytes()[..pointer_size]);
        }
        self.count += 1;
        self.last_id += 1;
        if frames.is_empty() {
            self.empty_id = Some(self.last_id);
        } else {
            self.ids.insert(frames.into(), self.last_id);
            self.cache_bytes += size_of_val(frames) + STACK_ENTRY_BYTES;
        }
        self.last_id
    }

    // spec: NT4-STACK-2
    fn header(&self) -> [u8; 8] {
        let mut header = [0; 8];
        header[0..4].copy_from_slice(&(self.last_id + 1 - self.count).to_le_bytes());
        header[4..8].copy_from_slice(&self.count.to_le_bytes());
        header
    }

    fn restart(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    fn forget(&mut self) {
        self.restart();
        self.last_id = 0;
        self.ids.clear();
        self.empty_id = None;
        self.cache_bytes = 0;
    }
}

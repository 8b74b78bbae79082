//! The content of blocks: blobs, stacks, sequence points.

use std::sync::Arc;

use super::object::ObjectKind;
use super::{Container, Entries, MAX_WATCHED_CLOCKS, OpenBlock, Reader, State, Step};
use crate::blob_header::BlobHeader;
use crate::cursor::{Cursor, OutOfBytes};
use crate::framing::{BLOCK_HEADER_BYTES, FLAG_COMPRESSED, UNKNOWN_PROCESSOR};
use crate::metadata_decode::{DecodedMetadata, decode_metadata};
use crate::warning::Warnings;
use crate::{Event, ReadError, Record, WarningKind};

/// A blob of any of the three forms.
pub(super) struct Blob<'a> {
    pub(super) header: BlobHeader,
    payload: &'a [u8],
    inline_stack: &'a [u8],
    /// From the start of this blob to the next.
    pub(super) bytes: usize,
}

impl Reader {
    /// Starts the block whose body of `body_bytes` is at the front of the input, with its closing tag behind it.
    pub(super) fn open_block(&mut self, kind: ObjectKind, body_bytes: usize) -> Result<Step, ReadError> {
        let at_byte = self.input.position();
        let end = at_byte + body_bytes as u64;
        let body = &self.input.rest()[..body_bytes];
        let (entries, header_bytes) = match kind {
            _ if self.container == Container::NetPerf3 => (Entries::NetPerfBlobs, 0),
            ObjectKind::SequencePointBlock => {
                let (record, spare) = sequence_point(body, at_byte)?;
                if spare > 0 {
                    self.warnings.push(end - spare, WarningKind::SpareBytes(spare));
                }
                self.input.consume(body_bytes + 1);
                return Ok(Step::Out(record));
            }
            ObjectKind::StackBlock => {
                let mut cursor = Cursor::new(body);
                let (Ok(next_id), Ok(said)) = (cursor.u32(), cursor.u32()) else {
                    return Err(malformed("a stack block shorter than its header", at_byte));
                };
                (Entries::Stacks { next_id, said, held: 0 }, 8)
            }
            ObjectKind::Trace | ObjectKind::EventBlock | ObjectKind::MetadataBlock => {
                blob_block_header(body, kind, at_byte, &mut self.warnings)?
            }
        };
        self.input.consume(header_bytes);
        self.state = State::Block(OpenBlock { entries, is_metadata: kind == ObjectKind::MetadataBlock, end });
        Ok(Step::Again)
    }

    /// The next entry of the open block.
    pub(super) fn block_entry(&mut self, block: OpenBlock) -> Result<Step, ReadError> {
        let at_byte = self.input.position();
        let left = usize::try_from(block.end - at_byte).expect("invariant: the block is in memory");
        let bytes = &self.input.rest()[..left];
        let (blob, entries) = match block.entries {
            Entries::Stacks { next_id, said, held } => {
                return self.stack_entry(block, left, next_id, said, held);
            }
            _ if left == 0 => return Ok(self.close_block()),
            Entries::CompressedBlobs(previous) => {
                let blob = compressed_blob(&previous, bytes, at_byte)?;
                let entries = Entries::CompressedBlobs(blob.header);
                (blob, entries)
            }
            Entries::UncompressedBlobs => (uncompressed_blob(bytes, at_byte)?, block.entries),
            Entries::NetPerfBlobs => (netperf_blob(bytes, at_byte)?, block.entries),
        };
        let defines = match block.entries {
            Entries::NetPerfBlobs => blob.header.metadata_id == 0,
            _ => block.is_metadata,
        };
        let (used, header) = (blob.bytes, blob.header);
        let record = if defines {
            let decoded = decode_metadata(blob.payload)
                .map_err(|_| malformed("a definition that ends inside its fixed part", at_byte))?;
            self.definition(decoded, at_byte)
        } else {
            let (payload, inline_stack) = (blob.payload.to_vec(), self.frames(blob.inline_stack));
            Record::Event(self.event(&header, payload, inline_stack, at_byte))
        };
        self.input.consume(used);
        self.state = State::Block(OpenBlock { entries, ..block });
        Ok(Step::Out(record))
    }

    fn close_block(&mut self) -> Step {
        self.input.consume(1);
        self.state = State::Objects;
        Step::Again
    }

    fn definition(&mut self, decoded: DecodedMetadata, at_byte: u64) -> Record {
        let id = decoded.id;
        if let Some(problem) = decoded.problem {
            self.warnings.push(at_byte, WarningKind::FieldList { id, problem });
        }
        let definition = Arc::new(decoded.definition);
        if self.definitions.insert(id, Arc::clone(&definition)).is_some() {
            self.warnings.push(at_byte, WarningKind::RedefinedMetadata(id));
        }
        Record::Metadata { id, definition }
    }

    fn event(
        &mut self,
        header: &BlobHeader,
        payload: Vec<u8>,
        inline_stack: Vec<u64>,
        at_byte: u64,
    ) -> Event {
        let definition = self.definitions.get(&header.metadata_id).unwrap_or_else(|| {
            self.warnings.push(at_byte, WarningKind::UndefinedMetadata(header.metadata_id));
            &self.undefined
        });
        let definition = Arc::clone(definition);
        self.watch_clock(header, at_byte);
        Event {
            definition,
            metadata_id: header.metadata_id,
            sequence: header.sequence,
            capture_thread: header.capture_thread,
            thread_id: header.thread_id,
            processor: header.processor,
            stack_id: header.stack_id,
            ticks: header.ticks,
            activity_id: header.activity_id,
            related_activity_id: header.related_activity_id,
            sorted: header.sorted,
            payload,
            inline_stack,
        }
    }

    pub(super) fn watch_clock(&mut self, header: &BlobHeader, at_byte: u64) {
        if self.clocks.len() >= MAX_WATCHED_CLOCKS && !self.clocks.contains_key(&header.capture_thread) {
            self.clocks.clear();
        }
        let capture_thread = header.capture_thread;
        if let Some(last) = self.clocks.insert(capture_thread, header.ticks)
            && header.ticks < last
        {
            let ticks = last.abs_diff(header.ticks);
            self.warnings.push(at_byte, WarningKind::ClockWentBack { capture_thread, ticks });
        }
    }

    fn frames(&self, bytes: &[u8]) -> Vec<u64> {
        bytes
            .chunks_exact(self.pointer_size)
            .map(|address| {
                let mut wide = [0; 8];
                wide[..address.len()].copy_from_slice(address);
                u64::from_le_bytes(wide)
            })
            .collect()
    }

    // spec: NT4-STACK-2
    fn stack_entry(
        &mut self,
        block: OpenBlock,
        left: usize,
        next_id: u32,
        said: u32,
        held: u32,
    ) -> Result<Step, ReadError> {
        let at_byte = self.input.position();
        if held == said || left == 0 {
            if held != said {
                self.warnings.push(at_byte, WarningKind::StackCount { said, held });
            }
            if left > 0 {
                self.warnings.push(at_byte, WarningKind::SpareBytes(left as u64));
            }
            self.input.consume(left);
            return Ok(self.close_block());
        }
        let mut cursor = Cursor::new(&self.input.rest()[..left]);
        let size =
            cursor.i32().map_err(|OutOfBytes| malformed("a stack that ends past its block", at_byte))?;
        let bytes = usize::try_from(size)
            .ok()
            .filter(|size| size.is_multiple_of(self.pointer_size))
            .and_then(|size| cursor.bytes(size).ok())
            .ok_or_else(|| ReadError::BadSize { what: "stack size", value: i64::from(size), at_byte })?;
        let frames = self.frames(bytes);
        self.input.consume(4 + frames.len() * self.pointer_size);
        let entries = Entries::Stacks { next_id: next_id.wrapping_add(1), said, held: held + 1 };
        self.state = State::Block(OpenBlock { entries, ..block });
        Ok(Step::Out(Record::Stack { id: next_id, frames }))
    }
}

fn malformed(what: &'static str, at_byte: u64) -> ReadError {
    ReadError::Malformed { what, at_byte }
}

// spec: NT4-BLOCK-2
fn blob_block_header(
    body: &[u8],
    kind: ObjectKind,
    at_byte: u64,
    warnings: &mut Warnings,
) -> Result<(Entries, usize), ReadError> {
    let mut cursor = Cursor::new(body);
    let (Ok(header_bytes), Ok(flags)) = (cursor.u16(), cursor.u16()) else {
        return Err(malformed("a block shorter than its header", at_byte));
    };
    let length = usize::from(header_bytes);
    if header_bytes < BLOCK_HEADER_BYTES || length > body.len() {
        return Err(ReadError::BadSize {
            what: "block header size",
            value: i64::from(header_bytes),
            at_byte,
        });
    }
    if header_bytes != BLOCK_HEADER_BYTES {
        warnings.push(at_byte, WarningKind::OddBlockHeader(header_bytes));
    }
    if length == body.len() && kind == ObjectKind::EventBlock {
        warnings.push(at_byte, WarningKind::EmptyEventBlock);
    }
    // The two times of the header are no filter: known writers state them wrongly (spec: NT4-READ-4).
    let entries = if flags & FLAG_COMPRESSED == 0 {
        Entries::UncompressedBlobs
    } else {
        Entries::CompressedBlobs(BlobHeader::ZERO)
    };
    Ok((entries, length))
}

/// The record, and the bytes behind its last entry.
// spec: NT4-SP-1
fn sequence_point(body: &[u8], at_byte: u64) -> Result<(Record, u64), ReadError> {
    let mut cursor = Cursor::new(body);
    let (Ok(ticks), Ok(said)) = (cursor.i64(), cursor.u32()) else {
        return Err(malformed("a sequence point shorter than its header", at_byte));
    };
    let entry_bytes = 12;
    if said as usize > cursor.remaining() / entry_bytes {
        return Err(ReadError::BadSize {
            what: "thread count",
            value: i64::from(said),
            at_byte: at_byte + 8,
        });
    }
    let mut threads = Vec::with_capacity(said as usize);
    for _ in 0..said {
        let (Ok(capture_thread), Ok(sequence)) = (cursor.u64(), cursor.u32()) else {
            return Err(malformed("a sequence point that ends inside a thread", at_byte));
        };
        threads.push((capture_thread, sequence));
    }
    Ok((Record::SequencePoint { ticks, threads }, cursor.remaining() as u64))
}

pub(super) fn compressed_blob<'a>(
    previous: &BlobHeader,
    bytes: &'a [u8],
    at_byte: u64,
) -> Result<Blob<'a>, ReadError> {
    let (header, header_bytes) = BlobHeader::decode(previous, bytes)
        .map_err(|_| malformed("a compressed header that does not fit its block", at_byte))?;
    let payload = bytes[header_bytes..]
        .get(..header.payload_bytes as usize)
        .ok_or_else(|| malformed("a payload that ends past its block", at_byte))?;
    Ok(Blob { header, payload, inline_stack: &[], bytes: header_bytes + payload.len() })
}

/// Steps by the blob's own size, because some writers pad it.
// spec: NT4-BLOB-5
fn uncompressed_blob(bytes: &[u8], at_byte: u64) -> Result<Blob<'_>, ReadError> {
    let parse = || {
        let mut whole = Cursor::new(bytes);
        let size = whole.u32()? as usize;
        let mut cursor = Cursor::new(whole.bytes(size)?);
        let id_and_flag = cursor.u32()?;
        let mut header = BlobHeader {
            metadata_id: id_and_flag & 0x7FFF_FFFF,
            sorted: id_and_flag & 0x8000_0000 == 0, // the set bit means NOT sorted
            sequence: cursor.u32()?,
            thread_id: cursor.u64()?,
            capture_thread: cursor.u64()?,
            processor: cursor.u32()?,
            stack_id: cursor.u32()?,
            ticks: cursor.i64()?,
            activity_id: cursor.array()?,
            related_activity_id: cursor.array()?,
            payload_bytes: 0,
        };
        header.payload_bytes = cursor.u32()?;
        let payload = cursor.bytes(header.payload_bytes as usize)?;
        Ok(Blob { header, payload, inline_stack: &[], bytes: 4 + size })
    };
    parse().map_err(|OutOfBytes| malformed("an uncompressed event that does not fit its block", at_byte))
}

// spec: NT4-V3-1
fn netperf_blob(bytes: &[u8], at_byte: u64) -> Result<Blob<'_>, ReadError> {
    let parse = || {
        let mut whole = Cursor::new(bytes);
        let size = whole.u32()? as usize;
        let mut cursor = Cursor::new(whole.bytes(size)?);
        let metadata_id = cursor.u32()?;
        let thread_id = u64::from(cursor.u32()?);
        let mut header = BlobHeader {
            metadata_id,
            capture_thread: thread_id,
            thread_id,
            processor: UNKNOWN_PROCESSOR,
            ticks: cursor.i64()?,
            activity_id: cursor.array()?,
            related_activity_id: cursor.array()?,
            sorted: true,
            ..BlobHeader::ZERO
        };
        header.payload_bytes = cursor.u32()?;
        let payload = cursor.bytes(header.payload_bytes as usize)?;
        let stack_bytes = cursor.u32()?;
        let inline_stack = cursor.bytes(stack_bytes as usize)?;
        Ok(Blob { header, payload, inline_stack, bytes: 4 + size })
    };
    parse().map_err(|OutOfBytes| malformed("an event that does not fit its block", at_byte))
}

//! Reads V3, V4 and V5 streams as their bytes arrive.

mod blob;
mod input;
mod object;
mod skim;

use std::collections::HashMap;
use std::sync::Arc;

use crate::blob_header::BlobHeader;
use crate::framing::{HEAD_BYTES, MAGIC, SIGNATURE, TAG_NULL};
use crate::warning::Warnings;
use crate::{Completion, EventMetadata, ReadError, Record, Warning, WarningKind};
use input::Input;
use object::{ObjectHead, ObjectKind};

/// Threads whose clock is watched at once; above it the watch starts anew, which can only miss a warning.
const MAX_WATCHED_CLOCKS: usize = 16_384;

/// Incremental reader: feed bytes in pieces of any size, pull records.
///
/// A record is handed out once its whole object is there, so a cut stream gives all its complete blocks and then
/// [`Completion::Truncated`]. Memory is the largest block plus the definitions. Nothing is allocated by a number in the
/// stream before the bytes it speaks of have arrived.
///
/// ```
/// use diagport_nettrace::{Completion, Reader, Record, TraceInfo, UtcTime, Writer};
///
/// let info = TraceInfo { start_utc: UtcTime::from_unix_millis(0), sync_ticks: 1, tick_frequency: 1_000_000_000,
///     pointer_size: 8, process_id: 1, processor_count: 1, sampling_period_ns: 1_000_000 };
/// let writer = Writer::new(&info);
/// let mut reader = Reader::new();
/// reader.feed(writer.output());
/// assert_eq!(reader.next_record()?, Some(Record::Trace(info)));
/// assert_eq!(reader.next_record()?, None); // needs more bytes
/// assert_eq!(reader.finish(), Completion::Truncated { at_byte: 102 });
/// # Ok::<(), diagport_nettrace::ReadError>(())
/// ```
// spec: NT4-READ-1
#[derive(Debug)]
pub struct Reader {
    input: Input,
    state: State,
    container: Container,
    pointer_size: usize,
    trace_seen: bool,
    definitions: HashMap<u32, Arc<EventMetadata>>,
    undefined: Arc<EventMetadata>,
    clocks: HashMap<u64, i64>,
    warnings: Warnings,
}

#[derive(Debug)]
enum State {
    Head,
    Objects,
    /// Inside a block that is completely there.
    Block(OpenBlock),
    Ended,
    Failed(ReadError),
}

/// A block whose entries are being handed out.
#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    entries: Entries,
    /// Its blobs are definitions.
    is_metadata: bool,
    /// Stream offset of the closing tag.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
enum Entries {
    CompressedBlobs(BlobHeader),
    UncompressedBlobs,
    NetPerfBlobs,
    Stacks { next_id: u32, said: u32, held: u32 },
}

/// The two object framings this reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    NetPerf3,
    NetTrace4,
}

/// Result of one step: go on, hand out, or wait for bytes.
enum Step {
    Again,
    Out(Record),
    NeedBytes,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A reader at the first byte of a stream.
    pub fn new() -> Self {
        Self {
            input: Input::default(),
            state: State::Head,
            container: Container::NetTrace4,
            pointer_size: 8,
            trace_seen: false,
            definitions: HashMap::new(),
            undefined: Arc::default(),
            clocks: HashMap::new(),
            warnings: Warnings::default(),
        }
    }

    /// Adds the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        match self.state {
            State::Ended => self.trailing(bytes.len() as u64),
            State::Failed(_) => self.input.skip_fed(bytes.len() as u64),
            _ => self.input.feed(bytes),
        }
    }

    /// The next record, or `None` when more bytes are needed or the stream has ended.
    ///
    /// # Errors
    /// [`ReadError`] at the place the stream cannot be read further; every later call gives the same error.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let step = match &self.state {
                State::Head => self.head(),
                State::Objects => self.object(),
                State::Block(block) => {
                    let block = *block;
                    self.block_entry(block)
                }
                State::Ended => return Ok(None),
                State::Failed(error) => return Err(error.clone()),
            };
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Out(record)) => return Ok(Some(record)),
                Ok(Step::NeedBytes) => return Ok(None),
                Err(error) => {
                    self.state = State::Failed(error.clone());
                    self.input.drop_rest();
                    return Err(error);
                }
            }
        }
    }

    /// True after the end marker.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Says how the stream ended, when no more bytes will come. Pull all records first.
    pub fn finish(&self) -> Completion {
        if self.is_ended() {
            Completion::Complete
        } else {
            Completion::Truncated { at_byte: self.input.fed_bytes() }
        }
    }

    /// What was odd so far; the first [`crate::MAX_KEPT_WARNINGS`] are kept.
    pub fn warnings(&self) -> &[Warning] {
        self.warnings.kept()
    }

    /// Number of warnings so far, also of those that were not kept.
    pub fn warning_count(&self) -> u64 {
        self.warnings.total()
    }

    // spec: NT4-READ-5
    fn head(&mut self) -> Result<Step, ReadError> {
        let bytes = self.input.rest();
        let netperf = [&20_u32.to_le_bytes()[..], &SIGNATURE[..]].concat();
        if let Some(at) = first_difference(bytes, MAGIC) {
            if let Some(at) = first_difference(bytes, &netperf).map(|other| other.max(at)) {
                return Err(ReadError::BadBeginning { at_byte: at as u64 });
            }
            if bytes.len() < netperf.len() {
                return Ok(Step::NeedBytes);
            }
            self.container = Container::NetPerf3;
            self.input.consume(netperf.len());
            self.state = State::Objects;
            return Ok(Step::Again);
        }
        let Some(&after_magic) = bytes.get(MAGIC.len()..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Ok(Step::NeedBytes);
        };
        if after_magic == [0; 4] {
            let Some(&major) = bytes[12..].first_chunk::<4>() else { return Ok(Step::NeedBytes) };
            let version = u32::from_le_bytes(major);
            return Err(ReadError::UnsupportedVersion { what: "format", version, at_byte: 12 });
        }
        if let Some(at) = first_difference(&bytes[MAGIC.len()..], &netperf) {
            return Err(ReadError::BadBeginning { at_byte: (MAGIC.len() + at) as u64 });
        }
        if bytes.len() < HEAD_BYTES {
            return Ok(Step::NeedBytes);
        }
        self.input.consume(HEAD_BYTES);
        self.state = State::Objects;
        Ok(Step::Again)
    }

    fn object(&mut self) -> Result<Step, ReadError> {
        let at_byte = self.input.position();
        match self.input.rest().first() {
            None => return Ok(Step::NeedBytes),
            Some(&TAG_NULL) if self.trace_seen => {
                self.input.consume(1);
                self.state = State::Ended;
                let rest = self.input.rest().len() as u64;
                self.trailing(rest);
                self.input.drop_rest();
                return Ok(Step::Out(Record::End));
            }
            Some(_) => {}
        }
        let Some(head) = ObjectHead::parse(self.container, self.input.rest(), at_byte)? else {
            return Ok(Step::NeedBytes);
        };
        if (head.kind == ObjectKind::Trace) == self.trace_seen {
            return Err(ReadError::MisplacedTrace { at_byte });
        }
        let Some(body) = head.body(self.input.rest(), at_byte)? else { return Ok(Step::NeedBytes) };
        if head.kind == ObjectKind::Trace {
            return self.trace(&head);
        }
        self.input.consume(body.start);
        self.open_block(head.kind, body.len())
    }

    fn trace(&mut self, head: &ObjectHead) -> Result<Step, ReadError> {
        let at_byte = self.input.position() + head.bytes as u64;
        let (info, object_bytes) = head.trace_info(self.input.rest());
        if info.pointer_size != 4 && info.pointer_size != 8 {
            let value = i64::from(info.pointer_size);
            return Err(ReadError::BadSize { what: "pointer size", value, at_byte: at_byte + 32 });
        }
        if !info.start_utc.is_valid() {
            self.warnings.push(at_byte, WarningKind::OddStartTime(info.start_utc));
        }
        if info.tick_frequency <= 0 {
            self.warnings.push(at_byte + 24, WarningKind::OddTickFrequency(info.tick_frequency));
        }
        self.pointer_size = if info.pointer_size == 4 { 4 } else { 8 };
        self.trace_seen = true;
        self.input.consume(object_bytes);
        Ok(Step::Out(Record::Trace(info)))
    }

    fn trailing(&mut self, bytes: u64) {
        if bytes > 0 {
            if !self.warnings.kept().iter().any(|warning| warning.kind == WarningKind::TrailingBytes) {
                self.warnings.push(self.input.position(), WarningKind::TrailingBytes);
            }
            self.input.skip_fed(bytes);
        }
    }
}

/// First position where `bytes` and `pattern` differ, as far as both go.
fn first_difference(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.iter().zip(pattern).position(|(byte, wanted)| byte != wanted)
}

//! The stream of one session: what its drain writes, in order, and how it gets to the sink.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diagport_buffer::StoredRecord;
use diagport_nettrace::{
    EventMetadata, EventRow, Field, FieldType, LARGE_PAYLOAD_BYTES, TraceInfo, UNKNOWN_PROCESSOR, UtcTime,
    Writer,
};

use crate::capture_ids::{CaptureIds, CaptureNumber, CaptureOutput, CaptureThread, Holding};
use crate::clock::{TICK_FREQUENCY, ticks_of};
use crate::field::{EventFields, PayloadBuffer};
use crate::guarded_sink::GuardedSink;
use crate::process_info::process_info_metadata;
use crate::session::{EndReason, SessionCore};
use crate::session_config::{BufferingMode, StackWalk};
use crate::sink::Sink;
use crate::thread_state::os_thread_id;

/// Stream bytes between two sequence points, about.
const SEQUENCE_POINT_BYTES: u64 = 10 << 20;
/// The largest piece that goes to the sink at once, unless one event alone is larger. Below the size of a block, and an event that
/// gets a block of its own is a piece of its own: so a piece holds one event block, at its end, and a reader of a cut stream has all
/// events of a piece or none.
const MAX_PIECE_BYTES: usize = 96 << 10;
const MIN_PIECE_BYTES: usize = 4 << 10;
/// The most an event takes besides its payload and frames.
const EVENT_HEADER_BYTES: usize = 100;
/// Readers want a thread's name, not its story; and a piece must not be filled by one.
const MAX_NAME_CHARS: usize = 256;
/// How long one call of the sink may wait, and so how late a stop or an abort is noticed.
const SLICE: Duration = Duration::from_millis(50);
/// How long a call that takes nothing takes at least.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Encoder, numbering and sink of one session.
pub(crate) struct Stream {
    session: Arc<SessionCore>,
    ids: CaptureIds,
    /// The drain's own events: ProcessInfo and rundown.
    own: Holding,
    out: StreamOutput,
    sink: GuardedSink,
    /// Events of producers that are encoded and not yet taken by the sink.
    unsent_events: u64,
    bytes_since_point: u64,
    /// What is encoded is sent before it is larger.
    piece_bytes: usize,
    /// Memory for stacks that are written already; a sequence point frees it.
    stack_cache_bytes: usize,
}

/// The writer and what it needs to know of the past; the numbering writes through it too.
struct StreamOutput {
    writer: Writer,
    own_thread_id: u64,
    stack_walk: StackWalk,
    /// Index = event key; 0 is "not defined yet".
    metadata_ids: Vec<u32>,
    info_metadata_id: u32,
    frames: Vec<u64>,
    last_ticks: i64,
    /// No later event may be below: the last sequence point's time.
    floor_ticks: i64,
}

/// Asked once a process: the answer takes a walk through the control groups, which a stream's first byte would wait for.
fn processor_count() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u32))
}

impl Stream {
    /// Head of the stream and ProcessInfo, not sent yet.
    // spec: SES-STREAM-1
    pub(crate) fn new(session: Arc<SessionCore>, sink: Box<dyn Sink>) -> Self {
        let process = &session.pipe.process;
        let writer = Writer::new(&TraceInfo {
            start_utc: UtcTime::from_unix_millis(session.start_utc_millis),
            sync_ticks: session.start.ticks,
            tick_frequency: TICK_FREQUENCY,
            pointer_size: size_of::<usize>() as u32,
            process_id: process.process_id,
            processor_count: processor_count(),
            sampling_period_ns: 1_000_000,
        });
        let out = StreamOutput {
            writer,
            own_thread_id: os_thread_id(),
            stack_walk: session.config.stack_walk,
            metadata_ids: Vec::new(),
            info_metadata_id: 0,
            frames: Vec::new(),
            last_ticks: session.start.ticks,
            floor_ticks: session.start.ticks,
        };
        // spec: SES-MEMORY-1
        let part = session.buffer.budget_bytes() / 32;
        let mut stream = Self {
            ids: CaptureIds::new(),
            own: Holding::default(),
            out,
            sink: GuardedSink::new(sink),
            unsent_events: 0,
            bytes_since_point: 0,
            piece_bytes: part.clamp(MIN_PIECE_BYTES, MAX_PIECE_BYTES),
            stack_cache_bytes: part.max(MIN_PIECE_BYTES),
            session,
        };
        stream.process_info();
        stream
    }

    fn process_info(&mut self) {
        let mut payload = PayloadBuffer::new();
        let session = Arc::clone(&self.session);
        let process = &session.pipe.process;
        // A command line may be longer than an event; readers need its beginning.
        let cut = |text: &str, chars: usize| text.chars().take(chars).collect::<String>();
        let (system, architecture) = (&process.operating_system, &process.architecture);
        <(String, String, String)>::encode(
            &(
                &cut(&process.command_line, 8_000),
                &cut(system, MAX_NAME_CHARS),
                &cut(architecture, MAX_NAME_CHARS),
            ),
            &mut payload,
        );
        let metadata_id = self.out.define(&process_info_metadata());
        self.own_event(metadata_id, session.start.ticks, payload.payload().unwrap_or_default());
    }

    /// An event of the drain itself.
    fn own_event(&mut self, metadata_id: u32, ticks: i64, payload: &[u8]) {
        let thread_id = self.out.own_thread_id;
        let number = self.ids.event(&mut self.own, thread_id, &mut self.out);
        self.out.event(metadata_id, number, thread_id, ticks, payload);
    }

    pub(crate) fn rundown_event(&mut self, key: u32, metadata: &EventMetadata, ticks: i64, payload: &[u8]) {
        let metadata_id = self.out.metadata_id(key, || metadata.clone());
        self.own_event(metadata_id, ticks, payload);
    }

    /// An event of a producer.
    pub(crate) fn record(
        &mut self,
        holding: &mut Holding,
        os_thread_id: u64,
        record: &StoredRecord<'_>,
        ticks: i64,
    ) {
        let pipe = &self.session.pipe;
        let metadata_id =
            self.out.metadata_id(record.event_key, || pipe.event(record.event_key).metadata.clone());
        let thread_id = record.thread_id.unwrap_or(os_thread_id);
        let number = self.ids.event(holding, thread_id, &mut self.out);
        self.out.stored_event(metadata_id, number, thread_id, ticks, record);
        self.unsent_events += 1;
    }

    /// Loss of a producer, after what it has in the stream.
    pub(crate) fn loss(&mut self, holding: &mut Holding, thread: CaptureThread<'_>, lost: u64) {
        self.ids.lose(holding, thread, lost, &mut self.out);
    }

    pub(crate) fn release(&mut self, holding: &mut Holding) {
        self.ids.release(holding);
    }

    /// Whether what is encoded should be sent before this event of a producer.
    pub(crate) fn is_full_for(&self, record: &StoredRecord<'_>) -> bool {
        self.has_no_room(record.event_key, record.payload.len() + record.stack_bytes.len())
    }

    /// Whether what is encoded should be sent before such an event of the rundown.
    pub(crate) fn is_full_for_rundown(&self, key: u32, payload_bytes: usize) -> bool {
        self.has_no_room(key, payload_bytes)
    }

    /// Whether what is encoded should be sent before a small event of the drain itself.
    pub(crate) fn is_full(&self) -> bool {
        self.out.writer.encoded_bytes() >= self.piece_bytes
    }

    fn has_no_room(&self, key: u32, bytes: usize) -> bool {
        let encoded = self.out.writer.encoded_bytes();
        // A definition may be large, and a block that is full of them would end the event block too: it begins a piece.
        let begins_piece = self.unsent_events > 0 && !self.out.is_defined(key);
        // The writer has closed a block, or is about to: one more would be a second one in the piece.
        let is_closed = !self.out.writer.output().is_empty() || bytes >= LARGE_PAYLOAD_BYTES;
        encoded > 0 && (is_closed || encoded + bytes + EVENT_HEADER_BYTES > self.piece_bytes)
            || begins_piece
            || self.out.writer.stack_cache_bytes() > self.stack_cache_bytes
    }

    /// Sends the head of the stream and nothing else.
    ///
    /// # Errors
    /// The stream is cut for this reason.
    pub(crate) fn send_head(&mut self) -> Result<(), EndReason> {
        self.send_output()
    }

    /// Sends all that is encoded, as whole blocks, and a sequence point if one is due.
    ///
    /// # Errors
    /// The stream is cut for this reason.
    pub(crate) fn send(&mut self) -> Result<(), EndReason> {
        self.out.writer.flush();
        self.send_output()?;
        let stacks_are_many = self.out.writer.stack_cache_bytes() > self.stack_cache_bytes;
        if stacks_are_many || self.bytes_since_point >= SEQUENCE_POINT_BYTES {
            // spec: SES-STREAM-3
            let listed = self.ids.point();
            self.out.sequence_point(listed);
            self.bytes_since_point = 0;
            self.send_output()?;
        }
        Ok(())
    }

    /// Closing point, end tag, and all of it sent.
    ///
    /// # Errors
    /// The stream is cut for this reason.
    // spec: SES-STREAM-4
    pub(crate) fn end(&mut self) -> Result<(), EndReason> {
        self.send()?;
        let listed = self.ids.point();
        self.out.sequence_point(listed);
        self.out.writer.finish();
        self.send_output()
    }

    /// # Errors
    /// The sink panicked.
    pub(crate) fn peer_closed(&mut self) -> Result<bool, EndReason> {
        self.sink.peer_closed()
    }

    /// # Errors
    /// The sink panicked.
    pub(crate) fn close(self) -> Result<(), EndReason> {
        self.sink.close()
    }

    fn send_output(&mut self) -> Result<(), EndReason> {
        let Self { session, out, sink, .. } = self;
        send_all(session, sink, out.writer.output())?;
        self.bytes_since_point += out.writer.output().len() as u64;
        out.writer.clear_output();
        session.delivered.fetch_add(std::mem::take(&mut self.unsent_events), Ordering::AcqRel);
        Ok(())
    }
}

/// Gives `bytes` to the sink in slices, as long as its reader makes progress.
// spec: SES-STOP-3, SES-FAIL-1, SES-FAIL-2
fn send_all(session: &SessionCore, sink: &mut GuardedSink, mut bytes: &[u8]) -> Result<(), EndReason> {
    let clock = &session.pipe.time;
    let mut progress_ticks = clock.ticks();
    while !bytes.is_empty() {
        if session.is_cut() {
            return Err(session.stop_request().map_or(EndReason::PeerClosed, |stop| stop.reason));
        }
        let asked = Instant::now();
        let taken = match sink.write(bytes, SLICE)? {
            Ok(taken) => taken.min(bytes.len()),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => 0,
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                    return Err(EndReason::PeerClosed);
                }
                _ => return Err(EndReason::SinkFailed(error.to_string())),
            },
        };
        let now = clock.ticks();
        if taken > 0 {
            bytes = &bytes[taken..];
            progress_ticks = now;
            continue;
        }
        if sink.peer_closed()? {
            return Err(EndReason::PeerClosed);
        }
        // A sink that answers at once, against its contract, must not make this thread spin.
        std::thread::sleep(LEAST_WAIT.saturating_sub(asked.elapsed()));
        if let Some(stop) = session.is_stopping().then(|| session.stop_request()).flatten() {
            if now - progress_ticks.max(stop.at_ticks) >= ticks_of(session.config.stop_grace) {
                return Err(EndReason::StopGraceOver);
            }
        } else if session.config.buffering_mode == BufferingMode::Block
            && session.config.stall_limit.is_some_and(|limit| now - progress_ticks >= ticks_of(limit))
        {
            return Err(EndReason::Stalled);
        }
    }
    Ok(())
}

impl StreamOutput {
    /// The id of an event's definition, written now if this is its first use.
    fn metadata_id(&mut self, key: u32, metadata: impl FnOnce() -> EventMetadata) -> u32 {
        let index = key as usize;
        if self.metadata_ids.len() <= index {
            self.metadata_ids.resize(index + 1, 0);
        }
        if self.metadata_ids[index] == 0 {
            self.metadata_ids[index] = self.define(&metadata());
        }
        self.metadata_ids[index]
    }

    fn is_defined(&self, key: u32) -> bool {
        self.metadata_ids.get(key as usize).is_some_and(|id| *id != 0)
    }

    fn define(&mut self, metadata: &EventMetadata) -> u32 {
        self.writer.define(metadata, self.last_ticks, self.own_thread_id)
    }

    fn stored_event(
        &mut self,
        metadata_id: u32,
        number: CaptureNumber,
        thread_id: u64,
        ticks: i64,
        record: &StoredRecord<'_>,
    ) {
        self.frames.clear();
        if self.stack_walk == StackWalk::On {
            let frames = record.stack_bytes.as_chunks::<8>().0;
            self.frames.extend(frames.iter().map(|frame| u64::from_le_bytes(*frame)));
        }
        let row = self.row(metadata_id, number, thread_id, ticks, record.payload);
        self.writer.event(&EventRow {
            activity_id: record.activity_id,
            related_activity_id: record.related_activity_id,
            ..row
        });
    }

    fn event(&mut self, metadata_id: u32, number: CaptureNumber, thread_id: u64, ticks: i64, payload: &[u8]) {
        self.frames.clear();
        let row = self.row(metadata_id, number, thread_id, ticks, payload);
        self.writer.event(&row);
    }

    // spec: SES-STREAM-2
    fn row<'a>(
        &mut self,
        metadata_id: u32,
        CaptureNumber { id, number }: CaptureNumber,
        thread_id: u64,
        ticks: i64,
        payload: &'a [u8],
    ) -> EventRow<'a> {
        // Stamps come in order; a point inside a run of equal ones is the only case where this moves one, by a nanosecond.
        self.last_ticks = ticks.max(self.last_ticks).max(self.floor_ticks);
        EventRow {
            metadata_id,
            sequence: number,
            capture_thread: id,
            thread_id,
            processor: UNKNOWN_PROCESSOR,
            stack_id: self.writer.stack(&self.frames),
            ticks: self.last_ticks,
            activity_id: [0; 16],
            related_activity_id: [0; 16],
            sorted: true,
            payload,
        }
    }
}

impl CaptureOutput for StreamOutput {
    // spec: SES-NUM-7
    fn info_event(&mut self, number: CaptureNumber, thread: CaptureThread<'_>) {
        if self.info_metadata_id == 0 {
            self.info_metadata_id = self.define(&capture_thread_metadata());
        }
        let mut payload = PayloadBuffer::new();
        let name: String = thread.name.chars().take(MAX_NAME_CHARS).collect();
        <(u64, String)>::encode(&(thread.os_thread_id, &name), &mut payload);
        let payload = payload.payload().unwrap_or_default();
        self.event(self.info_metadata_id, number, thread.os_thread_id, self.last_ticks, payload);
    }

    fn sequence_point(&mut self, listed: Vec<(u64, u32)>) {
        let ticks = self.last_ticks.max(self.floor_ticks) + 1;
        self.floor_ticks = ticks;
        self.writer.sequence_point(ticks, listed);
    }
}

fn capture_thread_metadata() -> EventMetadata {
    let field = |name: &str, field_type| Field { name: name.to_owned(), field_type };
    EventMetadata {
        provider: "Diagport".to_owned(),
        event_id: 1,
        event_name: "CaptureThread".to_owned(),
        keywords: 0,
        version: 0,
        level: 4,
        opcode: 0,
        fields: vec![field("ThreadId", FieldType::Int64), field("Name", FieldType::String)],
    }
}

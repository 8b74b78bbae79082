//! NetTrace streams, sans-I/O: write V4, read V3 to V5, prove loss.
//!
//! ```text
//!  definitions, stacks, events ──▶ Writer ──▶ output(): whole objects
//!                                               │
//!             file, socket, memory: the caller moves the bytes
//!                                               │
//!                   Record, Record, …  ◀── Reader ◀── feed(): pieces of any size
//!                        │
//!            LossCounter · decode_payload · TextDump · JsonDump
//! ```
//!
//! What it does **not** do: no files, sockets, clocks or threads; no numbering of events, which is the drain's business; no
//! V6; no knowledge of particular providers; no symbols.
//!
//! The format is specified in `protocol-spec/nettrace-v4.md` (ids `NT4-*`), the proof of loss in `protocol-spec/loss.md`
//! (ids `LOSS-*`). A reader trusts nothing it reads: no count is believed before the bytes it speaks of are there.
//!
//! ```
//! use diagport_nettrace::{EventMetadata, EventRow, Field, FieldType, Reader, Record, TraceInfo, UtcTime, Writer};
//!
//! let info = TraceInfo {
//!     start_utc: UtcTime::from_unix_millis(1_796_000_000_000),
//!     sync_ticks: 1_000,
//!     tick_frequency: 1_000_000_000,
//!     pointer_size: 8,
//!     process_id: 4242,
//!     processor_count: 2,
//!     sampling_period_ns: 1_000_000,
//! };
//! let mut writer = Writer::new(&info);
//! let tick = EventMetadata {
//!     provider: "My-Provider".into(),
//!     event_id: 1,
//!     event_name: "Tick".into(),
//!     level: 4,
//!     fields: vec![Field::new("n", FieldType::Int32)],
//!     ..EventMetadata::default()
//! };
//! let metadata_id = writer.define(&tick, 2_000, 7);
//! let stack_id = writer.stack(&[]);
//! writer.event(&EventRow {
//!     metadata_id,
//!     sequence: 1,
//!     capture_thread: 1,
//!     thread_id: 7,
//!     processor: diagport_nettrace::UNKNOWN_PROCESSOR,
//!     stack_id,
//!     ticks: 2_000,
//!     activity_id: [0; 16],
//!     related_activity_id: [0; 16],
//!     sorted: true,
//!     payload: &42_i32.to_le_bytes(),
//! });
//! writer.sequence_point(2_001, [(1, 1)]);
//! writer.finish();
//!
//! let mut reader = Reader::new();
//! reader.feed(writer.output());
//! let mut events = 0;
//! while let Some(record) = reader.next_record()? {
//!     events += usize::from(matches!(record, Record::Event(_)));
//! }
//! assert_eq!((events, reader.is_ended()), (1, true));
//! # Ok::<(), diagport_nettrace::ReadError>(())
//! ```
#![forbid(unsafe_code)]

pub mod blob_header;
mod cursor;
mod event_metadata;
mod framing;
pub mod json;
mod loss;
mod metadata_decode;
mod metadata_encode;
mod payload;
mod read_error;
mod reader;
mod record;
pub mod text;
mod totals;
mod trace_info;
mod utc_time;
pub mod varuint;
mod warning;
mod writer;

pub use event_metadata::{EventMetadata, Field, FieldType};
pub use framing::{MAX_EVENT_PAYLOAD_BYTES, UNKNOWN_PROCESSOR};
pub use loss::LossCounter;
pub use metadata_decode::{
    DecodedMetadata, FieldListProblem, MAX_NESTED_TYPES, MetadataError, decode_metadata,
};
pub use metadata_encode::encode_metadata;
pub use payload::{PayloadError, Value, decode_payload};
pub use read_error::ReadError;
pub use reader::Reader;
pub use record::{Completion, Event, Record};
pub use totals::Totals;
pub use trace_info::TraceInfo;
pub use utc_time::UtcTime;
pub use warning::{MAX_KEPT_WARNINGS, Warning, WarningKind};
pub use writer::{EventRow, LARGE_PAYLOAD_BYTES, Writer};

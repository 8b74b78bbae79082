//! What a reader hands out.

use std::sync::Arc;

use crate::{EventMetadata, EventRow, TraceInfo};

/// One item of a stream, in stream order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The Trace object, always first.
    Trace(TraceInfo),
    /// A definition.
    Metadata {
        /// The id events name.
        id: u32,
        /// What it says.
        definition: Arc<EventMetadata>,
    },
    /// A stack, valid for the events up to the next sequence point.
    Stack {
        /// The id events name.
        id: u32,
        /// Addresses, innermost frame first.
        frames: Vec<u64>,
    },
    /// An event.
    Event(Event),
    /// A sequence point: all stacks are forgotten.
    SequencePoint {
        /// Later than every event before it.
        ticks: i64,
        /// Capture thread id and the number of the last event it tried to write.
        threads: Vec<(u64, u32)>,
    },
    /// The end marker; nothing follows.
    End,
}

/// An event that owns its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its definition; all empty when the stream has none (see [`crate::WarningKind::UndefinedMetadata`]).
    pub definition: Arc<EventMetadata>,
    /// Id of the definition.
    pub metadata_id: u32,
    /// Number on its capture thread; 0 in V3 streams, which have no numbers.
    pub sequence: u32,
    /// The thread whose buffer it was in.
    pub capture_thread: u64,
    /// The thread it is about.
    pub thread_id: u64,
    /// Processor, or 0xFFFFFFFF.
    pub processor: u32,
    /// Stack id, 0 for none. It may name a stack the stream never defined.
    pub stack_id: u32,
    /// Ticks of the trace's clock.
    pub ticks: i64,
    /// Activity id.
    pub activity_id: [u8; 16],
    /// Related activity id.
    pub related_activity_id: [u8; 16],
    /// The writer's promise that no later event is older.
    pub sorted: bool,
    /// Field values.
    pub payload: Vec<u8>,
    /// The stack itself where the format stores it with the event (V3); empty in V4.
    pub inline_stack: Vec<u64>,
}

impl Event {
    /// The event as a writer takes it.
    pub fn row(&self) -> EventRow<'_> {
        EventRow {
            metadata_id: self.metadata_id,
            sequence: self.sequence,
            capture_thread: self.capture_thread,
            thread_id: self.thread_id,
            processor: self.processor,
            stack_id: self.stack_id,
            ticks: self.ticks,
            activity_id: self.activity_id,
            related_activity_id: self.related_activity_id,
            sorted: self.sorted,
            payload: &self.payload,
        }
    }
}

/// How a stream ended for its reader.
// spec: NT4-READ-2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The end marker was read.
    Complete,
    /// The bytes stop before the end marker.
    Truncated {
        /// Where they stop: the number of bytes fed.
        at_byte: u64,
    },
}

impl std::fmt::Display for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::Truncated { at_byte } => write!(f, "truncated at byte {at_byte}"),
        }
    }
}

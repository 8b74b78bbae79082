//! One line of text for each record: what `convert --to text` prints and snapshot tests compare.
//!
//! The form is stable: names in quotes, numbers in decimal, addresses and ids of bits in hex, and only what the stream says.

use std::fmt::Write;

use crate::payload::{guid_text, members_text};
use crate::{Completion, Event, EventMetadata, Field, FieldType, Record, Totals, TraceInfo, decode_payload};

/// Writes records as text.
///
/// ```
/// use diagport_nettrace::{Completion, Record, text::TextDump};
///
/// let mut dump = TextDump::new();
/// let mut out = String::new();
/// dump.record(&Record::Stack { id: 1, frames: vec![0x7f00_0000_1000] }, &mut out);
/// dump.end(Completion::Truncated { at_byte: 160 }, &mut out);
/// assert_eq!(out, "stack 1 [0x7f0000001000]\n\
///     end truncated at byte 160: events=0 definitions=0 stacks=1 sequence_points=0 lost=0\n");
/// ```
#[derive(Debug, Default)]
pub struct TextDump {
    totals: Totals,
}

impl TextDump {
    /// Nothing written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the line of a record, with its line end. The end marker has none.
    pub fn record(&mut self, record: &Record, out: &mut String) {
        self.totals.record(record);
        match record {
            Record::Trace(info) => trace(info, out),
            Record::Metadata { id, definition } => metadata(*id, definition, out),
            Record::Stack { id, frames } => put(out, format_args!("stack {id} {}", frames_text(frames))),
            Record::Event(event) => event_line(event, out),
            Record::SequencePoint { ticks, threads } => {
                let threads: Vec<_> = threads.iter().map(|(id, number)| format!("{id}:{number}")).collect();
                put(out, format_args!("sequence_point ticks={ticks} threads=[{}]", threads.join(", ")));
            }
            Record::End => return,
        }
        out.push('\n');
    }

    /// Appends the last line: how the stream ended, and the totals.
    pub fn end(&self, completion: Completion, out: &mut String) {
        put(out, format_args!("end {completion}: {}\n", self.totals));
    }

    /// What has been counted so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("invariant: writing to a String cannot fail");
}

fn trace(info: &TraceInfo, out: &mut String) {
    put(
        out,
        format_args!(
            "trace start={} sync_ticks={} frequency={} pointer_size={} process={} processors={} sampling_ns={}",
            info.start_utc,
            info.sync_ticks,
            info.tick_frequency,
            info.pointer_size,
            info.process_id,
            info.processor_count,
            info.sampling_period_ns
        ),
    );
}

fn metadata(id: u32, definition: &EventMetadata, out: &mut String) {
    put(
        out,
        format_args!(
            "metadata {id} {:?}/{}/{:?} keywords={:#x} version={} level={} opcode={} {}",
            definition.provider,
            definition.event_id,
            definition.event_name,
            definition.keywords,
            definition.version,
            definition.level,
            definition.opcode,
            fields_text(&definition.fields)
        ),
    );
}

fn event_line(event: &Event, out: &mut String) {
    let definition = &event.definition;
    put(
        out,
        format_args!(
            "event {} {:?}/{}/{:?} ticks={} thread={} capture={} sequence={}",
            event.metadata_id,
            definition.provider,
            definition.event_id,
            definition.event_name,
            event.ticks,
            event.thread_id,
            event.capture_thread,
            event.sequence
        ),
    );
    if event.processor != crate::UNKNOWN_PROCESSOR {
        put(out, format_args!(" processor={}", event.processor));
    }
    put(out, format_args!(" stack={}", event.stack_id));
    if !event.inline_stack.is_empty() {
        put(out, format_args!("{}", frames_text(&event.inline_stack)));
    }
    for (name, id) in [("activity", &event.activity_id), ("related", &event.related_activity_id)] {
        if id != &[0; 16] {
            put(out, format_args!(" {name}={}", guid_text(id)));
        }
    }
    if event.sorted {
        out.push_str(" sorted");
    }
    if definition.fields.is_empty() {
        if !event.payload.is_empty() {
            put(out, format_args!(" payload={}", hex(&event.payload)));
        }
        return;
    }
    match decode_payload(&definition.fields, &event.payload) {
        Ok(values) => put(out, format_args!(" {}", members_text(&values))),
        Err(error) => put(out, format_args!(" payload={} ({error})", hex(&event.payload))),
    }
}

fn frames_text(frames: &[u64]) -> String {
    let frames: Vec<_> = frames.iter().map(|frame| format!("{frame:#x}")).collect();
    format!("[{}]", frames.join(", "))
}

fn fields_text(fields: &[Field]) -> String {
    let fields: Vec<_> =
        fields.iter().map(|field| format!("{:?}: {}", field.name, type_text(&field.field_type))).collect();
    format!("({})", fields.join(", "))
}

pub(crate) fn type_text(field_type: &FieldType) -> String {
    match field_type {
        FieldType::Array(element) => format!("Array<{}>", type_text(element)),
        FieldType::Object(members) => format!("Object{}", fields_text(members)),
        FieldType::Other(code) => format!("Other({code})"),
        plain => format!("{plain:?}"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        put(&mut text, format_args!("{byte:02x}"));
    }
    text
}

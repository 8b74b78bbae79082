//! One JSON object a line for each record: what `convert --to json` prints.
//!
//! The first member, `record`, names the kind. Values keep their field names and order; 64-bit numbers are JSON numbers with
//! all digits, times and GUIDs are text, NaN and infinities are text, payloads without fields are hex.

use std::fmt::Write;

use crate::payload::{filetime_text, guid_text};
use crate::text::{hex, type_text};
use crate::{Completion, Event, EventMetadata, Record, Totals, TraceInfo, Value, decode_payload};

/// Writes records as lines of JSON.
#[derive(Debug, Default)]
pub struct JsonDump {
    totals: Totals,
}

impl JsonDump {
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
            Record::Stack { id, frames } => {
                put(out, format_args!("{{\"record\":\"stack\",\"id\":{id},\"frames\":"));
                frames_list(frames, out);
            }
            Record::Event(event) => event_members(event, out),
            Record::SequencePoint { ticks, threads } => {
                put(out, format_args!("{{\"record\":\"sequence_point\",\"ticks\":{ticks},\"threads\":"));
                list(threads, out, |(id, number), out| {
                    put(out, format_args!("{{\"capture_thread\":{id},\"sequence\":{number}}}"));
                });
            }
            Record::End => return,
        }
        out.push_str("}\n");
    }

    /// Appends the last line: how the stream ended, and the totals.
    pub fn end(&self, completion: Completion, out: &mut String) {
        out.push_str("{\"record\":\"end\",");
        match completion {
            Completion::Complete => out.push_str("\"complete\":true"),
            Completion::Truncated { at_byte } => {
                put(out, format_args!("\"complete\":false,\"truncated_at_byte\":{at_byte}"));
            }
        }
        let totals = &self.totals;
        put(out, format_args!(",\"events\":{},\"definitions\":{}", totals.events, totals.definitions));
        put(out, format_args!(",\"stacks\":{}", totals.stacks));
        put(out, format_args!(",\"sequence_points\":{}", totals.sequence_points));
        put(out, format_args!(",\"lost\":{}}}\n", totals.loss.lost()));
    }

    /// What has been counted so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("invariant: writing to a String cannot fail");
}

fn list<T>(items: &[T], out: &mut String, mut item: impl FnMut(&T, &mut String)) {
    out.push('[');
    for (index, each) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        item(each, out);
    }
    out.push(']');
}

fn frames_list(frames: &[u64], out: &mut String) {
    list(frames, out, |frame, out| put(out, format_args!("\"{frame:#x}\"")));
}

fn trace(info: &TraceInfo, out: &mut String) {
    put(out, format_args!("{{\"record\":\"trace\",\"start_utc\":\"{}\"", info.start_utc));
    for (name, value) in [
        ("sync_ticks", info.sync_ticks),
        ("tick_frequency", info.tick_frequency),
        ("pointer_size", i64::from(info.pointer_size)),
        ("process_id", i64::from(info.process_id)),
        ("processor_count", i64::from(info.processor_count)),
        ("sampling_period_ns", i64::from(info.sampling_period_ns)),
    ] {
        put(out, format_args!(",\"{name}\":{value}"));
    }
}

fn names(definition: &EventMetadata, out: &mut String) {
    out.push_str(",\"provider\":");
    string(&definition.provider, out);
    put(out, format_args!(",\"event_id\":{},\"event_name\":", definition.event_id));
    string(&definition.event_name, out);
}

fn metadata(id: u32, definition: &EventMetadata, out: &mut String) {
    put(out, format_args!("{{\"record\":\"metadata\",\"id\":{id}"));
    names(definition, out);
    put(out, format_args!(",\"keywords\":{},\"version\":{}", definition.keywords, definition.version));
    put(out, format_args!(",\"level\":{},\"opcode\":{},\"fields\":", definition.level, definition.opcode));
    list(&definition.fields, out, |field, out| {
        out.push_str("{\"name\":");
        string(&field.name, out);
        out.push_str(",\"type\":");
        string(&type_text(&field.field_type), out);
        out.push('}');
    });
}

fn event_members(event: &Event, out: &mut String) {
    put(out, format_args!("{{\"record\":\"event\",\"metadata_id\":{}", event.metadata_id));
    names(&event.definition, out);
    put(out, format_args!(",\"ticks\":{},\"thread_id\":{}", event.ticks, event.thread_id));
    put(out, format_args!(",\"capture_thread\":{}", event.capture_thread));
    put(out, format_args!(",\"sequence\":{}", event.sequence));
    if event.processor != crate::UNKNOWN_PROCESSOR {
        put(out, format_args!(",\"processor\":{}", event.processor));
    }
    put(out, format_args!(",\"stack_id\":{}", event.stack_id));
    if !event.inline_stack.is_empty() {
        out.push_str(",\"stack\":");
        frames_list(&event.inline_stack, out);
    }
    for (name, id) in
        [("activity_id", &event.activity_id), ("related_activity_id", &event.related_activity_id)]
    {
        if id != &[0; 16] {
            put(out, format_args!(",\"{name}\":\"{}\"", guid_text(id)));
        }
    }
    put(out, format_args!(",\"sorted\":{}", event.sorted));
    if event.definition.fields.is_empty() {
        if !event.payload.is_empty() {
            put(out, format_args!(",\"payload\":\"{}\"", hex(&event.payload)));
        }
        return;
    }
    match decode_payload(&event.definition.fields, &event.payload) {
        Ok(values) => {
            out.push_str(",\"fields\":");
            members(&values, out);
        }
        Err(error) => {
            put(out, format_args!(",\"payload\":\"{}\",\"problem\":", hex(&event.payload)));
            string(&error.to_string(), out);
        }
    }
}

fn members(values: &[(String, Value)], out: &mut String) {
    out.push('{');
    for (index, (name, value)) in values.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        string(name, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

/// Appends a value as JSON.
pub fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Char(unit) => string(&crate::cursor::utf16_lossy(&[unit.to_le_bytes()]), out),
        Value::Single(number) if !number.is_finite() => string(&number.to_string(), out),
        Value::Double(number) if !number.is_finite() => string(&number.to_string(), out),
        Value::DateTime(filetime) => string(&filetime_text(*filetime), out),
        Value::Guid(bytes) => string(&guid_text(bytes), out),
        Value::String(text) => string(text, out),
        Value::Array(elements) => match value.char_array_text() {
            Some(text) => string(&text, out),
            None => list(elements, out, write_value),
        },
        Value::Object(named) => members(named, out),
        plain => put(out, format_args!("{plain}")),
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if u32::from(control) < 0x20 => put(out, format_args!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}

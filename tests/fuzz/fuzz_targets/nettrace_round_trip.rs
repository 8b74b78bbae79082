//! Any calls on a writer: what it is given is what the reader hands out.
#![no_main]

use std::collections::HashMap;

use diagport_fuzz::reading;
use diagport_fuzz::story::{Story, read_back};
use diagport_nettrace::{
    Event, EventMetadata, EventRow, Field, FieldType, MAX_EVENT_PAYLOAD_BYTES, TraceInfo, UtcTime, Writer,
};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut told = Told::new(if input.ratio(1, 4).unwrap_or(false) { 4 } else { 8 });
    while !input.is_empty() && told.call(&mut input).is_ok() {}
    told.writer.finish();
    told.stream.extend_from_slice(told.writer.output());
    assert_eq!(read_back(&told.stream), told.story);
    reading::check_uses(&reading::check(&told.stream, 1 + bytes.len() * 7));
});

/// A writer, what it has put out, and what it was told.
struct Told {
    writer: Writer,
    stream: Vec<u8>,
    story: Story,
    definition_ids: Vec<u32>,
    address_mask: u64,
    /// Frames since the last sequence point by id: an id never changes its meaning.
    stacks: HashMap<u32, Vec<u64>>,
}

impl Told {
    fn new(pointer_size: u32) -> Self {
        let info = TraceInfo {
            start_utc: UtcTime::from_unix_millis(1_796_000_000_000),
            sync_ticks: 1,
            tick_frequency: 1_000_000_000,
            pointer_size,
            process_id: 1,
            processor_count: 1,
            sampling_period_ns: 1_000_000,
        };
        Self {
            writer: Writer::new(&info),
            stream: Vec::new(),
            story: Story::default(),
            definition_ids: Vec::new(),
            address_mask: if pointer_size == 4 { u64::from(u32::MAX) } else { u64::MAX },
            stacks: HashMap::new(),
        }
    }

    fn call(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=15_u8)? {
            0 => {
                let definition = definition(input)?;
                self.definition_ids.push(self.writer.define(
                    &definition,
                    input.arbitrary()?,
                    input.arbitrary()?,
                ));
                self.story.definitions.push(definition);
            }
            1 => {
                let (ticks, threads): (i64, Vec<(u64, u32)>) = input.arbitrary()?;
                self.writer.sequence_point(ticks, threads.iter().copied());
                self.story.points.push((ticks, threads, self.story.events.len()));
                self.stacks.clear();
            }
            2 => self.writer.flush(),
            3 => {
                self.stream.extend_from_slice(self.writer.output());
                self.writer.clear_output();
            }
            _ if !self.definition_ids.is_empty() => self.event(input)?,
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let definition = input.int_in_range(0..=self.definition_ids.len() - 1)?;
        let frames = self.frames(input)?;
        let payload = payload(input)?;
        let row = EventRow {
            metadata_id: self.definition_ids[definition],
            sequence: input.arbitrary()?,
            capture_thread: number(input)?,
            thread_id: number(input)?,
            processor: input.arbitrary()?,
            stack_id: frames.as_ref().map_or(0, |frames| self.writer.stack(frames)),
            ticks: if input.arbitrary()? { input.arbitrary()? } else { i64::from(input.arbitrary::<u16>()?) },
            activity_id: activity(input)?,
            related_activity_id: activity(input)?,
            sorted: input.arbitrary()?,
            payload: &payload,
        };
        if let Some(frames) = &frames {
            let first = self.stacks.entry(row.stack_id).or_insert_with(|| frames.clone());
            assert_eq!(first, frames, "stack {}", row.stack_id);
        }
        self.writer.event(&row);
        if payload.len() <= MAX_EVENT_PAYLOAD_BYTES {
            let event = Event {
                definition: Default::default(),
                metadata_id: 0,
                sequence: row.sequence,
                capture_thread: row.capture_thread,
                thread_id: row.thread_id,
                processor: row.processor,
                stack_id: 0,
                ticks: row.ticks,
                activity_id: row.activity_id,
                related_activity_id: row.related_activity_id,
                sorted: row.sorted,
                payload,
                inline_stack: Vec::new(),
            };
            self.story.events.push((event, definition, frames));
        }
        Ok(())
    }

    fn frames(&self, input: &mut Unstructured<'_>) -> Result<Option<Vec<u64>>> {
        Ok(match input.int_in_range(0..=3_u8)? {
            0 => None,
            // Few different ones, so that a stack is met again.
            1 => Some(vec![0x1000; usize::from(input.int_in_range(0..=3_u8)?)]),
            2 => Some((0..input.int_in_range(0..=120_u64)?).map(|frame| frame * 16).collect()),
            _ => Some(input.arbitrary::<Vec<u64>>()?.iter().map(|frame| frame & self.address_mask).collect()),
        })
    }
}

/// Mostly small, so that ids are met again; sometimes at the edges where differences wrap.
fn number(input: &mut Unstructured<'_>) -> Result<u64> {
    if input.arbitrary()? { input.arbitrary() } else { input.int_in_range(0..=3) }
}

fn activity(input: &mut Unstructured<'_>) -> Result<[u8; 16]> {
    if input.arbitrary()? { input.arbitrary() } else { Ok([0; 16]) }
}

/// Sometimes about as large as an event may be, or larger.
fn payload(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if input.ratio(1, 16)? { Ok(vec![7; input.int_in_range(0..=70_000)?]) } else { input.arbitrary() }
}

/// A text ends at its first NUL, wherever it stands in a stream.
fn text(input: &mut Unstructured<'_>) -> Result<String> {
    Ok(input.arbitrary::<&str>()?.split('\0').next().unwrap_or_default().to_owned())
}

fn definition(input: &mut Unstructured<'_>) -> Result<EventMetadata> {
    Ok(EventMetadata {
        provider: text(input)?,
        event_id: input.arbitrary()?,
        event_name: text(input)?,
        keywords: input.arbitrary()?,
        version: input.arbitrary()?,
        level: input.arbitrary()?,
        opcode: input.arbitrary()?,
        fields: fields(input, 0)?,
    })
}

fn fields(input: &mut Unstructured<'_>, depth: u8) -> Result<Vec<Field>> {
    let count = input.int_in_range(0..=5_u8)?;
    (0..count).map(|_| Ok(Field::new(text(input)?, field_type(input, depth)?))).collect()
}

fn field_type(input: &mut Unstructured<'_>, depth: u8) -> Result<FieldType> {
    const PLAIN: [FieldType; 15] = [
        FieldType::Boolean,
        FieldType::Char,
        FieldType::SByte,
        FieldType::Byte,
        FieldType::Int16,
        FieldType::UInt16,
        FieldType::Int32,
        FieldType::UInt32,
        FieldType::Int64,
        FieldType::UInt64,
        FieldType::Single,
        FieldType::Double,
        FieldType::DateTime,
        FieldType::Guid,
        FieldType::String,
    ];
    // The reader's limit is 32 types inside each other.
    let deepest = if depth < 31 { 20_u8 } else { 15 };
    Ok(match input.int_in_range(0..=deepest)? {
        plain @ 0..=14 => PLAIN[usize::from(plain)].clone(),
        15 => FieldType::Other(*input.choose(&[0, 2, 15, 20, -1, i32::MAX, i32::MIN])?),
        16..=18 => FieldType::Array(Box::new(field_type(input, depth + 1)?)),
        _ => FieldType::Object(fields(input, depth + 1)?),
    })
}

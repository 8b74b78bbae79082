//! What a stream tells, apart from how it is cut into blocks and numbered.

use std::collections::HashMap;

use diagport_nettrace::{
    Completion, Event, EventMetadata, MAX_EVENT_PAYLOAD_BYTES, Record, TraceInfo, WarningKind, Writer,
};

use crate::reading::read;

/// Definitions, events and sequence points, each kind in order.
#[derive(Debug, Default, PartialEq)]
pub struct Story {
    /// Definitions, as written.
    pub definitions: Vec<EventMetadata>,
    /// Events with ids of 0, the position of their definition, and the frames that their stack id stands for.
    pub events: Vec<(Event, usize, Option<Vec<u64>>)>,
    /// Sequence points, with the number of events before each.
    pub points: Vec<(i64, Vec<(u64, u32)>, usize)>,
}

impl Story {
    /// The story of the records of a stream in which every event is defined.
    pub fn of(records: &[Record]) -> Self {
        let (mut story, mut definitions, mut stacks) = (Self::default(), HashMap::new(), HashMap::new());
        for record in records {
            match record {
                Record::Trace(_) | Record::End => {}
                Record::Metadata { id, definition } => {
                    definitions.insert(*id, story.definitions.len());
                    story.definitions.push((**definition).clone());
                }
                Record::Stack { id, frames } => drop(stacks.insert(*id, frames.clone())),
                Record::Event(event) => {
                    let frames = stacks.get(&event.stack_id).cloned();
                    let bare = Event {
                        definition: Default::default(),
                        metadata_id: 0,
                        stack_id: 0,
                        inline_stack: Vec::new(),
                        ..event.clone()
                    };
                    story.events.push((bare, definitions[&event.metadata_id], frames));
                }
                Record::SequencePoint { ticks, threads } => {
                    stacks.clear();
                    story.points.push((*ticks, threads.clone(), story.events.len()));
                }
            }
        }
        story
    }

    /// Our writer can tell the story of a clean stream again.
    pub fn check_written_again(records: &[Record]) {
        let too_long = |record: &Record| matches!(record, Record::Event(event) if event.payload.len() > MAX_EVENT_PAYLOAD_BYTES);
        let Some(Record::Trace(info)) = records.first() else { return };
        if records.iter().any(too_long) {
            return; // left out by the writer on purpose
        }
        let story = Self::of(records);
        let again = read_back(&story.write(info));
        assert_eq!(again, story, "written again");
    }

    fn write(&self, info: &TraceInfo) -> Vec<u8> {
        let mut writer = Writer::new(info);
        let ids: Vec<u32> =
            self.definitions.iter().map(|definition| writer.define(definition, 0, 0)).collect();
        let mut points = self.points.iter().peekable();
        for (number, (event, definition, frames)) in self.events.iter().enumerate() {
            while let Some((ticks, threads, _)) = points.next_if(|(_, _, before)| *before <= number) {
                writer.sequence_point(*ticks, threads.iter().copied());
            }
            let stack_id = frames.as_ref().map_or(0, |frames| writer.stack(frames));
            let mut row = event.row();
            (row.metadata_id, row.stack_id) = (ids[*definition], stack_id);
            writer.event(&row);
        }
        for (ticks, threads, _) in points {
            writer.sequence_point(*ticks, threads.iter().copied());
        }
        writer.finish();
        writer.output().to_vec()
    }
}

/// The story of a stream that our writer made: whole, and with nothing odd about it but clocks, which are the caller's.
pub fn read_back(stream: &[u8]) -> Story {
    let reading = read(stream, stream.len());
    assert_eq!((&reading.error, reading.completion), (&None, Completion::Complete));
    let odd = reading.warnings.iter().find(|warning| {
        !matches!(
            warning.kind,
            WarningKind::ClockWentBack { .. }
                | WarningKind::OddStartTime(_)
                | WarningKind::OddTickFrequency(_)
        )
    });
    assert_eq!(odd, None);
    Story::of(&reading.records)
}

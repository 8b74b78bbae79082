//! What the writer is given is what the reader hands out, whatever the rows are; and every block keeps the format's rules.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use std::collections::HashMap;

use diagport_nettrace::blob_header::BlobHeader;
use diagport_nettrace::{
    Completion, EventMetadata, EventRow, Field, FieldType, MAX_EVENT_PAYLOAD_BYTES, Record, TraceInfo,
    UtcTime, WarningKind, Writer,
};
use proptest::prelude::*;
use streams::keep::keep;
use streams::{objects, read_in_pieces};

/// One call on the writer.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    Define(EventMetadata),
    Event(Row),
    Point(i64, Vec<(u64, u32)>),
    Flush,
    TakeOutput,
}

/// An event whose definition is chosen among those made so far, and whose stack is given as frames.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// Modulo the number of definitions so far.
    definition: usize,
    numbers: (u32, u64, u64, u32, i64),
    frames: Option<Vec<u64>>,
    activities: ([u8; 16], [u8; 16]),
    sorted: bool,
    payload: Vec<u8>,
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        any::<char>().prop_filter("names end at NUL", |character| *character != '\0'),
        0..8,
    )
    .prop_map(|characters| characters.into_iter().collect())
}

fn field_type() -> impl Strategy<Value = FieldType> {
    let plain = prop::sample::select(vec![
        FieldType::Boolean,
        FieldType::Char,
        FieldType::Byte,
        FieldType::Int32,
        FieldType::UInt64,
        FieldType::Double,
        FieldType::DateTime,
        FieldType::Guid,
        FieldType::String,
        FieldType::Other(15),
    ]);
    plain.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|element| FieldType::Array(element.into())),
            proptest::collection::vec((text(), inner), 0..4).prop_map(|members| FieldType::Object(
                members.into_iter().map(|(name, field_type)| Field { name, field_type }).collect()
            )),
        ]
    })
}

fn definition() -> impl Strategy<Value = EventMetadata> {
    let fields = proptest::collection::vec((text(), field_type()), 0..5);
    (text(), any::<u32>(), text(), any::<u64>(), any::<(u32, u32, u8)>(), fields).prop_map(
        |(provider, event_id, event_name, keywords, (version, level, opcode), fields)| EventMetadata {
            provider,
            event_id,
            event_name,
            keywords,
            version,
            level,
            opcode,
            fields: fields.into_iter().map(|(name, field_type)| Field { name, field_type }).collect(),
        },
    )
}

/// Mostly small, sometimes at the edges where deltas wrap.
fn thread() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0_u64..4, 1 => any::<u64>()]
}

fn row() -> impl Strategy<Value = Row> {
    let sequence = prop_oneof![4 => 0_u32..20, 1 => any::<u32>(), 1 => (u32::MAX - 3)..=u32::MAX];
    let processor = prop_oneof![3 => Just(u32::MAX), 1 => 0_u32..4];
    let ticks = prop_oneof![4 => 1_000_i64..2_000, 1 => any::<i64>()];
    let activity = || prop_oneof![3 => Just([0; 16]), 1 => any::<[u8; 16]>()];
    let frames = proptest::option::of(prop_oneof![
        3 => proptest::collection::vec(0_u64..3, 0..3),
        1 => proptest::collection::vec(any::<u64>(), 0..120),
    ]);
    let payload = prop_oneof![
        6 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0_usize..=MAX_EVENT_PAYLOAD_BYTES).prop_map(|length| vec![7; length]),
    ];
    (0_usize..20, (sequence, thread(), thread(), processor, ticks), frames, (activity(), activity()))
        .prop_flat_map(move |(definition, numbers, frames, activities)| {
            (Just((definition, numbers, frames, activities)), any::<bool>(), payload.clone())
        })
        .prop_map(|((definition, numbers, frames, activities), sorted, payload)| Row {
            definition,
            numbers,
            frames,
            activities,
            sorted,
            payload,
        })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => definition().prop_map(Call::Define),
        12 => row().prop_map(Call::Event),
        1 => (any::<i64>(), proptest::collection::vec((thread(), any::<u32>()), 0..5))
            .prop_map(|(ticks, threads)| Call::Point(ticks, threads)),
        1 => Just(Call::Flush),
        2 => Just(Call::TakeOutput),
    ]
}

fn info(pointer_size: u32) -> TraceInfo {
    TraceInfo {
        start_utc: UtcTime::from_unix_millis(1_796_000_000_000),
        sync_ticks: 1,
        tick_frequency: 1_000_000_000,
        pointer_size,
        process_id: 1,
        processor_count: 1,
        sampling_period_ns: 1_000_000,
    }
}

/// What must come back, in the order of the calls.
#[derive(Debug, Default, PartialEq)]
struct Story {
    definitions: Vec<EventMetadata>,
    /// Each event with the frames its stack id stands for.
    events: Vec<(BlobHeader, Vec<u8>, Option<Vec<u64>>)>,
    /// Each sequence point with the number of events before it.
    points: Vec<(Call, usize)>,
}

fn header(row: &EventRow<'_>) -> BlobHeader {
    BlobHeader {
        metadata_id: row.metadata_id,
        sequence: row.sequence,
        capture_thread: row.capture_thread,
        thread_id: row.thread_id,
        processor: row.processor,
        stack_id: 0, // the frames are compared instead
        ticks: row.ticks,
        activity_id: row.activity_id,
        related_activity_id: row.related_activity_id,
        sorted: row.sorted,
        payload_bytes: row.payload.len() as u32,
    }
}

fn tell(calls: &[Call], pointer_size: u32) -> (Vec<u8>, Story) {
    let mut writer = Writer::new(&info(pointer_size));
    let (mut stream, mut story) = (Vec::new(), Story::default());
    let address_mask = if pointer_size == 4 { u64::from(u32::MAX) } else { u64::MAX };
    for call in calls {
        match call {
            Call::Define(definition) => {
                story.definitions.push(definition.clone());
                assert_eq!(writer.define(definition, 5, 6) as usize, story.definitions.len());
            }
            Call::Event(_) if story.definitions.is_empty() => {}
            Call::Event(row) => {
                let (sequence, capture_thread, thread_id, processor, ticks) = row.numbers;
                let stack_id = row.frames.as_ref().map_or(0, |frames| writer.stack(frames));
                let event = EventRow {
                    metadata_id: (row.definition % story.definitions.len()) as u32 + 1,
                    sequence,
                    capture_thread,
                    thread_id,
                    processor,
                    stack_id,
                    ticks,
                    activity_id: row.activities.0,
                    related_activity_id: row.activities.1,
                    sorted: row.sorted,
                    payload: &row.payload,
                };
                let before = writer.encoded_bytes();
                writer.event(&event);
                assert!(writer.encoded_bytes() > before + row.payload.len());
                let frames = row
                    .frames
                    .as_ref()
                    .map(|frames| frames.iter().map(|frame| frame & address_mask).collect());
                story.events.push((header(&event), row.payload.clone(), frames));
            }
            Call::Point(ticks, threads) => {
                writer.sequence_point(*ticks, threads.iter().copied());
                story.points.push((call.clone(), story.events.len()));
            }
            Call::Flush => {
                writer.flush();
                assert!(!writer.has_pending());
            }
            Call::TakeOutput => {
                stream.extend_from_slice(writer.output());
                writer.clear_output();
            }
        }
    }
    writer.finish();
    writer.finish();
    stream.extend_from_slice(writer.output());
    (stream, story)
}

fn hear(stream: &[u8], piece_bytes: usize) -> Story {
    let reading = read_in_pieces(stream, piece_bytes);
    assert_eq!((reading.error, reading.completion), (None, Completion::Complete));
    for warning in &reading.warnings {
        assert!(matches!(warning.kind, WarningKind::ClockWentBack { .. }), "{warning}");
    }
    let (mut story, mut frames_of) = (Story::default(), HashMap::new());
    for record in reading.records {
        match record {
            Record::Metadata { definition, .. } => story.definitions.push((*definition).clone()),
            Record::Stack { id, frames } => {
                assert_eq!(frames_of.insert(id, frames), None, "stack {id} twice")
            }
            Record::Event(event) => {
                let frames = frames_of.get(&event.stack_id).cloned();
                assert_eq!(frames.is_some(), event.stack_id != 0, "an undefined stack");
                let definition = &story.definitions[event.metadata_id as usize - 1];
                assert_eq!(*event.definition, *definition, "defined before its use");
                story.events.push((header(&event.row()), event.payload, frames));
            }
            Record::SequencePoint { ticks, threads } => {
                frames_of.clear();
                story.points.push((Call::Point(ticks, threads), story.events.len()));
            }
            Record::Trace(_) | Record::End => {}
        }
    }
    story
}

/// Limits, order inside a batch and the times in block headers, judged without the reader.
fn check_blocks(stream: &[u8]) {
    for object in objects(stream) {
        if object.name == "Trace" {
            continue;
        }
        assert_eq!(object.body_at % 4, 0, "{} is aligned", object.name);
        if object.name == "SPBlock" {
            continue;
        }
        assert!(object.body.len() < 102_400 + 20, "{} of {} bytes", object.name, object.body.len());
        if object.name == "StackBlock" {
            assert!(object.body.len() > 8, "an empty stack block");
            continue;
        }
        let (head, mut rest) = object.body.split_at(20);
        assert_eq!(&head[..4], [20, 0, 1, 0]);
        let time = |at: usize| i64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let (mut state, mut times) = (BlobHeader::ZERO, Vec::new());
        while !rest.is_empty() {
            let first = times.is_empty();
            let (next, used) = BlobHeader::decode(&state, rest).unwrap();
            assert!(
                first || next.sorted || next.capture_thread == state.capture_thread,
                "the capture thread changes on an unsorted event inside a block"
            );
            rest = &rest[used + next.payload_bytes as usize..];
            times.push(next.ticks);
            state = next;
        }
        let range = (times.iter().min().copied(), times.iter().max().copied());
        assert_eq!(range, (Some(time(4)), Some(time(12))), "{}: times of the block", object.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // spec-test: NT4-BLOB-1
    // spec-test: NT4-BLOB-2
    // spec-test: NT4-META-1
    // spec-test: NT4-META-4
    // spec-test: NT4-META-5
    // spec-test: NT4-STACK-1
    // spec-test: NT4-ORDER-1
    // spec-test: NT4-ORDER-2
    // spec-test: NT4-BLOCK-1
    // spec-test: NT4-BLOCK-2
    // spec-test: NT4-LIMIT-1
    #[test]
    fn what_is_written_is_read(
        first in definition(),
        calls in proptest::collection::vec(call(), 0..60),
        pointer_size in prop::sample::select(vec![4_u32, 8]),
        piece_bytes in prop_oneof![1_usize..50, 50_usize..200_000],
    ) {
        let calls = [vec![Call::Define(first)], calls].concat();
        let (stream, told) = tell(&calls, pointer_size);
        check_blocks(&stream);
        prop_assert_eq!(hear(&stream, piece_bytes), told);
    }
}

fn plain_row(payload: &[u8]) -> EventRow<'_> {
    EventRow {
        metadata_id: 1,
        sequence: 1,
        capture_thread: 1,
        thread_id: 7,
        processor: u32::MAX,
        stack_id: 0,
        ticks: 10,
        activity_id: [0; 16],
        related_activity_id: [0; 16],
        sorted: true,
        payload,
    }
}

// spec-test: NT4-LIMIT-1
#[test]
fn full_blocks_go_out_by_themselves() {
    let mut writer = Writer::new(&info(8));
    writer.define(&EventMetadata::default(), 10, 7);
    let payload = [1; 1_000];
    for sequence in 1..=1_000 {
        let stack_id = writer.stack(&[u64::from(sequence); 100]);
        writer.event(&EventRow { sequence, stack_id, ..plain_row(&payload) });
    }
    for event_id in 0..3_000 {
        writer.define(
            &EventMetadata { event_id, provider: "P".repeat(30), ..EventMetadata::default() },
            10,
            7,
        );
    }
    // As every stream should end: TraceEvent 2.0 looks ahead, and a definition as the last thing is too near to the end for it.
    writer.sequence_point(11, [(1, 1_000)]);
    writer.finish();
    check_blocks(writer.output());
    keep(writer.output(), 0);
    let story = hear(writer.output(), 4_096);
    assert_eq!((story.definitions.len(), story.events.len()), (3_001, 1_000));
    assert!(
        story.events.iter().all(|(_, _, frames)| frames.as_ref().is_some_and(|frames| frames.len() == 100))
    );
    let count = |name| objects(writer.output()).iter().filter(|object| object.name == name).count();
    assert!(count("EventBlock") >= 10 && count("StackBlock") >= 8 && count("MetadataBlock") >= 3);
}

// spec-test: NT4-LIMIT-2
// spec-test: NT4-STACK-3
// spec-test: NT4-META-1
#[test]
fn what_would_corrupt_readers_is_not_written() {
    let mut writer = Writer::new(&info(8));
    let named = EventMetadata {
        provider: "Name\0hidden".into(),
        fields: vec![Field::new("field\0hidden", FieldType::Byte)],
        ..EventMetadata::default()
    };
    writer.define(&named, 10, 7);
    let largest = vec![1; MAX_EVENT_PAYLOAD_BYTES];
    let larger = vec![1; MAX_EVENT_PAYLOAD_BYTES + 1];
    let stack_id = writer.stack(&vec![9; 10_000]);
    writer.event(&EventRow { stack_id, ..plain_row(&largest) });
    writer.event(&EventRow { sequence: 2, ..plain_row(&larger) });
    writer.event(&EventRow { sequence: 3, ..plain_row(&[]) });
    writer.finish();
    keep(writer.output(), 1);
    let story = hear(writer.output(), usize::MAX);
    assert_eq!(story.events.iter().map(|(header, _, _)| header.sequence).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(story.events[0].2.as_ref().map(Vec::len), Some(65_527 / 8));
    let cut = &story.definitions[0];
    assert_eq!((cut.provider.as_str(), cut.fields[0].name.as_str()), ("Name", "field"));
}

/// A caller that keeps a limit goes by these figures.
// spec-test: NT4-STACK-1
#[test]
fn the_memory_of_stacks_is_told_and_ends_at_a_sequence_point() {
    let mut writer = Writer::new(&info(8));
    writer.define(&EventMetadata::default(), 10, 7);
    let empty = writer.stack(&[]);
    assert_eq!((writer.stack(&[]), writer.stack_cache_bytes()), (empty, 0), "the empty one costs nothing");
    for frame in 1..=1_000 {
        let id = writer.stack(&[frame; 50]);
        assert_eq!(writer.stack(&[frame; 50]), id);
    }
    assert!((400_000..600_000).contains(&writer.stack_cache_bytes()), "{}", writer.stack_cache_bytes());
    writer.sequence_point(11, [(1, 0)]);
    assert_eq!(writer.stack_cache_bytes(), 0);
    assert_eq!((writer.stack(&[7; 50]), writer.stack(&[])), (1, 2), "ids begin again");
    assert_eq!(writer.encoded_bytes(), writer.output().len() + 4 + 400 + 4);
}

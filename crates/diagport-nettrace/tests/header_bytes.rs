//! The writer has short ways for what is usual; what it writes is, byte for byte, what the plain way would.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use std::collections::HashMap;

use diagport_nettrace::blob_header::BlobHeader;
use diagport_nettrace::{EventMetadata, EventRow, TraceInfo, UNKNOWN_PROCESSOR, UtcTime, Writer, varuint};
use proptest::prelude::*;
use proptest::sample::select;
use streams::objects;

/// The header as the specification has it: what differs, field by field.
fn plain_header(header: &BlobHeader, previous: &BlobHeader) -> Vec<u8> {
    let mut bytes = vec![if header.sorted { 0x40 } else { 0 }];
    let mut put = |flag: u8, changed: bool, numbers: &[u64], raw: &[u8]| {
        if changed {
            bytes[0] |= flag;
            numbers.iter().for_each(|number| varuint::encode(*number, &mut bytes));
            bytes.extend_from_slice(raw);
        }
    };
    let step = u32::from(header.metadata_id != 0);
    let capture = header.sequence != previous.sequence.wrapping_add(step)
        || header.capture_thread != previous.capture_thread
        || header.processor != previous.processor;
    let sequence = header.sequence.wrapping_sub(previous.sequence).wrapping_sub(1);
    let ticks = header.ticks.wrapping_sub(previous.ticks) as u64;
    put(0x01, header.metadata_id != previous.metadata_id, &[header.metadata_id.into()], &[]);
    put(0x02, capture, &[sequence.into(), header.capture_thread, header.processor.into()], &[]);
    put(0x04, header.thread_id != previous.thread_id, &[header.thread_id], &[]);
    put(0x08, header.stack_id != previous.stack_id, &[header.stack_id.into()], &[]);
    put(0, true, &[ticks], &[]);
    put(0x10, header.activity_id != previous.activity_id, &[], &header.activity_id);
    let related = &header.related_activity_id;
    put(0x20, *related != previous.related_activity_id, &[], related);
    put(0x80, header.payload_bytes != previous.payload_bytes, &[header.payload_bytes.into()], &[]);
    bytes
}

/// A number of any length in bytes.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(bits, shift)| bits >> shift)
}

/// What an event has that the one before it had not.
#[derive(Clone, Copy, Debug)]
enum Change {
    Metadata(bool),
    Sequence(u32),
    Capture(u64),
    Thread(u64),
    Processor(u32),
    Stack(u32),
    Ticks(i64),
    Activity([u8; 16]),
    RelatedActivity([u8; 16]),
    Payload(u32),
}

fn change() -> impl Strategy<Value = Change> {
    let processor = prop_oneof![Just(UNKNOWN_PROCESSOR), 0_u32..300, any::<u32>()];
    let activity = || prop_oneof![Just([0; 16]), any::<[u8; 16]>()];
    prop_oneof![
        any::<bool>().prop_map(Change::Metadata),
        number().prop_map(|number| Change::Sequence(number as u32)),
        number().prop_map(Change::Capture),
        number().prop_map(Change::Thread),
        processor.prop_map(Change::Processor),
        number().prop_map(|number| Change::Stack(number as u32)),
        number().prop_map(|number| Change::Ticks(number as i64)),
        activity().prop_map(Change::Activity),
        activity().prop_map(Change::RelatedActivity),
        (0_u32..200).prop_map(Change::Payload),
    ]
}

/// The next event of a run; changes come on top.
fn next(previous: &BlobHeader, ticks: i64, changes: &[Change]) -> BlobHeader {
    let mut header = BlobHeader {
        metadata_id: previous.metadata_id.max(1),
        sequence: previous.sequence.wrapping_add(1),
        ticks: previous.ticks.wrapping_add(ticks),
        sorted: true,
        ..*previous
    };
    for change in changes {
        match *change {
            Change::Metadata(second) => header.metadata_id = 1 + u32::from(second),
            Change::Sequence(number) => header.sequence = number,
            Change::Capture(id) => header.capture_thread = id,
            Change::Thread(id) => header.thread_id = id,
            Change::Processor(processor) => header.processor = processor,
            Change::Stack(id) => header.stack_id = id,
            Change::Ticks(ticks) => header.ticks = ticks,
            Change::Activity(id) => header.activity_id = id,
            Change::RelatedActivity(id) => header.related_activity_id = id,
            Change::Payload(bytes) => header.payload_bytes = bytes,
        }
    }
    header
}

fn writer() -> Writer {
    let mut writer = Writer::new(&TraceInfo {
        start_utc: UtcTime::from_unix_millis(1_796_000_000_000),
        sync_ticks: 1,
        tick_frequency: 1_000_000_000,
        pointer_size: 8,
        process_id: 1,
        processor_count: 1,
        sampling_period_ns: 1_000_000,
    });
    writer.define(&EventMetadata::default(), 5, 6);
    writer.define(&EventMetadata::default(), 5, 6);
    writer
}

/// The body of the only event block of these events, written the plain way.
fn plain_block(events: &[BlobHeader], payloads: &[u8]) -> Vec<u8> {
    let mut body = vec![20, 0, 1, 0];
    let ticks = || events.iter().map(|header| header.ticks);
    body.extend_from_slice(&ticks().min().unwrap().to_le_bytes());
    body.extend_from_slice(&ticks().max().unwrap().to_le_bytes());
    let mut previous = &BlobHeader::ZERO;
    for header in events {
        body.extend(plain_header(header, previous));
        body.extend_from_slice(&payloads[..header.payload_bytes as usize]);
        previous = header;
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    // spec-test: NT4-VAR-1
    // spec-test: NT4-BLOB-1
    // spec-test: NT4-BLOB-2
    // spec-test: NT4-BLOCK-2
    #[test]
    fn a_block_is_what_its_events_are_one_by_one(
        // Steps at both sides of one and two bytes; most events differ in nothing else.
        events in proptest::collection::vec(
            (
                prop_oneof![0_i64..300, 16_300_i64..16_500, any::<i64>()],
                prop_oneof![3 => Just(vec![]), 1 => proptest::collection::vec(change(), 1..4)],
                prop::bool::weighted(0.95),
            ),
            1..120,
        ),
        payload_bytes in 0_u32..200,
    ) {
        let payloads: Vec<u8> = (0..200).collect();
        let mut writer = writer();
        let (mut told, mut previous) = (Vec::new(), BlobHeader { payload_bytes, ..BlobHeader::ZERO });
        for (ticks, changes, sorted) in &events {
            let header = next(&previous, *ticks, changes);
            // An unsorted one may not change the capture thread: that would begin a block.
            let sorted = *sorted || told.is_empty() || header.capture_thread != previous.capture_thread;
            let header = BlobHeader { sorted, ..header };
            writer.event(&EventRow {
                metadata_id: header.metadata_id,
                sequence: header.sequence,
                capture_thread: header.capture_thread,
                thread_id: header.thread_id,
                processor: header.processor,
                stack_id: header.stack_id,
                ticks: header.ticks,
                activity_id: header.activity_id,
                related_activity_id: header.related_activity_id,
                sorted,
                payload: &payloads[..header.payload_bytes as usize],
            });
            told.push(header);
            previous = header;
        }
        writer.finish();
        let blocks = objects(writer.output());
        let blocks: Vec<_> = blocks.iter().filter(|object| object.name == "EventBlock").collect();
        prop_assert_eq!(blocks.len(), 1);
        prop_assert_eq!(blocks[0].body.to_vec(), plain_block(&told, &payloads));
    }

    // spec-test: NT4-BLOB-1
    #[test]
    fn a_header_is_the_difference_to_any_other(
        before in proptest::collection::vec(change(), 0..12),
        changes in proptest::collection::vec(change(), 0..12),
        ticks in any::<i64>(),
        definition in any::<bool>(),
    ) {
        let previous = next(&BlobHeader::ZERO, 1, &before);
        let header = next(&previous, ticks, &changes);
        let header = BlobHeader { metadata_id: if definition { 0 } else { header.metadata_id }, ..header };
        let mut bytes = vec![0xEE];
        header.encode(&previous, &mut bytes);
        prop_assert_eq!(&bytes[1..], plain_header(&header, &previous));
        prop_assert_eq!(BlobHeader::decode(&previous, &bytes[1..]).unwrap(), (header, bytes.len() - 1));
    }

    // spec-test: NT4-STACK-1
    #[test]
    fn a_stack_has_one_id_between_two_sequence_points(
        calls in proptest::collection::vec(
            prop_oneof![
                // Few enough that they come again, the same one twice in a row too; None is a sequence point.
                40 => (0_u64..60, 0_usize..4).prop_map(|(frame, frames)| Some(vec![frame; frames])),
                20 => select(vec![Some(vec![]), Some(vec![1]), Some(vec![1, 2]), Some(vec![0; 9])]),
                1 => Just(None),
            ],
            0..300,
        ),
    ) {
        let mut writer = writer();
        let mut ids = HashMap::new();
        for call in calls {
            if let Some(frames) = call {
                let next_id = ids.len() as u32 + 1;
                let id = *ids.entry(frames.clone()).or_insert(next_id);
                prop_assert_eq!(writer.stack(&frames), id, "{:?}", frames);
            } else {
                writer.sequence_point(10, []);
                ids.clear();
            }
        }
    }
}

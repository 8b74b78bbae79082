//! Byte vectors: short pieces of real streams, decoded and, where our writer makes that piece, encoded again.
//! The hex is in tests/vectors/nettrace/byte-vectors.json; V02 and V31 and later belong to V6, which is not read.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use std::collections::BTreeMap;

use diagport_nettrace::blob_header::BlobHeader;
use diagport_nettrace::{
    Completion, Event, EventMetadata, Field, FieldType, Record, TraceInfo, UtcTime, Value, Writer,
    decode_metadata, decode_payload, encode_metadata, varuint,
};
use streams::{Reading, objects, read, read_clean, vectors};

fn vector(id: &str) -> Vec<u8> {
    let table = std::fs::read_to_string(vectors("nettrace").join("byte-vectors.json")).unwrap();
    let table: BTreeMap<String, String> = serde_json::from_str(&table).unwrap();
    let hex = &table[id];
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

const NO_CPU: u32 = 0xFFFF_FFFF;

fn real_info() -> TraceInfo {
    TraceInfo {
        start_utc: UtcTime {
            year: 2026,
            month: 11,
            day_of_week: 1,
            day: 30,
            hour: 3,
            minute: 53,
            second: 0,
            millisecond: 818,
        },
        sync_ticks: 1_789_398_414_611,
        tick_frequency: 1_000_000_000,
        pointer_size: 8,
        process_id: 956,
        processor_count: 2,
        sampling_period_ns: 1_000_000,
    }
}

/// A V4 stream of the Trace object and one hand-framed block.
fn stream_with_block(info: &TraceInfo, name: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = Writer::new(info).output().to_vec();
    stream.extend_from_slice(&[5, 5, 1, 2, 0, 0, 0, 2, 0, 0, 0]);
    stream.extend_from_slice(&(name.len() as u32).to_le_bytes());
    stream.extend_from_slice(name.as_bytes());
    stream.push(6);
    stream.extend_from_slice(&(body.len() as u32).to_le_bytes());
    stream.resize(stream.len().next_multiple_of(4), 0);
    stream.extend_from_slice(body);
    stream.extend_from_slice(&[6, 1]);
    stream
}

fn block_records(info: &TraceInfo, name: &str, body: &[u8]) -> Vec<Record> {
    let Reading { mut records, error, completion, .. } = read(&stream_with_block(info, name, body));
    assert_eq!((error, completion), (None, Completion::Complete), "{name}");
    records.retain(|record| !matches!(record, Record::Trace(_) | Record::End));
    records
}

// spec-test: NT4-VAR-1
#[test]
fn v01_varuints() {
    let bytes = vector("V01");
    let numbers = [0, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
    let (mut rest, mut encoded) = (&bytes[..], Vec::new());
    for number in numbers {
        let (value, used) = varuint::decode_64(rest).unwrap();
        assert_eq!(value, number);
        if let Ok(narrow) = u32::try_from(number) {
            assert_eq!(varuint::decode_32(rest), Ok((narrow, used)));
        }
        rest = &rest[used..];
        varuint::encode(number, &mut encoded);
    }
    assert!(rest.is_empty());
    assert_eq!(encoded, bytes);
}

// spec-test: NT4-VAR-1
#[test]
fn varuints_are_bounded_by_their_width() {
    use varuint::VaruintError::{Incomplete, Overflow};
    let eleven = [0x80; 11];
    for (bytes, narrow, wide) in [
        (&[][..], Err(Incomplete), Err(Incomplete)),
        (&[0x80], Err(Incomplete), Err(Incomplete)),
        (&[0x80, 0], Ok((0, 2)), Ok((0, 2))),
        (&[0xFF, 0xFF, 0xFF, 0xFF, 0x1F], Err(Overflow), Ok((0x1_FFFF_FFFF, 5))),
        (&[0x80, 0x80, 0x80, 0x80, 0x80, 0], Err(Overflow), Ok((0, 6))),
        (&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2], Err(Overflow), Err(Overflow)),
        (&eleven, Err(Overflow), Err(Overflow)),
    ] {
        assert_eq!((varuint::decode_32(bytes), varuint::decode_64(bytes)), (narrow, wide), "{bytes:02x?}");
    }
}

// spec-test: NT4-HEAD-1
// spec-test: NT4-TRACE-1
// spec-test: NT4-OBJ-1
// spec-test: NT4-END-1
#[test]
fn v03_v04_v18_v28_head_trace_object_and_end() {
    let mut writer = Writer::new(&real_info());
    assert_eq!(writer.output(), [vector("V03"), vector("V04")].concat());
    writer.finish();
    assert!(writer.output().ends_with(&vector("V18")));
    assert_eq!(read_clean(writer.output()), [Record::Trace(real_info()), Record::End]);

    let smallest = vector("V28");
    let [Record::Trace(info), Record::End] = &read_clean(&smallest)[..] else { panic!("V28") };
    let mut writer = Writer::new(info);
    writer.finish();
    assert_eq!(writer.output(), smallest);
}

fn check_headers(id: &str, state_in: BlobHeader, wanted: &[BlobHeader]) {
    let bytes = vector(id);
    let (mut state, mut rest, mut encoded) = (state_in, &bytes[..], Vec::new());
    for (index, header) in wanted.iter().enumerate() {
        let (decoded, used) = BlobHeader::decode(&state, rest).unwrap();
        assert_eq!(decoded, *header, "{id}: header {index}");
        header.encode(&state, &mut encoded);
        (state, rest) = (decoded, &rest[used..]);
    }
    assert!(rest.is_empty(), "{id}");
    assert_eq!(encoded, bytes, "{id}");
}

fn guid(hex: &str) -> [u8; 16] {
    std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
}

// spec-test: NT4-BLOB-1
// spec-test: NT4-BLOB-2
// spec-test: NT4-BLOB-3
// spec-test: NT4-BLOB-4
#[test]
fn v06_v08_to_v13_compressed_headers() {
    let zero = BlobHeader::ZERO;
    let definition = BlobHeader {
        thread_id: 959,
        processor: NO_CPU,
        ticks: 1_789_600_745_927,
        sorted: true,
        payload_bytes: 210,
        ..zero
    };
    check_headers("V06", zero, &[definition]);

    let first = BlobHeader {
        metadata_id: 1,
        sequence: 1,
        capture_thread: 25_112,
        thread_id: 25_112,
        processor: NO_CPU,
        stack_id: 1,
        ticks: 11_111_943_296_237,
        sorted: true,
        payload_bytes: 34,
        ..zero
    };
    let second =
        BlobHeader { sequence: 2, ticks: first.ticks + 172, sorted: false, payload_bytes: 40, ..first };
    let third = BlobHeader { sequence: 3, ticks: second.ticks + 105, ..second };
    check_headers("V08", zero, &[first, second, third]);

    let sampler = BlobHeader {
        metadata_id: 4,
        sequence: 3,
        capture_thread: 13_124,
        thread_id: 13_124,
        processor: NO_CPU,
        stack_id: 1,
        ticks: 823_017_852_005,
        payload_bytes: 2,
        ..zero
    };
    let ticks = [30_997, 30_997 + 16_391, 30_997 + 16_391 + 7_033].map(|since| sampler.ticks + since);
    let sampled = |index: usize, thread_id| BlobHeader {
        metadata_id: 5,
        sequence: 4 + index as u32,
        thread_id,
        stack_id: 2 + index as u32,
        ticks: ticks[index],
        payload_bytes: 4,
        ..sampler
    };
    check_headers("V09", sampler, &[sampled(0, 9_907), sampled(1, 9_916), sampled(2, 9_917)]);

    let before = BlobHeader { sequence: 47, ticks: 1_663_273_669_633, ..zero };
    let switched = BlobHeader {
        metadata_id: 17,
        sequence: 1,
        capture_thread: 962,
        thread_id: 962,
        processor: NO_CPU,
        stack_id: 1,
        ticks: before.ticks - 3_243_888,
        sorted: true,
        payload_bytes: 2,
        ..zero
    };
    check_headers("V10", before, &[switched]);

    let before = BlobHeader { sequence: 176, ticks: 899_728_574_884, ..zero };
    let (back, _) = varuint::decode_64(&[0xD5, 0xE1, 0xBE, 0xDF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]).unwrap();
    let full = BlobHeader {
        metadata_id: 10,
        sequence: 41,
        capture_thread: 14_896,
        thread_id: 14_896,
        processor: NO_CPU,
        stack_id: 93,
        ticks: before.ticks.wrapping_add(back as i64),
        activity_id: guid("12110000000000000000000097909d59"),
        related_activity_id: guid("12100000000000000000000097939d59"),
        sorted: true,
        payload_bytes: 2_176,
    };
    check_headers("V11", before, &[full]);
    assert!(full.ticks < before.ticks);

    let before = BlobHeader {
        metadata_id: 6,
        sequence: 13,
        ticks: 1_000,
        activity_id: guid("1c1b11000000000000000000000cae59"),
        ..zero
    };
    let cleared = BlobHeader {
        sequence: 14,
        stack_id: 13,
        ticks: 1_000 + 8_277_941,
        activity_id: [0; 16],
        payload_bytes: 127,
        ..before
    };
    check_headers("V12", before, &[cleared]);

    let before = BlobHeader {
        metadata_id: 3,
        sequence: 67_884,
        capture_thread: 31_353,
        processor: NO_CPU,
        thread_id: 14_897,
        stack_id: 32,
        ticks: 1_559_094_779_500,
        payload_bytes: 4,
        ..zero
    };
    let after_loss = BlobHeader {
        sequence: 67_908,
        thread_id: 14_926,
        stack_id: 7,
        ticks: before.ticks + 1_591_081,
        ..before
    };
    check_headers("V13", before, &[after_loss]);
}

fn check_definition(id: &str, metadata_id: u32, wanted: &EventMetadata) {
    let bytes = vector(id);
    let decoded = decode_metadata(&bytes).unwrap();
    assert_eq!((decoded.id, &decoded.definition, decoded.problem), (metadata_id, wanted, None), "{id}");
    let mut encoded = Vec::new();
    encode_metadata(metadata_id, wanted, &mut encoded);
    assert_eq!(encoded, bytes, "{id}");
}

fn check_payload(id: &str, definition: &EventMetadata, wanted: &str) {
    let values = decode_payload(&definition.fields, &vector(id)).unwrap();
    assert_eq!(Value::Object(values).to_string(), wanted, "{id}");
}

// spec-test: NT4-META-1
// spec-test: NT4-META-2
// spec-test: NT4-META-3
// spec-test: NT4-META-4
#[test]
fn v07_v19_to_v26_definitions_and_payloads() {
    let native = EventMetadata {
        provider: "Microsoft-Windows-DotNETRuntimeRundown".into(),
        event_id: 300,
        level: 4,
        ..EventMetadata::default()
    };
    check_definition("V07", 1, &native);

    let inner = vec![Field::new("field17", FieldType::String)];
    let outer = vec![Field::new("structVal", FieldType::Object(inner)), Field::new("i", FieldType::Int32)];
    let nested = EventMetadata {
        provider: "MySource".into(),
        event_id: 11,
        event_name: "TestNestedStructs".into(),
        level: 5,
        fields: vec![Field::new("", FieldType::Object(outer))],
        ..EventMetadata::default()
    };
    check_definition("V19", 8, &nested);
    check_payload("V20", &nested, r#"{"": {structVal: {field17: "hello world!"}, i: 42}}"#);

    let array = EventMetadata {
        provider: "TestEventSource0".into(),
        event_id: 7,
        event_name: "TestEvent3".into(),
        keywords: 0xF000_0000_0000,
        level: 2,
        opcode: 24,
        fields: vec![Field::new("arg0", FieldType::Array(FieldType::Char.into()))],
        ..EventMetadata::default()
    };
    check_definition("V21", 3, &array);
    let units = [0xE7A3, 0x33AF, 0x968D, 0x1CEF, 0x8BE4].map(Value::Char).to_vec();
    let values = decode_payload(&array.fields, &vector("V22")).unwrap();
    assert_eq!(values, [("arg0".to_owned(), Value::Array(units))]);

    let pair = vec![Field::new("Key", FieldType::String), Field::new("Value", FieldType::String)];
    let arguments = FieldType::Array(FieldType::Object(pair).into());
    let diagnostic = EventMetadata {
        provider: "Microsoft-Diagnostics-DiagnosticSource".into(),
        event_id: 29,
        event_name: "Event".into(),
        keywords: 0xF000_0000_0002,
        level: 4,
        fields: vec![
            Field::new("SourceName", FieldType::String),
            Field::new("EventName", FieldType::String),
            Field::new("Arguments", arguments),
        ],
        ..EventMetadata::default()
    };
    check_definition("V23", 18, &diagnostic);
    let wanted =
        r#"{SourceName: "S", EventName: "E", Arguments: [{Key: "k1", Value: "v1"}, {Key: "k2", Value: ""}]}"#;
    check_payload("V24", &diagnostic, wanted);

    let collection = EventMetadata {
        provider: "System.Diagnostics.Metrics".into(),
        event_id: 2,
        event_name: "CollectionStart".into(),
        keywords: 0xF000_0000_0002,
        level: 4,
        opcode: 1,
        fields: vec![
            Field::new("sessionId", FieldType::String),
            Field::new("intervalStartTime", FieldType::DateTime),
            Field::new("intervalEndTime", FieldType::DateTime),
        ],
        ..EventMetadata::default()
    };
    check_definition("V25", 3, &collection);
    let wanted = "{sessionId: \"SHARED\", intervalStartTime: 2026-11-30T03:37:01.5985910Z, \
                  intervalEndTime: 2026-11-30T03:37:02.5985910Z}";
    check_payload("V26", &collection, wanted);
}

fn stack(id: u32, frames: &[u64]) -> Record {
    Record::Stack { id, frames: frames.to_vec() }
}

fn written_body(writer: &mut Writer, name: &str) -> Vec<u8> {
    writer.finish();
    objects(writer.output()).into_iter().rfind(|object| object.name == name).unwrap().body.to_vec()
}

// spec-test: NT4-STACK-1
// spec-test: NT4-STACK-2
#[test]
fn v14_v15_v16_stack_blocks() {
    let wide = real_info();
    let narrow = TraceInfo { pointer_size: 4, ..wide };
    let two = [0x7F00_0000_1000, 0x7F00_0000_2000];
    let cases = [
        ("V14", wide, vec![stack(1, &[])]),
        ("V15", wide, vec![stack(7, &two), stack(8, &[0x7F00_0000_1000])]),
        ("V16", narrow, vec![stack(1, &[0x7700_1000, 0x7700_2000])]),
    ];
    for (id, info, wanted) in cases {
        assert_eq!(block_records(&info, "StackBlock", &vector(id)), wanted, "{id}");
        let mut writer = Writer::new(&info);
        let Record::Stack { id: first, .. } = &wanted[0] else { panic!("a stack") };
        for other in 1..*first {
            writer.stack(&[u64::from(other)]);
        }
        writer.flush();
        for record in &wanted {
            let Record::Stack { id, frames } = record else { panic!("a stack") };
            assert_eq!(writer.stack(frames), *id);
            assert_eq!(writer.stack(frames), *id, "interned");
        }
        assert_eq!(written_body(&mut writer, "StackBlock"), vector(id), "{id}");
    }
}

// spec-test: NT4-SP-1
#[test]
fn v17_sequence_point() {
    let wanted = Record::SequencePoint { ticks: 1_789_701_354_105, threads: vec![(959, 1)] };
    assert_eq!(block_records(&real_info(), "SPBlock", &vector("V17")), [wanted]);
    let mut writer = Writer::new(&real_info());
    writer.sequence_point(1_789_701_354_105, [(959, 1)]);
    assert_eq!(written_body(&mut writer, "SPBlock"), vector("V17"));
}

fn events(records: &[Record]) -> Vec<&Event> {
    records
        .iter()
        .filter_map(|record| if let Record::Event(event) = record { Some(event) } else { None })
        .collect()
}

// spec-test: NT4-BLOB-5
#[test]
fn v27_uncompressed_events() {
    let records = block_records(&real_info(), "EventBlock", &vector("V27"));
    let [first, second] = events(&records)[..] else { panic!("two events") };
    assert_eq!((first.metadata_id, first.sequence, first.thread_id, first.ticks), (1, 1, 7, 3_000));
    assert_eq!((&first.payload[..], first.sorted), (&b"abc"[..], true));
    assert_eq!((second.metadata_id, second.sequence, second.thread_id, second.ticks), (1, 2, 7, 3_100));
    assert_eq!((&second.payload[..], second.sorted), (&b"abcd"[..], false));

    // The same, each padded to four bytes inside its own size: readers step by the size.
    let body = vector("V27");
    let mut padded = body[..20].to_vec();
    padded.extend_from_slice(&80_u32.to_le_bytes());
    padded.extend_from_slice(&body[24..103]);
    padded.push(0);
    padded.extend_from_slice(&body[103..]);
    assert_eq!(block_records(&real_info(), "EventBlock", &padded), records);
}

// spec-test: NT4-READ-1
#[test]
fn v29_smallest_useful_stream() {
    let records = read_clean(&vector("V29"));
    let [
        Record::Trace(_),
        Record::Metadata { id: 1, definition },
        stack_1,
        Record::Event(event),
        point,
        Record::End,
    ] = &records[..]
    else {
        panic!("{records:#?}")
    };
    assert_eq!((definition.provider.as_str(), definition.event_name.as_str()), ("My", "Hi"));
    assert_eq!(*stack_1, stack(1, &[]));
    assert_eq!((event.ticks, event.thread_id, event.processor, event.sorted), (3_000, 7, 0, true));
    let values = decode_payload(&event.definition.fields, &event.payload).unwrap();
    assert_eq!(values, [("n".to_owned(), Value::Int32(42))]);
    assert_eq!(*point, Record::SequencePoint { ticks: 4_000, threads: vec![(7, 1)] });
}

// spec-test: NT4-V3-1
#[test]
fn v30_netperf_event() {
    let mut stream = vec![20, 0, 0, 0];
    stream.extend_from_slice(b"!FastSerialization.1");
    stream.extend_from_slice(&[4, 4, 1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    stream.extend_from_slice(b"Trace\x06");
    stream.extend_from_slice(&vector("V04")[21..]); // the 48 bytes and the closing tag
    stream.extend_from_slice(&[4, 4, 1, 1, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0]);
    stream.extend_from_slice(b"EventBlock\x06");
    stream.extend_from_slice(&(vector("V30").len() as u32).to_le_bytes());
    stream.resize(stream.len().next_multiple_of(4), 0);
    stream.extend_from_slice(&vector("V30"));
    stream.extend_from_slice(&[6, 1]);
    let reading = read(&stream);
    assert_eq!((reading.error, reading.completion), (None, Completion::Complete));
    let [event] = events(&reading.records)[..] else { panic!("one event") };
    assert_eq!((event.metadata_id, event.thread_id, event.ticks), (1, 12_365, 25_833_951_873_397));
    assert_eq!((event.payload.len(), event.inline_stack.len()), (30, 9));
    let fields = [Field::new("i", FieldType::Int32), Field::new("text", FieldType::String)];
    let values = decode_payload(&fields, &event.payload).unwrap();
    assert_eq!(values[1].1, Value::String("Hello World!".into()));
}

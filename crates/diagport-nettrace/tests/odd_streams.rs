//! What a reader takes with a warning, and what it refuses, and where.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use diagport_nettrace::{
    Completion, EventMetadata, EventRow, FieldListProblem, MAX_KEPT_WARNINGS, ReadError, Reader, Record,
    TraceInfo, UtcTime, WarningKind, Writer, decode_metadata, encode_metadata, varuint,
};
use streams::{read, read_clean, vector};

fn info() -> TraceInfo {
    TraceInfo {
        start_utc: UtcTime::from_unix_millis(1_796_000_000_000),
        sync_ticks: 1,
        tick_frequency: 1_000_000_000,
        pointer_size: 8,
        process_id: 1,
        processor_count: 1,
        sampling_period_ns: 1_000_000,
    }
}

fn row(sequence: u32, ticks: i64) -> EventRow<'static> {
    EventRow {
        metadata_id: 1,
        sequence,
        capture_thread: 1,
        thread_id: 7,
        processor: u32::MAX,
        stack_id: 0,
        ticks,
        activity_id: [0; 16],
        related_activity_id: [0; 16],
        sorted: false,
        payload: b"xy",
    }
}

fn stream(info: &TraceInfo, rows: &[EventRow<'_>]) -> Vec<u8> {
    let mut writer = Writer::new(info);
    writer.define(&EventMetadata::default(), 10, 7);
    rows.iter().for_each(|row| writer.event(row));
    writer.finish();
    writer.output().to_vec()
}

/// Reads to the end in spite of one oddity, and returns the warnings.
fn warned(bytes: &[u8], events: usize) -> Vec<WarningKind> {
    let reading = read(bytes);
    assert_eq!((reading.error, reading.completion), (None, Completion::Complete));
    assert_eq!(reading.records.iter().filter(|record| matches!(record, Record::Event(_))).count(), events);
    reading.warnings.into_iter().map(|warning| warning.kind).collect()
}

// spec-test: NT4-READ-4
#[test]
fn odd_headers_and_clocks_are_warnings() {
    let start_utc = UtcTime { millisecond: 1000, ..info().start_utc };
    let bytes = stream(&TraceInfo { start_utc, ..info() }, &[row(1, 10)]);
    assert_eq!(warned(&bytes, 1), [WarningKind::OddStartTime(start_utc)]);

    let bytes = stream(&TraceInfo { tick_frequency: 0, ..info() }, &[row(1, 10)]);
    assert_eq!(warned(&bytes, 1), [WarningKind::OddTickFrequency(0)]);

    let ten_seconds = 10_000_000_000;
    let bytes = stream(&info(), &[row(1, 2 * ten_seconds), row(2, ten_seconds), row(3, ten_seconds)]);
    let back = WarningKind::ClockWentBack { capture_thread: 1, ticks: ten_seconds as u64 };
    assert_eq!(warned(&bytes, 3), [back]);

    let other_thread = EventRow { capture_thread: 2, sorted: true, ..row(1, 5) };
    assert_eq!(
        warned(&stream(&info(), &[row(1, 10), other_thread]), 2),
        [],
        "threads have clocks of their own"
    );

    let mut bytes = stream(&info(), &[row(1, 10)]);
    bytes.extend_from_slice(b"tail");
    assert_eq!(warned(&bytes, 1), [WarningKind::TrailingBytes]);
}

// spec-test: NT4-READ-4
#[test]
fn warnings_are_bounded() {
    let rows: Vec<_> = (0..3_000_u32).map(|number| row(number, -i64::from(number))).collect();
    let bytes = stream(&info(), &rows);
    let mut reader = Reader::new();
    reader.feed(&bytes);
    while reader.next_record().unwrap().is_some() {}
    assert_eq!((reader.warnings().len(), reader.warning_count()), (MAX_KEPT_WARNINGS, 2_999));
}

/// Name, version and body.
type Framed<'a> = (&'a str, u32, &'a [u8]);

fn framed(objects: &[Framed<'_>]) -> Vec<u8> {
    let mut bytes = Writer::new(&info()).output().to_vec();
    for (name, version, body) in objects {
        bytes.extend_from_slice(&[5, 5, 1]);
        bytes.extend_from_slice(&[version.to_le_bytes(), version.to_le_bytes()].concat());
        bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(6);
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend_from_slice(body);
        bytes.push(6);
    }
    bytes.push(1);
    bytes
}

fn block(blobs: &[u8]) -> Vec<u8> {
    let mut body = vec![20, 0, 1, 0];
    body.extend_from_slice(&[0; 16]);
    body.extend_from_slice(blobs);
    body
}

fn definition_blob(payload: &[u8]) -> Vec<u8> {
    let mut blob = vec![0xC0, 5];
    varuint::encode(payload.len() as u64, &mut blob);
    blob.extend_from_slice(payload);
    block(&blob)
}

// spec-test: NT4-READ-4
#[test]
fn odd_blocks_are_warnings() {
    let mut definition = Vec::new();
    encode_metadata(1, &EventMetadata::default(), &mut definition);
    let definition = definition_blob(&definition);
    let event = block(&[0xCF, 1, 0, 7, 0, 7, 9, 5, 1, 42]); // stack 9 was never defined
    let mut wide = event.clone();
    (wide[0], wide[1]) = (24, 0);
    wide.splice(20..20, [0; 4]);
    let point = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 9, 9];
    let cases: [(&[Framed<'_>], usize, &[WarningKind]); 9] = [
        (&[("MetadataBlock", 2, &definition), ("EventBlock", 2, &event)], 1, &[]),
        (&[("EventBlock", 2, &event)], 1, &[WarningKind::UndefinedMetadata(1)]),
        (
            &[("MetadataBlock", 2, &definition), ("MetadataBlock", 2, &definition)],
            0,
            &[WarningKind::RedefinedMetadata(1)],
        ),
        (&[("EventBlock", 2, &block(&[]))], 0, &[WarningKind::EmptyEventBlock]),
        (&[("MetadataBlock", 2, &block(&[]))], 0, &[]),
        (
            &[("MetadataBlock", 2, &definition), ("EventBlock", 2, &wide)],
            1,
            &[WarningKind::OddBlockHeader(24)],
        ),
        (
            &[("StackBlock", 2, &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])],
            0,
            &[WarningKind::StackCount { said: 2, held: 1 }],
        ),
        (&[("StackBlock", 2, &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5])], 0, &[WarningKind::SpareBytes(1)]),
        (&[("SPBlock", 2, &point)], 0, &[WarningKind::SpareBytes(2)]),
    ];
    for (objects, events, wanted) in cases {
        assert_eq!(warned(&framed(objects), events), wanted, "{objects:02x?}");
    }
}

// spec-test: NT4-META-6
// spec-test: NT4-META-7
#[test]
fn odd_field_lists_cost_only_the_fields() {
    let mut short = Vec::new();
    encode_metadata(1, &EventMetadata { provider: "P".into(), ..EventMetadata::default() }, &mut short);
    short.truncate(short.len() - 4); // no count: ends after the level
    let with = |tail: &[u8]| [&short[..], tail].concat();
    let deep = [&[1, 0, 0, 0][..], &[1, 0, 0, 0, 1, 0, 0, 0].repeat(40), &[0; 200]].concat();
    for (payload, problem, opcode) in [
        (short.clone(), None, 0),
        (with(&[0, 0, 0, 0]), None, 0),
        (with(&[0, 0, 0, 0, 2, 0, 0, 0, 1, 7, 99, 3, 0, 0, 0, 200, 1, 2, 3]), None, 7), // spare byte, unknown tag
        (with(&[0, 0, 0, 0, 1, 2, 3]), None, 0),
        (with(&[0, 0, 0, 0x80]), Some(FieldListProblem::BadCount), 0),
        (with(&[0, 0, 0, 0x40, 9, 0, 0, 0, 0, 0]), Some(FieldListProblem::BadCount), 0),
        (with(&[1, 0, 0, 0, 9, 0, 0, 0, 65, 0]), Some(FieldListProblem::TooShort), 0),
        (with(&[1, 0, 0, 0, 19, 0, 0, 0, 3, 0, 0, 0, 0, 0]), Some(FieldListProblem::ArrayInV1), 0),
        (with(&[0, 0, 0, 0, 255, 0, 0, 0, 2, 0]), Some(FieldListProblem::TooShort), 0),
        (with(&deep), Some(FieldListProblem::TooDeep), 0),
    ] {
        let decoded = decode_metadata(&payload).unwrap();
        assert_eq!((decoded.problem, decoded.definition.opcode), (problem, opcode), "{payload:02x?}");
        assert_eq!((decoded.id, decoded.definition.provider.as_str()), (1, "P"));
        assert_eq!(decoded.definition.fields, []);
        let kinds = warned(&framed(&[("MetadataBlock", 2, &definition_blob(&payload))]), 0);
        let wanted = problem.map(|problem| WarningKind::FieldList { id: 1, problem });
        assert_eq!(kinds, wanted.into_iter().collect::<Vec<_>>());
    }
}

fn refused(bytes: &[u8]) -> ReadError {
    let mut reader = Reader::new();
    reader.feed(bytes);
    loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("not refused: {}", reader.finish()),
            Err(error) => {
                assert_eq!(reader.next_record(), Err(error.clone()), "the error stays");
                assert_eq!(reader.finish(), Completion::Truncated { at_byte: bytes.len() as u64 });
                return error;
            }
        }
    }
}

// spec-test: NT4-READ-3
// spec-test: NT4-READ-5
// spec-test: NT4-READ-6
#[test]
fn what_cannot_be_read_names_its_place() {
    let whole = stream(&info(), &[row(1, 10)]);
    let patched = |at: usize, bytes: &[u8]| {
        let mut stream = whole.clone();
        stream[at..at + bytes.len()].copy_from_slice(bytes);
        stream
    };
    let metadata_at = 102;
    let size_at = metadata_at + 29;
    let huge_point = framed(&[("SPBlock", 2, &[0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255])]);
    for (bytes, message) in [
        (b"Netscape".to_vec(), "byte 3: not a NetTrace stream"),
        (patched(20, b"?"), "byte 20: not a NetTrace stream"),
        (patched(35, &[6]), "byte 35: unsupported version 6 of the format (versions 3 to 5 can be read)"),
        (patched(33, &[4]), "byte 33: tag 0x04 where 0x05 must be"),
        (patched(85, &[3]), "byte 85: pointer size of 3 is out of range"),
        (
            patched(metadata_at + 7, &[3]),
            "byte 105: unsupported version 2 of the MetadataBlock (versions 3 to 5 can be read)",
        ),
        (patched(metadata_at + 15, b"X"), "byte 117: unknown object \"XetadataBlock\""),
        (patched(metadata_at + 11, &[200]), "byte 113: object name length of 200 is out of range"),
        (patched(size_at, &[255; 4]), "byte 131: block size of -1 is out of range"),
        (patched(size_at, &[0, 0, 0, 0x7F]), "byte 131: block size of 2130706432 is out of range"),
        (patched(size_at, &[10]), "byte 146: tag 0x00 where 0x06 must be"),
        ([&whole[..102], &whole[32..]].concat(), "byte 102: the Trace object must come first, and once"),
        ([&whole[..32], &whole[102..]].concat(), "byte 32: the Trace object must come first, and once"),
        (framed(&[("EventBlock", 2, &[19, 0, 1, 0])]), "byte 132: block header size of 19 is out of range"),
        (
            framed(&[("EventBlock", 2, &block(&[0x80, 0, 9, 1]))]),
            "byte 152: a payload that ends past its block",
        ),
        (
            framed(&[("EventBlock", 2, &block(&[0x02, 0x80]))]),
            "byte 152: a compressed header that does not fit its block",
        ),
        (
            framed(&[("StackBlock", 2, &[1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3])]),
            "byte 140: stack size of 3 is out of range",
        ),
        (huge_point, "byte 140: thread count of 4294967295 is out of range"),
    ] {
        let error = refused(&bytes);
        assert_eq!(error.to_string(), message);
        assert!(message.starts_with(&format!("byte {}:", error.at_byte())));
    }
}

// spec-test: NT4-READ-4
#[test]
fn a_real_file_with_edited_time_is_read() {
    let mut bytes = vector("nettrace", "real-net10-counters-metrics-gc.nettrace");
    let clean = read_clean(&bytes).len();
    bytes[53 + 14..53 + 16].copy_from_slice(&1000_u16.to_le_bytes());
    let reading = read(&bytes);
    assert_eq!((reading.error, reading.records.len(), reading.warnings.len()), (None, clean, 1));
    let shown = reading.warnings[0].to_string();
    assert_eq!(shown, "byte 53: the start time 2026-11-30T03:50:54.1000Z is not a valid date and time");
}

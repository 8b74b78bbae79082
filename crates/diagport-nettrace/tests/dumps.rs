//! The text and JSON forms of a stream, as `convert` prints them.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use diagport_nettrace::json::JsonDump;
use diagport_nettrace::text::TextDump;
use diagport_nettrace::{
    Completion, EventMetadata, EventRow, Field, FieldType, Reader, TraceInfo, UtcTime, Writer,
};
use streams::vector;

/// One of everything a line can show.
fn sample() -> Vec<u8> {
    let mut writer = Writer::new(&TraceInfo {
        start_utc: UtcTime::from_unix_millis(1_796_010_780_818),
        sync_ticks: 1_000,
        tick_frequency: 1_000_000_000,
        pointer_size: 8,
        process_id: 4242,
        processor_count: 2,
        sampling_period_ns: 1_000_000,
    });
    let fields = vec![
        Field::new("n", FieldType::Int32),
        Field::new("text", FieldType::String),
        Field::new("on", FieldType::Boolean),
        Field::new("ratio", FieldType::Double),
        Field::new("at", FieldType::DateTime),
        Field::new("id", FieldType::Guid),
        Field::new("letters", FieldType::Array(FieldType::Char.into())),
        Field::new("odd name", FieldType::Object(vec![Field::new("b", FieldType::Byte)])),
    ];
    let rich = EventMetadata {
        provider: "Demo".into(),
        event_id: 1,
        event_name: "Rich".into(),
        keywords: 0x11,
        version: 2,
        level: 4,
        opcode: 1,
        fields,
    };
    let native = EventMetadata { provider: "Native".into(), event_id: 9, ..EventMetadata::default() };
    let (rich, native) = (writer.define(&rich, 2_000, 7), writer.define(&native, 3_000, 7));
    let stack_id = writer.stack(&[0x7F00_0000_1000, 0x40]);
    let mut payload = (-1_i32).to_le_bytes().to_vec();
    payload.extend("a\"\u{1F600}\n\0".encode_utf16().flat_map(u16::to_le_bytes));
    payload.extend_from_slice(&1_u32.to_le_bytes());
    payload.extend_from_slice(&f64::NAN.to_le_bytes());
    payload.extend_from_slice(&134_404_834_215_985_910_i64.to_le_bytes());
    payload.extend_from_slice(&[0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 8, 9, 10, 11, 12, 13, 14, 15]);
    payload.extend_from_slice(&[2, 0, b'h', 0, b'i', 0, 200]);
    let row = EventRow {
        metadata_id: rich,
        sequence: 1,
        capture_thread: 1,
        thread_id: 7,
        processor: 3,
        stack_id,
        ticks: 2_000,
        activity_id: [1; 16],
        related_activity_id: [0; 16],
        sorted: true,
        payload: &payload,
    };
    writer.event(&row);
    let plain = EventRow { processor: u32::MAX, activity_id: [0; 16], stack_id: 0, ..row };
    writer.event(&EventRow {
        metadata_id: native,
        sequence: 4,
        ticks: 3_000,
        sorted: false,
        payload: &[1, 255],
        ..plain
    });
    writer.event(&EventRow { sequence: 5, ticks: 3_000, sorted: false, payload: &[1], ..plain });
    writer.sequence_point(4_000, [(1, 6), (2, 0)]);
    writer.finish();
    writer.output().to_vec()
}

fn dumps(bytes: &[u8]) -> (String, String, Completion) {
    let (mut reader, mut text, mut json) = (Reader::new(), TextDump::new(), JsonDump::new());
    let (mut text_out, mut json_out) = (String::new(), String::new());
    reader.feed(bytes);
    while let Some(record) = reader.next_record().unwrap() {
        text.record(&record, &mut text_out);
        json.record(&record, &mut json_out);
    }
    text.end(reader.finish(), &mut text_out);
    json.end(reader.finish(), &mut json_out);
    (text_out, json_out, reader.finish())
}

fn check(shown: &str, wanted: &[&str]) {
    for (index, (shown, wanted)) in shown.lines().zip(wanted).enumerate() {
        assert_eq!(shown, *wanted, "line {index}");
    }
    assert_eq!(shown.lines().count(), wanted.len(), "{shown}");
}

#[test]
fn every_record_is_one_line() {
    let (text, json, _) = dumps(&sample());
    check(
        &text,
        &[
            "trace start=2026-11-30T03:53:00.818Z sync_ticks=1000 frequency=1000000000 pointer_size=8 process=4242 processors=2 sampling_ns=1000000",
            "metadata 1 \"Demo\"/1/\"Rich\" keywords=0x11 version=2 level=4 opcode=1 (\"n\": Int32, \"text\": String, \"on\": Boolean, \"ratio\": Double, \"at\": DateTime, \"id\": Guid, \"letters\": Array<Char>, \"odd name\": Object(\"b\": Byte))",
            "metadata 2 \"Native\"/9/\"\" keywords=0x0 version=0 level=0 opcode=0 ()",
            "stack 1 [0x7f0000001000, 0x40]",
            "event 1 \"Demo\"/1/\"Rich\" ticks=2000 thread=7 capture=1 sequence=1 processor=3 stack=1 activity=01010101-0101-0101-0101-010101010101 sorted {n: -1, text: \"a\\\"\u{1F600}\\n\", on: true, ratio: NaN, at: 2026-11-30T03:37:01.5985910Z, id: 00112233-4455-6677-0809-0a0b0c0d0e0f, letters: \"hi\", \"odd name\": {b: 200}}",
            "event 2 \"Native\"/9/\"\" ticks=3000 thread=7 capture=1 sequence=4 stack=0 payload=01ff",
            "event 1 \"Demo\"/1/\"Rich\" ticks=3000 thread=7 capture=1 sequence=5 stack=0 payload=01 (the payload ends inside field \"n\")",
            "sequence_point ticks=4000 threads=[1:6, 2:0]",
            "end complete: events=3 definitions=2 stacks=1 sequence_points=1 lost=3",
        ],
    );
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 9);
    assert_eq!(
        lines[4]["fields"],
        serde_json::json!({
            "n": -1, "text": "a\"\u{1F600}\n", "on": true, "ratio": "NaN", "at": "2026-11-30T03:37:01.5985910Z",
            "id": "00112233-4455-6677-0809-0a0b0c0d0e0f", "letters": "hi", "odd name": {"b": 200},
        })
    );
    assert_eq!(lines[6]["problem"], "the payload ends inside field \"n\"");
    assert_eq!((&lines[8]["complete"], &lines[8]["lost"]), (&true.into(), &3.into()));
}

#[test]
fn the_last_line_tells_of_a_cut() {
    let bytes = sample();
    let (text, json, _) = dumps(&bytes[..bytes.len() - 1]);
    let cut = bytes.len() - 1;
    let last =
        format!("end truncated at byte {cut}: events=3 definitions=2 stacks=1 sequence_points=1 lost=3");
    assert_eq!(text.lines().last(), Some(last.as_str()));
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!((&last["complete"], &last["truncated_at_byte"]), (&false.into(), &cut.into()));
}

#[test]
fn real_files_decode_without_a_problem() {
    for name in [
        "real-net10-counters-metrics-gc.nettrace",
        "real-net10-activities-v2params.nettrace",
        "public-perfview-eventpipe-dotnetcore5.0-win-x64-arraytypes.nettrace",
        "public-perfview-eventpipe-dotnetcore2.1-linux-x64-tracelogging.netperf",
        "real-net10-netperf3.nettrace",
    ] {
        let (text, json, completion) = dumps(&vector("nettrace", name));
        assert_eq!(completion, Completion::Complete);
        assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{name}");
        let problem = text.lines().find(|line| line.ends_with(')') && line.contains("payload=0"));
        assert_eq!(problem, None, "{name}");
    }
}

//! Mutated streams: no panic, and a text form of whatever could be read. For their memory see hostile_memory.rs.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use diagport_nettrace::json::JsonDump;
use diagport_nettrace::text::TextDump;
use diagport_nettrace::{Field, FieldType, Reader, decode_payload};
use streams::mutations::each_mutation;

/// As `convert` does it; texts may be longer than the bytes they come from, so memory is not counted here.
fn dump_all(bytes: &[u8]) {
    let (mut reader, mut text, mut json) = (Reader::new(), TextDump::new(), JsonDump::new());
    let mut line = String::new();
    reader.feed(bytes);
    while let Ok(Some(record)) = reader.next_record() {
        line.clear();
        text.record(&record, &mut line);
        line.clear();
        json.record(&record, &mut line);
        if !line.is_empty() {
            serde_json::from_str::<serde_json::Value>(&line)
                .unwrap_or_else(|error| panic!("{error}: {line}"));
        }
    }
}

// spec-test: NT4-READ-3
#[test]
fn hostile_bytes_can_be_dumped() {
    each_mutation(|bytes, _| dump_all(bytes));
}

/// Arrays of arrays of objects without members: no payload byte stands behind the inner values.
// spec-test: NT4-READ-7
#[test]
fn values_without_bytes_are_bounded() {
    let nothing = FieldType::Object(vec![]);
    let nested = FieldType::Array(FieldType::Array(nothing.into()).into());
    let error = decode_payload(&[Field::new("f", nested)], &[0xFF; 60_000]).expect_err("2 billion values");
    assert_eq!(error.to_string(), "field \"f\" holds more values than its payload can justify");
}

//! Real files of .NET Core 2.1 to .NET 10: the numbers an independent decoder found in them.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use std::collections::BTreeMap;

use diagport_nettrace::{Completion, LossCounter, Record, TraceInfo};
use serde_json::{Value, json};
use streams::keep::keep;
use streams::{objects, read, read_clean, vector, vectors, write_again};

fn expected() -> Vec<(String, Value)> {
    let table = std::fs::read_to_string(vectors("nettrace").join("expected.json")).unwrap();
    let Value::Object(files) = serde_json::from_str(&table).unwrap() else { panic!("a table of files") };
    files.into_iter().collect()
}

/// What the records say, in the form of expected.json.
fn summary(records: &[Record], object_counts: Value, format: u64, bytes: usize) -> Value {
    let Some(Record::Trace(info)) = records.first() else { panic!("no Trace object first") };
    let (mut by_event, mut loss) = (BTreeMap::<_, u64>::new(), LossCounter::new());
    let (mut definitions, mut stacks, mut sequence_points, mut events) = (0, 0, 0, 0);
    for record in records {
        loss.record(record);
        match record {
            Record::Metadata { .. } => definitions += 1,
            Record::Stack { .. } => stacks += 1,
            Record::SequencePoint { .. } => sequence_points += 1,
            Record::Event(event) => {
                events += 1;
                let definition = &event.definition;
                let key = (definition.provider.clone(), definition.event_id, definition.event_name.clone());
                *by_event.entry(key).or_default() += 1;
            }
            Record::Trace(_) | Record::End => {}
        }
    }
    let by_event: Vec<_> =
        by_event.iter().map(|((provider, id, name), count)| json!([provider, id, name, count])).collect();
    let TraceInfo {
        start_utc, sync_ticks, tick_frequency, pointer_size, process_id, processor_count, ..
    } = info;
    json!({
        "bytes": bytes, "format": format, "start_utc": start_utc.to_string(), "sync_ticks": sync_ticks,
        "tick_frequency": tick_frequency, "pointer_size": pointer_size, "process_id": process_id,
        "processor_count": processor_count, "objects": object_counts, "events": events, "definitions": definitions,
        "stacks": stacks, "sequence_points": sequence_points, "lost": loss.lost(), "by_event": by_event,
    })
}

fn check(name: &str, mut wanted: Value) {
    let bytes = vector("nettrace", name);
    let records = read_clean(&bytes);
    let format = wanted["format"].as_u64().unwrap();
    let object_counts = if format == 4 {
        let mut counts = BTreeMap::<_, u64>::new();
        for object in objects(&bytes) {
            *counts.entry(object.name).or_default() += 1;
        }
        json!(counts)
    } else {
        wanted["objects"].clone() // V3 framing is walked by the reader alone
    };
    let rows = wanted["by_event"].as_array_mut().unwrap();
    rows.sort_by_key(|row| (row[0].to_string(), row[1].as_u64(), row[2].to_string()));
    assert_eq!(summary(&records, object_counts, format, bytes.len()), wanted, "{name}");
}

// spec-test: NT4-READ-1
// spec-test: NT4-V3-1
// spec-test: LOSS-EVENT-1
#[test]
fn every_sample_file_holds_what_its_page_says() {
    let files = expected();
    assert_eq!(files.len(), 11);
    for (name, wanted) in files {
        check(&name, wanted);
    }
}

/// Stacks and events with the ids of one region replaced by what they mean, so that two numberings compare.
fn resolved(records: &[Record]) -> Vec<Record> {
    let mut frames_of = BTreeMap::new();
    let (mut definitions, mut rest) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Metadata { .. } => definitions.push(record.clone()),
            Record::Stack { id, frames } => drop(frames_of.insert(*id, frames.clone())),
            Record::Event(event) => {
                let mut event = event.clone();
                event.inline_stack = frames_of.get(&event.stack_id).cloned().unwrap_or_default();
                event.stack_id = 0;
                rest.push(Record::Event(event));
            }
            Record::SequencePoint { .. } => {
                frames_of.clear();
                rest.push(record.clone());
            }
            Record::Trace(_) | Record::End => rest.push(record.clone()),
        }
    }
    definitions.extend(rest);
    definitions
}

// spec-test: NT4-BLOB-2
// spec-test: NT4-META-1
// spec-test: NT4-STACK-1
#[test]
fn every_v4_sample_written_again_reads_the_same() {
    for (name, wanted) in expected() {
        if wanted["format"] != 4 {
            continue;
        }
        let bytes = vector("nettrace", &name);
        let records = read_clean(&bytes);
        let again = write_again(&records);
        objects(&again); // the framing holds for the independent walker too
        if wanted["lost"] == 0 {
            keep(&again, 0);
        }
        let (before, after) = (resolved(&records), resolved(&read_clean(&again)));
        assert_eq!(before.len(), after.len(), "{name}");
        if let Some(at) = (0..before.len()).find(|&at| before[at] != after[at]) {
            panic!("{name}: record {at} differs\nbefore {:?}\nafter  {:?}", before[at], after[at]);
        }
        let grown = again.len() as f64 / bytes.len() as f64;
        assert!(grown < 1.02, "{name}: {} bytes became {}", bytes.len(), again.len());
    }
}

// spec-test: NT4-READ-5
#[test]
fn version_6_is_refused_by_its_number() {
    let mut stream = b"Nettrace".to_vec();
    stream.extend_from_slice(&[0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    let reading = read(&stream);
    let error = reading.error.expect("version 6 cannot be read").to_string();
    assert!(error.contains("unsupported version 6"), "{error}");
    assert_eq!(reading.completion, Completion::Truncated { at_byte: stream.len() as u64 });
}

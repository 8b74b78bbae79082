//! Streams whose loss is known: the format alone gives the number, and the thread where the writer keeps the rules.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use std::collections::BTreeMap;

use diagport_nettrace::{LossCounter, Record};
use serde_json::Value;
use streams::keep::keep;
use streams::{read, vector, vectors, write_again};

/// Cases where the numbers cannot say the truth (README of the vectors): undefined, or a number nobody tried was listed.
const NOT_PROVABLE: [&str; 4] = ["04c-head-listed-1", "05c-silent-listed-1", "08g-listed-low", "08j-gap-2g"];

// spec-test: LOSS-EVENT-1
// spec-test: LOSS-POINT-1
// spec-test: LOSS-STEP-1
#[test]
fn the_numbers_alone_give_the_loss() {
    let table = std::fs::read_to_string(vectors("loss").join("cases.json")).unwrap();
    let cases: BTreeMap<String, Value> = serde_json::from_str(&table).unwrap();
    let mut checked = 0;
    for (name, case) in &cases {
        let file = format!("{name}.nettrace");
        if !vectors("loss").join(&file).exists() {
            continue; // the big ones are written on demand
        }
        let bytes = vector("loss", &file);
        let reading = read(&bytes);
        assert_eq!(reading.error, None, "{name}");
        let mut loss = LossCounter::new();
        reading.records.iter().for_each(|record| loss.record(record));
        let events =
            reading.records.iter().filter(|record| matches!(record, Record::Event(_))).count() as u64;
        assert_eq!(bytes.len() as u64, case["bytes"], "{name}: bytes");
        assert_eq!(
            events,
            case["delivered"].as_u64().unwrap() + case["info_events"].as_u64().unwrap(),
            "{name}"
        );
        assert_eq!(loss.lost(), case["format_alone"]["lost"], "{name}: lost");
        if !NOT_PROVABLE.contains(&name.as_str()) {
            assert_eq!(loss.lost(), case["true_lost"], "{name}: the true loss");
        }
        let exact = |(_, reader): (&String, &Value)| reader["exact"] == true;
        if case["readers"].as_object().unwrap().iter().all(exact) {
            // Written by us, it must still be read so.
            keep(&write_again(&reading.records), case["true_lost"].as_u64().unwrap());
        }
        assert_eq!(
            loss.lost_by_thread().map(|(_, lost)| lost).sum::<u64>(),
            loss.lost(),
            "{name}: by thread"
        );
        checked += 1;
    }
    assert_eq!(checked, 32);
}

// spec-test: LOSS-OWNER-1
#[test]
fn a_hole_belongs_to_the_thread_of_the_event_before_it() {
    // Capture id 1 goes from thread 70 to thread 80; number 1 of id 2 never came.
    let mut loss = LossCounter::new();
    loss.event_number(1, 70, 1);
    loss.event_number(1, 80, 4);
    loss.sequence_point(&[(1, 9), (2, 3)]);
    let by_thread: BTreeMap<_, _> = loss.lost_by_thread().collect();
    assert_eq!(by_thread, BTreeMap::from([(None, 3), (Some(70), 2), (Some(80), 5)]));
    assert_eq!([1, 2, 3].map(|id| loss.lost_on_capture_thread(id)), [7, 3, 0]);
    assert_eq!(loss.lost(), 10);
}

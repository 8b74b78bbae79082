//! Skimming says what reading says: same numbers, same warnings, same errors, on whole, cut and damaged streams.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use diagport_nettrace::{Completion, LossCounter, ReadError, Reader, Record, Warning};
use streams::mutations::each_mutation;
use streams::vectors;

#[derive(Clone, Copy)]
enum Way {
    Reading,
    Skimming,
}

type Numbers = (u64, u64, Vec<(Option<u64>, u64)>, Completion, Option<ReadError>, Vec<Warning>, u64);

fn numbers(way: Way, bytes: &[u8], piece_bytes: usize) -> Numbers {
    let (mut reader, mut loss, mut events) = (Reader::new(), LossCounter::new(), 0);
    let mut fault = None;
    for piece in bytes.chunks(piece_bytes.max(1)) {
        reader.feed(piece);
        while fault.is_none() {
            if let Way::Skimming = way {
                reader.skim_events(|event| {
                    events += 1;
                    loss.event_number(event.capture_thread, event.thread_id, event.sequence);
                });
            }
            match reader.next_record() {
                Ok(Some(record)) => {
                    events += u64::from(matches!(record, Record::Event(_)));
                    loss.record(&record);
                }
                Ok(None) => break,
                Err(error) => fault = Some(error),
            }
        }
    }
    let mut by_thread: Vec<_> = loss.lost_by_thread().collect();
    by_thread.sort_unstable();
    let warnings = reader.warnings().to_vec();
    (events, loss.lost(), by_thread, reader.finish(), fault, warnings, reader.warning_count())
}

fn check(bytes: &[u8], piece_bytes: usize) {
    assert_eq!(numbers(Way::Skimming, bytes, piece_bytes), numbers(Way::Reading, bytes, piece_bytes));
}

// spec-test: NT4-READ-1
#[test]
fn skimming_says_what_reading_says() {
    for folder in ["nettrace", "loss"] {
        for entry in std::fs::read_dir(vectors(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "nettrace" || kind == "netperf") {
                let bytes = std::fs::read(&path).unwrap();
                check(&bytes, bytes.len());
                check(&bytes, 4_096);
                check(&bytes[..bytes.len() * 2 / 3], 1_000);
            }
        }
    }
    each_mutation(check);
}

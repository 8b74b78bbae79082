//! Reading a NetTrace stream in every way there is.

use diagport_nettrace::json::JsonDump;
use diagport_nettrace::text::TextDump;
use diagport_nettrace::{Completion, LossCounter, ReadError, Reader, Record, Totals, Warning};

use crate::story::Story;

/// Everything a reader says about a stream.
#[derive(Debug, PartialEq)]
pub struct Reading {
    /// All records.
    pub records: Vec<Record>,
    /// Why there are no more.
    pub error: Option<ReadError>,
    /// How the stream ended.
    pub completion: Completion,
    /// The kept ones.
    pub warnings: Vec<Warning>,
    /// Also those not kept.
    pub warning_count: u64,
}

/// Reads a stream that comes in pieces of `piece_bytes`, pulling all records after each.
pub fn read(bytes: &[u8], piece_bytes: usize) -> Reading {
    let (mut reader, mut records, mut error) = (Reader::new(), Vec::new(), None);
    for piece in bytes.chunks(piece_bytes.max(1)) {
        reader.feed(piece);
        while error.is_none() {
            match reader.next_record() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(problem) => error = Some(problem),
            }
        }
    }
    let warnings = reader.warnings().to_vec();
    Reading { records, error, completion: reader.finish(), warnings, warning_count: reader.warning_count() }
}

/// Whole, in pieces and skimmed a stream says the same.
pub fn check(bytes: &[u8], piece_bytes: usize) -> Reading {
    let whole = read(bytes, bytes.len());
    let pieces = read(bytes, piece_bytes);
    assert_eq!(pieces.records, whole.records, "in pieces of {piece_bytes}");
    assert_eq!(pieces, whole, "in pieces of {piece_bytes}");
    check_skimming(bytes, piece_bytes, &whole);
    whole
}

/// What was read can be dumped; and when nothing is odd about it, it can be written again. Takes several times as long as reading.
pub fn check_uses(reading: &Reading) {
    dump(reading);
    if reading.error.is_none() && reading.warning_count == 0 && reading.completion == Completion::Complete {
        Story::check_written_again(&reading.records);
    }
}

fn check_skimming(bytes: &[u8], piece_bytes: usize, whole: &Reading) {
    let (mut reader, mut loss, mut events, mut error) = (Reader::new(), LossCounter::new(), 0, None);
    for piece in bytes.chunks(piece_bytes.max(1)) {
        reader.feed(piece);
        while error.is_none() {
            reader.skim_events(|event| {
                events += 1;
                loss.event_number(event.capture_thread, event.thread_id, event.sequence);
            });
            match reader.next_record() {
                Ok(Some(record)) => {
                    events += u64::from(matches!(record, Record::Event(_)));
                    loss.record(&record);
                }
                Ok(None) => break,
                Err(problem) => error = Some(problem),
            }
        }
    }
    let mut totals = Totals::default();
    whole.records.iter().for_each(|record| totals.record(record));
    assert_eq!((events, loss.lost()), (totals.events, totals.loss.lost()), "skimmed");
    assert_eq!(by_thread(&loss), by_thread(&totals.loss), "skimmed");
    assert_eq!(by_thread(&loss).iter().map(|(_, lost)| lost).sum::<u64>(), loss.lost());
    assert_eq!((&error, reader.finish()), (&whole.error, whole.completion), "skimmed");
    assert_eq!(reader.warnings(), whole.warnings, "skimmed");
    assert_eq!(reader.warning_count(), whole.warning_count, "skimmed");
}

fn by_thread(loss: &LossCounter) -> Vec<(Option<u64>, u64)> {
    let mut lost: Vec<_> = loss.lost_by_thread().collect();
    lost.sort_unstable();
    lost
}

/// As `convert` does it. Each line of JSON is JSON.
fn dump(reading: &Reading) {
    let (mut text, mut json, mut line) = (TextDump::new(), JsonDump::new(), String::new());
    let parse = |line: &str| {
        let parsed = serde_json::from_str::<serde_json::Value>(line);
        assert!(parsed.is_ok(), "{parsed:?}: {line}");
    };
    for record in &reading.records {
        line.clear();
        text.record(record, &mut line);
        line.clear();
        json.record(record, &mut line);
        if !line.is_empty() {
            parse(&line);
        }
    }
    line.clear();
    text.end(reading.completion, &mut line);
    line.clear();
    json.end(reading.completion, &mut line);
    parse(&line);
}

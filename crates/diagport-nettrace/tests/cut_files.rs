//! A file that was cut anywhere: no panic, every complete block, and the place of the cut.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use diagport_nettrace::{Completion, Reader, Record};
use streams::{Dice, objects, read_clean, read_in_pieces, vector};

const SMALL: &str = "public-perfview-eventpipe-dotnetcore6.0-win-x64-executioncheckpoints.nettrace";
const COUNTERS: &str = "real-net10-counters-metrics-gc.nettrace";
const LOSSY: &str = "real-net10-lossy.nettrace";
const NETPERF: &str = "real-net10-netperf3.nettrace";

/// The records that stand in whole objects, by the offset where each object ends.
struct Whole {
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// End of an object, and how many records stand before it.
    ends: Vec<(usize, usize)>,
}

impl Whole {
    fn new(name: &str) -> Self {
        let bytes = vector("nettrace", name);
        let records = read_clean(&bytes);
        let mut ends = vec![(0, 0)];
        for object in objects(&bytes) {
            let reading = read_in_pieces(&bytes[..object.end], usize::MAX);
            ends.push((object.end, reading.records.len()));
        }
        let before_end_marker = ends.last().unwrap().1;
        assert_eq!(before_end_marker + 1, records.len(), "only the end marker is missing");
        Self { bytes, records, ends }
    }

    /// Reads the first `cut` bytes in pieces.
    fn check(&self, cut: usize, piece_bytes: usize, context: &str) {
        let reading = read_in_pieces(&self.bytes[..cut], piece_bytes);
        assert_eq!(reading.error, None, "{context}: cut at {cut}");
        let (completion, count) = if cut == self.bytes.len() {
            (Completion::Complete, self.records.len())
        } else {
            let (_, count) = *self.ends.iter().rfind(|(end, _)| *end <= cut).unwrap();
            (Completion::Truncated { at_byte: cut as u64 }, count)
        };
        assert_eq!(reading.completion, completion, "{context}");
        assert_eq!(reading.records.len(), count, "{context}: cut at {cut}");
        assert!(reading.records == self.records[..count], "{context}: cut at {cut}: other records");
    }
}

// spec-test: NT4-READ-1
// spec-test: NT4-READ-2
#[test]
fn cut_at_every_byte_of_the_first_4_kb() {
    for name in [SMALL, COUNTERS, LOSSY] {
        let whole = Whole::new(name);
        for cut in 0..=whole.bytes.len().min(4_096) {
            whole.check(cut, usize::MAX, name);
        }
    }
}

// spec-test: NT4-READ-2
#[test]
fn cut_at_200_random_places() {
    let seed = 20_261_130;
    for name in [COUNTERS, LOSSY] {
        let whole = Whole::new(name);
        let mut dice = Dice(seed);
        for _ in 0..100 {
            let cut = 4_096 + dice.below(whole.bytes.len() - 4_096);
            let piece_bytes = 1 + dice.below(100_000);
            whole.check(cut, piece_bytes, &format!("{name}, seed {seed}"));
        }
    }
}

// spec-test: NT4-READ-1
#[test]
fn fed_byte_by_byte() {
    let whole = Whole::new(SMALL);
    for cut in 0..=whole.bytes.len() {
        whole.check(cut, 1, SMALL);
    }
    let whole = Whole::new(COUNTERS);
    whole.check(whole.bytes.len(), 1, COUNTERS);
    whole.check(whole.bytes.len() - 1, 1, COUNTERS);
}

// spec-test: NT4-READ-2
// spec-test: NT4-V3-1
#[test]
fn a_cut_v3_file_gives_the_front_of_the_whole() {
    let bytes = vector("nettrace", NETPERF);
    let records = read_clean(&bytes);
    let mut seen = 0;
    for cut in 0..bytes.len() {
        let reading = read_in_pieces(&bytes[..cut], usize::MAX);
        assert_eq!(
            (reading.error, reading.completion),
            (None, Completion::Truncated { at_byte: cut as u64 })
        );
        assert!(reading.records.len() >= seen && reading.records[..] == records[..reading.records.len()]);
        seen = reading.records.len();
    }
    assert_eq!(seen + 1, records.len());
}

/// A record is there as soon as its object is: a live reader does not wait for what follows.
// spec-test: NT4-READ-1
#[test]
fn records_come_with_the_last_byte_of_their_object() {
    let whole = Whole::new(COUNTERS);
    let mut reader = Reader::new();
    let (mut count, mut fed) = (0, 0);
    for &(end, wanted) in &whole.ends {
        reader.feed(&whole.bytes[fed..end]);
        fed = end;
        while reader.next_record().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, wanted, "at byte {end}");
    }
}

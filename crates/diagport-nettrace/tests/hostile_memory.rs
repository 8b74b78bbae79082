//! Mutated streams never take more memory than a small multiple of their bytes.
//!
//! One test only: what is measured is the whole process.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod streams;

use diagport_nettrace::{LossCounter, Reader};
use streams::mutations::each_mutation;

/// A line of this process's status in bytes; `None` where there is no such thing.
fn status_bytes(line: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let found = status.lines().find_map(|each| each.strip_prefix(line))?;
    Some(found.trim_matches([':', ' ', '\t']).strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Reads as a program would: all records, their loss. Nothing is kept.
fn read_all(bytes: &[u8], piece_bytes: usize) {
    let (mut reader, mut loss) = (Reader::new(), LossCounter::new());
    for piece in bytes.chunks(piece_bytes) {
        reader.feed(piece);
        while let Ok(Some(record)) = reader.next_record() {
            loss.record(&record);
        }
    }
    reader.finish();
}

/// Sixteen times the input (a definition of many nameless fields takes about ten times its bytes), and a fixed reserve for the
/// allocator.
fn allowed(input_bytes: usize) -> usize {
    16 * input_bytes + (4 << 20)
}

// spec-test: NT4-READ-3
// spec-test: NT4-READ-6
// spec-test: NT4-META-7
#[test]
fn hostile_bytes_neither_panic_nor_take_memory() {
    // The peak of the address space cannot be reset, so it shows only what is asked for beyond the start of the process: a vector
    // sized by a hostile count. The peak of touched memory is reset before each stream.
    let asked_before = status_bytes("VmPeak");
    each_mutation(move |bytes, piece_bytes| {
        let can_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        let touched_before = status_bytes("VmRSS").filter(|_| can_reset);
        read_all(bytes, piece_bytes);
        for (what, before, peak) in [
            ("asked for", asked_before, status_bytes("VmPeak")),
            ("touched", touched_before, status_bytes("VmHWM")),
        ] {
            let grown = before.zip(peak).map_or(0, |(before, peak)| peak.saturating_sub(before));
            assert!(grown <= allowed(bytes.len()), "{what} {grown} bytes for {} of input", bytes.len());
        }
    });
}

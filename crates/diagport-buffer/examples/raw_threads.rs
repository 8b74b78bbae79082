//! Producers, a reader and a closer of one buffer on plain threads, for ThreadSanitizer: `cargo xtask sanitize thread`.
//!
//! ```text
//!  producer: plain store to cell n ─▶ record n ─▶ lane ─▶ collect ─▶ record n ─▶ plain load of cell n :reader
//! ```
//!
//! Nothing but the buffer orders the store before the load, so the sanitizer sees whether the buffer does. No test harness, channel
//! or scope is used, which it would misjudge. Usage: `raw_threads [SECONDS [MISTAKE]]`. With the mistake `driver_reads_ahead` the reader loads
//! a cell whose record has not come; any other is one of the buffer's own (`sync::mutant`, built with `--cfg diagport_tsan`). Each
//! must be reported, else the sanitizer sees nothing.
#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that tells what it did")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use diagport_buffer::{
    BufferingMode, EventBuffer, LaneWrite, Parking, PayloadOut as _, Producer, Record, WakeReader, WakeReason,
};

const PRODUCERS: usize = 3;
const RECORDS: usize = 500;
/// The planted mistake; then nothing that is read can be relied on.
static MISTAKE: OnceLock<String> = OnceLock::new();
/// Threads of one producer, one after the other.
const LIVES: usize = 4;

struct Silent;

impl WakeReader for Silent {
    fn wake(&self, _reason: WakeReason) {}
}

/// One plain number a record.
struct Cells(Vec<UnsafeCell<usize>>);

// SAFETY: a cell is stored once, by its producer before it writes the record, and loaded only by the reader after it got that
// record. Whether the buffer orders the two is what this program asks.
#[allow(unsafe_code)]
unsafe impl Sync for Cells {}

impl Cells {
    fn store(&self, at: usize, value: usize) {
        // SAFETY: see the impl of Sync.
        #[allow(unsafe_code)]
        unsafe {
            *self.0[at].get() = value;
        }
    }

    fn load(&self, at: usize) -> usize {
        let ahead = if MISTAKE.get().is_some_and(|name| name == "driver_reads_ahead") { 40 } else { 0 };
        // SAFETY: see the impl of Sync.
        #[allow(unsafe_code)]
        unsafe {
            *self.0[(at + ahead) % self.0.len()].get()
        }
    }
}

/// Writes its records on several threads in turn, until all are tried or the buffer is closed; returns how many were written.
fn produce(buffer: &Arc<EventBuffer>, cells: &Arc<Cells>, producer: usize) -> u64 {
    let mut written = 0;
    for life in 0..LIVES {
        let (buffer, cells) = (Arc::clone(buffer), Arc::clone(cells));
        let first = (producer * LIVES + life) * RECORDS;
        let thread = thread::spawn(move || {
            let mut producer = Producer::new(first as u64 + 1, String::new(), Parking::Allowed);
            let Some(lane) = buffer.add_lane(producer.enter().thread()) else { return 0 };
            let mut written = 0;
            for at in first..first + RECORDS {
                cells.store(at, at);
                let payload = at.to_le_bytes().repeat(1 + at % 40);
                let outcome = loop {
                    let mut guard = producer.enter();
                    if lane.write_in_place(&mut guard, 0, 0, |space| space.put(&payload)) {
                        break LaneWrite::Written;
                    }
                    let outcome = lane.write(&mut guard, 0, &Record::new(0, &payload));
                    drop(guard);
                    if outcome != LaneWrite::Blocked {
                        break outcome;
                    }
                    producer.thread().park();
                };
                match outcome {
                    LaneWrite::Written => written += 1,
                    LaneWrite::Disabled => break,
                    LaneWrite::Dropped | LaneWrite::Blocked => {}
                }
            }
            producer.thread().mark_dead();
            written
        });
        written += thread.join().unwrap_or(0);
    }
    written
}

/// Reads each record and its cell; returns how many.
fn collect(buffer: &EventBuffer, cells: &Cells) -> u64 {
    let mut records = 0;
    buffer.collect(|take| {
        for mut chunk in take.chunks.drain(..) {
            while let Some(record) = chunk.front() {
                let number = record.payload.first_chunk().map_or(0, |bytes| usize::from_le_bytes(*bytes));
                let found = cells.load(number);
                // Not a panic: without a reader the producers of a Block buffer would wait for ever.
                if found != number && MISTAKE.get().is_none() {
                    println!("raw_threads: cell {number} holds {found}");
                    std::process::exit(1);
                }
                records += 1;
                chunk.pop_front();
            }
            buffer.release(chunk);
        }
    });
    buffer.end_round();
    records
}

fn round(mode: BufferingMode, budget_bytes: usize, closes_early: bool) -> u64 {
    let buffer = EventBuffer::new(mode, budget_bytes, Arc::new(Silent));
    let cells =
        Arc::new(Cells((0..PRODUCERS * LIVES * RECORDS).map(|_| UnsafeCell::new(usize::MAX)).collect()));
    let over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (buffer, cells, over) = (Arc::clone(&buffer), Arc::clone(&cells), Arc::clone(&over));
        thread::spawn(move || {
            let mut records = 0;
            while !over.load(Ordering::Relaxed) {
                records += collect(&buffer, &cells);
                thread::yield_now();
            }
            records + collect(&buffer, &cells)
        })
    };
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (buffer, cells) = (Arc::clone(&buffer), Arc::clone(&cells));
            thread::spawn(move || produce(&buffer, &cells, producer))
        })
        .collect();
    let closer = closes_early.then(|| {
        let buffer = Arc::clone(&buffer);
        thread::spawn(move || {
            (0..200).for_each(|_| thread::yield_now());
            buffer.abort();
            buffer.close();
        })
    });
    let written: u64 = producers.into_iter().map(|producer| producer.join().unwrap_or(0)).sum();
    if let Some(closer) = closer {
        let _ = closer.join();
    }
    buffer.close();
    over.store(true, Ordering::Relaxed);
    let records = reader.join().unwrap_or(0);
    assert_eq!(records, written, "every written record is read, once");
    assert_eq!((buffer.waiting_count(), buffer.held_bytes()), (0, 0), "all capacity is back");
    records
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(5);
    if let Some(mistake) = std::env::args().nth(2) {
        #[cfg(diagport_tsan)]
        diagport_buffer::plant_mistake(&mistake);
        MISTAKE.get_or_init(|| mistake);
        // With a broken buffer a round may never end; what the sanitizer saw is said by then.
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(seconds + 5));
            println!("raw_threads: the mistake holds a round up");
            std::process::exit(0);
        });
    }
    let (begin, mut rounds, mut records) = (Instant::now(), 0_usize, 0);
    while begin.elapsed() < Duration::from_secs(seconds) {
        let mode = if rounds % 2 == 0 { BufferingMode::Block } else { BufferingMode::Drop };
        let budget_bytes = [2_000, 20_000, 1 << 20][rounds % 3];
        records += round(mode, budget_bytes, rounds % 4 >= 2);
        rounds += 1;
    }
    println!("raw_threads: {rounds} rounds, {records} records");
}

//! What an event costs in the writer alone: `cargo bench -p diagport-nettrace --bench writer [-- PART OF A NAME]`.
//!
//! Prints for each case the median and the range of nanoseconds an event over several rounds, a copy of the same bytes in
//! the same pieces beside it, and the bytes of header an event. What it does not do: read the stream back, or fail.
#![allow(clippy::print_stdout, missing_docs, reason = "it talks to the person who runs it")]

use std::hint::black_box;
use std::time::Instant;

use diagport_nettrace::{EventMetadata, EventRow, TraceInfo, UNKNOWN_PROCESSOR, UtcTime, Writer};

const EVENTS: usize = 100_000;
const ROUNDS: usize = 41;
/// A drain takes the output in pieces of about this size.
const PIECE_BYTES: usize = 32 << 10;
/// Payloads lie in the chunks of producers: a cache holds them.
const SOURCE_BYTES: usize = 64 << 10;
const FIRST_TICKS: i64 = 1_000_000;

/// What the rows of a case are.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    threads: usize,
    /// Events of one thread before the next has its turn.
    run: usize,
    payload_bytes: usize,
    /// Payloads are up to so many bytes shorter.
    spread_bytes: usize,
    stacks: usize,
    frames: usize,
}

const PLAIN: Case =
    Case { name: "", threads: 1, run: 1, payload_bytes: 46, spread_bytes: 0, stacks: 1, frames: 0 };

const CASES: [Case; 9] = [
    Case { name: "1 thread, 46 bytes", ..PLAIN },
    Case { name: "1 thread, 30 to 46 bytes", spread_bytes: 16, ..PLAIN },
    Case { name: "2 threads, alternating, 46 bytes", threads: 2, ..PLAIN },
    Case { name: "16 threads, runs of 100, 46 bytes", threads: 16, run: 100, ..PLAIN },
    Case { name: "1 thread, 8 bytes", payload_bytes: 8, ..PLAIN },
    Case { name: "1 thread, 200 bytes", payload_bytes: 200, ..PLAIN },
    Case { name: "1 thread, 46 bytes, 1 stack of 20", frames: 20, ..PLAIN },
    Case { name: "1 thread, 46 bytes, 4 stacks of 20", frames: 20, stacks: 4, ..PLAIN },
    Case { name: "1 thread, 46 bytes, 1,000 stacks of 20", frames: 20, stacks: 1_000, ..PLAIN },
];

/// A row without what the writer itself gives out.
#[derive(Clone, Copy)]
struct Planned {
    thread: u32,
    stack: u32,
    ticks_step: u32,
    payload_at: u32,
    payload_bytes: u32,
}

/// Gaps of 20 to 275 ns, as far from regular as those of real producers, so that a branch cannot learn them.
fn plan(case: Case) -> Vec<Planned> {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut payload_at = 0;
    (0..EVENTS)
        .map(|index| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let payload_bytes = case.payload_bytes - (random >> 40) as usize % (case.spread_bytes + 1);
            payload_at =
                if payload_at + 2 * payload_bytes > SOURCE_BYTES { 0 } else { payload_at + payload_bytes };
            Planned {
                thread: (index / case.run % case.threads) as u32,
                stack: (random >> 20) as u32 % case.stacks as u32,
                ticks_step: 20 + (random & 0xFF) as u32,
                payload_at: payload_at as u32,
                payload_bytes: payload_bytes as u32,
            }
        })
        .collect()
}

fn writer() -> (Writer, u32) {
    let mut writer = Writer::new(&TraceInfo {
        start_utc: UtcTime::from_unix_millis(1_796_000_000_000),
        sync_ticks: FIRST_TICKS,
        tick_frequency: 1_000_000_000,
        pointer_size: 8,
        process_id: 1,
        processor_count: 2,
        sampling_period_ns: 1_000_000,
    });
    let metadata_id = writer.define(&EventMetadata::default(), FIRST_TICKS, 7);
    (writer, metadata_id)
}

/// Nanoseconds an event, and the bytes of the stream.
fn encode(case: Case, plan: &[Planned], source: &[u8], stacks: &[Vec<u64>]) -> (f64, usize) {
    let (mut writer, metadata_id) = writer();
    let mut numbers = vec![0_u32; case.threads];
    let (mut ticks, mut bytes) = (FIRST_TICKS, 0);
    let begin = Instant::now();
    for planned in plan {
        let thread = planned.thread as usize;
        numbers[thread] += 1;
        ticks += i64::from(planned.ticks_step);
        let stack_id = writer.stack(&stacks[planned.stack as usize]);
        writer.event(&EventRow {
            metadata_id,
            sequence: numbers[thread],
            capture_thread: thread as u64 + 1,
            thread_id: 4_242 + thread as u64,
            processor: UNKNOWN_PROCESSOR,
            stack_id,
            ticks,
            activity_id: [0; 16],
            related_activity_id: [0; 16],
            sorted: true,
            payload: &source[planned.payload_at as usize..][..planned.payload_bytes as usize],
        });
        if writer.encoded_bytes() >= PIECE_BYTES {
            writer.flush();
            bytes += black_box(writer.output()).len();
            writer.clear_output();
        }
    }
    writer.finish();
    bytes += black_box(writer.output()).len();
    (begin.elapsed().as_nanos() as f64 / plan.len() as f64, bytes)
}

/// Nanoseconds an event for moving so many bytes in pieces, once.
fn copy(bytes: usize, source: &[u8]) -> f64 {
    let mut output = Vec::with_capacity(PIECE_BYTES);
    let begin = Instant::now();
    for piece in 0..bytes.div_ceil(PIECE_BYTES) {
        output.clear();
        output.extend_from_slice(&source[piece % 2 * PIECE_BYTES..][..PIECE_BYTES]);
        black_box(&output);
    }
    begin.elapsed().as_nanos() as f64 / EVENTS as f64
}

fn middle(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures[0], figures[figures.len() / 2], figures[figures.len() - 1])
}

fn report(case: Case) {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--")).peekable();
    if words.peek().is_some() && !words.any(|word| case.name.contains(&word)) {
        return;
    }
    let plan = plan(case);
    let source: Vec<u8> = (0..SOURCE_BYTES).map(|index| index as u8).collect();
    let stacks: Vec<Vec<u64>> = (0..case.stacks)
        .map(|stack| {
            (0..case.frames).map(|frame| (0x7F00_0000_0000 + stack * 512 + frame * 64) as u64).collect()
        })
        .collect();
    let (_, bytes) = encode(case, &plan, &source, &stacks);
    let (encoded, copied) =
        (0..ROUNDS).map(|_| (encode(case, &plan, &source, &stacks).0, copy(bytes, &source))).unzip();
    let (first, median, last) = middle(encoded);
    let (_, copied, _) = middle(copied);
    let payload_bytes: usize = plan.iter().map(|planned| planned.payload_bytes as usize).sum();
    let other_bytes = (bytes - payload_bytes) as f64 / EVENTS as f64;
    println!(
        "{:<40} {median:>7.2} ns ({first:.2} to {last:.2})  copy {copied:.2} ns  besides payload {other_bytes:.2} bytes",
        case.name
    );
}

fn main() {
    CASES.into_iter().for_each(report);
}

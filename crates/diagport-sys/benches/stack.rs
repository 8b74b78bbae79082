//! What a stack costs: `cargo bench -p diagport-sys`. Median and range of 15 rounds, nanoseconds a capture. It compares with nothing and fails never.
#![allow(clippy::print_stdout, missing_docs, reason = "it talks to the person who runs it")]

use std::hint::black_box;
use std::time::Instant;

use diagport_sys::stack::capture;

const ROUNDS: usize = 15;
const CAPTURES: u32 = 200_000;

fn main() {
    for frames in [1, 11, 31, 100] {
        let mut times: Vec<f64> = Vec::new();
        let mut seen = 0;
        for _ in 0..ROUNDS {
            let (count, ns) = below(100, frames);
            seen = count;
            times.push(ns);
        }
        times.sort_by(f64::total_cmp);
        println!("{seen:3} frames: {:5.1} ns ({:.1}-{:.1})", times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
    }
}

/// Enough frames for every case below `depth` frames of itself.
#[inline(never)]
fn below(depth: usize, frames: usize) -> (usize, f64) {
    let result = if depth == 0 { measure(frames) } else { below(depth - 1, frames) };
    black_box(result)
}

#[inline(never)]
fn measure(frames: usize) -> (usize, f64) {
    let mut addresses = [0; 100];
    let mut count = 0;
    let begin = Instant::now();
    for _ in 0..CAPTURES {
        count = capture(black_box(&mut addresses[..frames]));
    }
    (count, begin.elapsed().as_secs_f64() * 1e9 / f64::from(CAPTURES))
}

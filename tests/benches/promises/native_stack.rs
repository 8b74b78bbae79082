//! What a stack of 20 frames adds to an event of the own process, beside the event without one and the bare walk.

use std::hint::black_box;

use anyhow::ensure;
use diagport_session::{EventPipe, StackWalk};
use diagport_sys::stack::capture;

use crate::native_emitter::{Events, TEXT};
use crate::native_floor::{Thrown, cpu_ns_of};

const FRAMES: usize = 20;
/// So many events with their stacks never reach the budget.
const AT_ONCE: u64 = 4_000;
const BUDGET_BYTES: u64 = 16 << 20;
/// Sessions with stacks, without, with, …
const ALTERNATIONS: u64 = 4;

/// `stack with_ns=… without_ns=… walk_ns=… dropped=…`, thread CPU time an event of `events`.
pub(crate) fn emit(pipe: &EventPipe, events: &Events, count: u64) -> anyhow::Result<String> {
    // No frame of this program's own beginning hides how deep it is: the loops run where a walk finds so many frames.
    at_depth(&mut || {
        let turns = (count / AT_ONCE / ALTERNATIONS).max(1);
        let (mut with_ns, mut without_ns, mut walk_ns, mut dropped) = (0.0, 0.0, 0.0, 0);
        for _ in 0..ALTERNATIONS {
            for (stack_walk, sum) in [(StackWalk::On, &mut with_ns), (StackWalk::Off, &mut without_ns)] {
                let thrown = Thrown::start(pipe, BUDGET_BYTES, stack_walk)?;
                *sum += series(&thrown, events, turns)? / ALTERNATIONS as f64;
                dropped += thrown.stop()?;
            }
            let mut frames = [0; FRAMES];
            let walk = cpu_ns_of(turns * AT_ONCE, |_| {
                black_box(capture(black_box(&mut frames)));
            });
            walk_ns += walk / ALTERNATIONS as f64;
        }
        Ok(format!(
            "stack with_ns={with_ns:.3} without_ns={without_ns:.3} walk_ns={walk_ns:.3} dropped={dropped}"
        ))
    })
}

/// The first turn brings the buffers and is not counted.
fn series(thrown: &Thrown, events: &Events, turns: u64) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for turn in 0..=turns {
        let one = thrown.while_drained(AT_ONCE, || {
            cpu_ns_of(AT_ONCE, |index| {
                black_box(events.tick.write((index, turn, TEXT, !index)));
            })
        })?;
        if turn > 0 {
            sum += one / turns as f64;
        }
    }
    Ok(sum)
}

/// Calls `what` where [`FRAMES`] frames or a few more are below it.
#[inline(never)]
fn at_depth(what: &mut dyn FnMut() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let mut frames = [0; FRAMES];
    let seen = capture(&mut frames);
    ensure!(seen > 0, "there are no frame pointers to walk along");
    let result = if seen < FRAMES { at_depth(what) } else { what() };
    // Not the last thing that it does: the call keeps its frame.
    black_box(result)
}

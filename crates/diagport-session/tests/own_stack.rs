//! The stack of the thread that writes an event, for sessions that want stacks.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

mod support;

use std::collections::HashMap;

use diagport_nettrace::{Reader, Record};
use diagport_session::{BufferingMode, EventContext, SessionConfig, StackWalk};
use support::*;

/// Writes one event from so many calls below its caller.
#[inline(never)]
fn write_from(depth: usize, tick: &Tick, context: &EventContext<'_>) -> usize {
    let below = if depth == 0 {
        tick.write_with(context, (depth as i64, 0, ""));
        0
    } else {
        write_from(depth - 1, tick, context)
    };
    // Something to do after the call, so that it is no jump.
    std::hint::black_box(below) + 1
}

/// The stacks of the ticks of a stream.
fn stacks(bytes: &[u8]) -> Vec<Vec<u64>> {
    let mut reader = Reader::new();
    reader.feed(bytes);
    let (mut known, mut of_ticks) = (HashMap::new(), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        match record {
            Record::Stack { id, frames } => _ = known.insert(id, frames),
            Record::SequencePoint { .. } => known.clear(),
            Record::Event(event) if event.definition.event_name == "Tick" => {
                of_ticks.push(known.get(&event.stack_id).cloned().unwrap_or_default());
            }
            _ => {}
        }
    }
    of_ticks
}

fn record(stack_walk: StackWalk, write: impl FnOnce(&Tick)) -> Vec<Vec<u64>> {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let config = SessionConfig { stack_walk, ..config(BufferingMode::Drop, 1 << 20) };
    let (session, peer) = (pipe.create_session(config).unwrap(), MemoryPeer::reading());
    session.start(peer.sink());
    write(&tick);
    stop_and_account(&session, &peer);
    stacks(&peer.bytes())
}

// spec-test: SES-STACK-1
#[test]
fn the_writers_own_stack_is_walked() {
    let none = EventContext::default();
    let write = |tick: &Tick| {
        // One call site for all, so that what is above is the same.
        for depth in [0, 10, 200, 0] {
            write_from(depth, tick, &none);
        }
        write_from(0, tick, &EventContext { stack: &[7, 8], ..none });
    };
    assert!(record(StackWalk::Off, write).iter().all(Vec::is_empty), "no stacks where none are wanted");
    let stacks = record(StackWalk::On, write);
    let depths: Vec<usize> = stacks.iter().map(Vec::len).collect();
    println!("frames: {depths:?}");
    assert_eq!(stacks[4], [7, 8], "a given stack is kept");
    if depths[1] != depths[0] + 10 {
        println!("skipped: built without frame pointers, so there is no chain to walk");
        return;
    }
    assert_eq!((stacks[0].len(), stacks[2].len()), (stacks[3].len(), 100), "deep stacks are cut");
    assert_eq!(stacks[0], stacks[3], "the same calls are the same stack");
    let recursion =
        stacks[1].windows(10).take(3).find(|frames| frames.iter().all(|frame| *frame == frames[0]));
    assert!(recursion.is_some(), "the innermost is the function that writes: {:x?}", stacks[1]);
    assert!(stacks[1].ends_with(&stacks[0][2..]), "what is above is the same");
}

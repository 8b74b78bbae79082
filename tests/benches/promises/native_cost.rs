//! What an event of 40 bytes costs by itself: beside a stamp and a copy, not wanted by anybody, in several sessions, in page faults.

use support::process_facts::{peak_resident_bytes, resident_bytes};

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, Unit};
use crate::lttng_peer;
use crate::native_emitter::Shape;
use crate::native_producers::Burst;
use crate::native_report::field;
use crate::native_target::{Buffers, Native};
use crate::options::Options;

const SESSIONS_MB: u32 = 64;
/// The warm-up and these each take half of the budget.
const SESSIONS_EVENTS: u64 = 500_000;
const SMALL_BUDGET_KB: u32 = 256;
const FAULTS_MB: u32 = 10;
/// Half as much again as that holds.
const FAULTS_WARM_UP: u64 = 240_000;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    vec![
        floor(options),
        stack(options),
        disabled(options),
        sessions(options),
        page_faults(options),
        small_budget(options),
    ]
}

fn floor(options: &Options) -> Case {
    let figures = vec![
        Figure::new("times the floor", Unit::TimesFloor, Bound::AtMost(2.5)).aim(Bound::AtMost(1.5)),
        Figure::time("an event, CPU time, 1 MB, its stream thrown away", Bound::Nothing),
        Figure::time("the floor: raw counter, header and payload of 64 bytes copied", Bound::Nothing),
    ];
    let events = options.scale(1_000_000, 100_000);
    let prepare = move |_: Side| {
        let mut native = Native::start()?;
        let measure = move || {
            let line = native.order(&format!("floor {events}"))?;
            if field::<u64>(&line, "dropped")? > 0 {
                // Others have kept the drain from its work: the round tells nothing.
                return Ok(vec![Reading::Skipped; 3]);
            }
            let (ours, floor): (f64, f64) = (field(&line, "ours_ns")?, field(&line, "floor_ns")?);
            Ok(vec![Reading::Value(ours / floor), Reading::Value(ours * 1e-9), Reading::Value(floor * 1e-9)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "emit, enabled, beside the least it could be",
        figures,
        rounds: options.scale(7, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

fn stack(options: &Options) -> Case {
    let figures = vec![
        Figure::new(
            "with its stack, times the sum of without and the bare walk",
            Unit::Times,
            Bound::AtMost(1.5),
        )
        .aim(Bound::AtMost(1.2)),
        Figure::time("an event with a stack of 20 frames, CPU time", Bound::Nothing),
        Figure::time("an event without", Bound::Nothing),
        Figure::time("the bare walk", Bound::Nothing),
    ];
    let events = options.scale(400_000, 40_000);
    let prepare = move |_: Side| {
        let mut native = Native::start()?;
        let measure = move || {
            let line = native.order(&format!("stack {events}"))?;
            if field::<u64>(&line, "dropped")? > 0 {
                // Others have kept the drain from its work: the round tells nothing.
                return Ok(vec![Reading::Skipped; 4]);
            }
            let (with, without): (f64, f64) = (field(&line, "with_ns")?, field(&line, "without_ns")?);
            let walk: f64 = field(&line, "walk_ns")?;
            let times = [with, without, walk].map(|ns| Reading::Value(ns * 1e-9));
            Ok([&[Reading::Value(with / (without + walk))], &times[..]].concat())
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "emit, enabled, with the stack of the own process",
        figures,
        rounds: options.scale(7, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

fn disabled(options: &Options) -> Case {
    let figures = vec![
        Figure::time("a call, CPU time", Bound::AtMost(2e-9)).aim(Bound::AtMost(1e-9)),
        Figure::time("of that, above a disabled `tracing` event", Bound::AtMost(0.5e-9)),
        Figure::time("an empty loop", Bound::Nothing),
    ];
    let calls: u64 = options.scale(100_000_000, 10_000_000);
    let prepare = move |side: Side| {
        let mut native = Native::start()?;
        let measure = move || {
            if side == Side::Peer(Peer::Lttng) {
                let call = lttng_peer::disabled_ns(calls)?;
                return Ok(vec![Reading::Value(call * 1e-9), Reading::Skipped, Reading::Skipped]);
            }
            let line = native.order(&format!("disabled {calls}"))?;
            let ours: f64 = field(&line, "ours_ns")?;
            let above = (ours - field::<f64>(&line, "tracing_ns")?).max(0.0);
            Ok([ours, above, field(&line, "empty_ns")?].map(|ns| Reading::Value(ns * 1e-9)).to_vec())
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "LTTng: emit, disabled",
        figures,
        rounds: options.scale(7, 1),
        peer: Some(Peer::Lttng),
        prepare: Box::new(prepare),
    }
}

fn sessions(options: &Options) -> Case {
    let figures = vec![
        Figure::new("each more of 4 sessions, times the first", Unit::Times, Bound::AtMost(1.0))
            .aim(Bound::AtMost(0.7)),
        Figure::time("an event in 1 session, CPU time", Bound::Nothing),
        Figure::time("an event in 2 sessions", Bound::Nothing),
        Figure::time("an event in 4 sessions", Bound::Nothing),
    ];
    let events = options.scale(SESSIONS_EVENTS, SESSIONS_EVENTS / 5);
    let burst = Burst::new(1, events).warmed_by(events);
    let prepare = move |_: Side| {
        let mut native = Native::start()?;
        let measure = move || {
            let mut cost = |sessions| {
                let buffers = Buffers::dropping_mb(SESSIONS_MB);
                let recorded = native.record(sessions, buffers, &burst, Shape::Bytes40)?;
                Ok::<_, anyhow::Error>((recorded.lost == 0).then_some(recorded.emitted.cpu_ns))
            };
            let (Some(one), Some(two), Some(four)) = (cost(1)?, cost(2)?, cost(4)?) else {
                // Others have kept a drain from its work: the round tells no cost.
                return Ok(vec![Reading::Skipped; 4]);
            };
            let more = ((four - one) / 3.0).max(0.0) / one;
            let ns = |value: f64| Reading::Value(value * 1e-9);
            Ok(vec![Reading::Value(more), ns(one), ns(two), ns(four)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "1, 2 and 4 sessions on the same event",
        figures,
        rounds: options.scale(7, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

fn page_faults(options: &Options) -> Case {
    let title = "faults of the producer after its warm-up, of 10,000 events";
    let burst = Burst::new(1, options.scale(2_000_000, 200_000)).warmed_by(FAULTS_WARM_UP);
    let prepare = move |_: Side| {
        let mut native = Native::start()?;
        let measure = move || {
            let buffers = Buffers::blocking_mb(FAULTS_MB);
            let emitted = native.record(1, buffers, &burst, Shape::Bytes40)?.emitted;
            let faults = emitted.minor_faults as f64 * 10_000.0 / emitted.events as f64;
            Ok(vec![Reading::Value(faults)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "page faults, Block 10 MB, 1 thread",
        figures: vec![Figure::new(title, Unit::Count, Bound::AtMost(1.0)).aim(Bound::AtMost(0.0))],
        rounds: options.scale(5, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

/// Smaller than the wire can ask for: what it grows by is mostly not the budget.
fn small_budget(options: &Options) -> Case {
    let figure = Figure::new("most growth beyond the budget, 256 KB", Unit::Memory, Bound::AtMost(2e6));
    let events = options.scale(500_000, 50_000);
    let prepare = move |_: Side| {
        let measure = move || {
            let mut native = Native::start()?;
            let buffers = Buffers { budget_kb: SMALL_BUDGET_KB, ..Buffers::blocking_mb(0) };
            // Code and producers' own tables, touched for the first time, are no part of the session.
            native.record(1, buffers, &Burst::new(2, 100).warmed_by(0), Shape::Bytes40)?;
            let before = resident_bytes(native.pid())? as f64;
            native.record(1, buffers, &Burst::new(2, events), Shape::Bytes40)?;
            let most = peak_resident_bytes(native.pid())? as f64;
            Ok(vec![Reading::Value(most - before - f64::from(SMALL_BUDGET_KB) * 1024.0)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "session memory, 256 KB, Block, saturated and read",
        figures: vec![figure.aim(Bound::AtMost(0.5e6))],
        rounds: options.scale(5, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

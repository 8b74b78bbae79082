//! What an event of 40 bytes costs by itself: beside a stamp and a copy, not wanted by anybody, in several sessions, in page faults.

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, Unit};
use crate::lttng_peer;
use crate::native_emitter::Shape;
use crate::native_producers::Burst;
use crate::native_report::field;
use crate::native_target::{Buffers, Native};
use crate::options::Options;

const SESSIONS_MB: u32 = 64;
const FAULTS_MB: u32 = 10;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    vec![floor(options), disabled(options), sessions(options), page_faults(options)]
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
    let burst = Burst::new(1, options.scale(1_000_000, 100_000));
    let prepare = move |_: Side| {
        let mut native = Native::start()?;
        let measure = move || {
            let mut cost = |sessions| {
                let buffers = Buffers::dropping_mb(SESSIONS_MB);
                Ok::<f64, anyhow::Error>(
                    native.record(sessions, buffers, &burst, Shape::Bytes40)?.emitted.cpu_ns,
                )
            };
            let (one, two, four) = (cost(1)?, cost(2)?, cost(4)?);
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
    let burst = Burst::new(1, options.scale(2_000_000, 200_000));
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
        figures: vec![Figure::new(title, Unit::Times, Bound::AtMost(1.0)).aim(Bound::AtMost(0.0))],
        rounds: options.scale(5, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

//! How long the slowest events take, each between two reads of the processor's counter on both sides.

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side};
use crate::lttng_pair::{Emitter, Pair};
use crate::lttng_peer::{Channel, WhenFull};
use crate::native_producers::{Burst, Mode};
use crate::native_target::Buffers;
use crate::options::Options;

/// Of all threads together.
const EVENTS: u64 = 2_000_000;
/// Of all threads together, half as much again as the budget holds: all of it has been touched.
const WARM_UP: u64 = 240_000;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    let events = options.scale(EVENTS, EVENTS / 10);
    let channel = |when_full| Channel { when_full, subbuffers: 8, subbuffer_kb: 1024 };
    let drop = Pair { ours: Buffers::dropping_mb(10), lttng: channel(WhenFull::Discard) };
    let block = Pair { ours: Buffers::blocking_mb(10), lttng: channel(WhenFull::Block) };
    [
        ("LTTng: tail, Drop, 1 thread", drop, 1),
        ("LTTng: tail, Drop, 2 threads", drop, 2),
        ("LTTng: tail, Drop, 4 threads", drop, 4),
        ("LTTng: tail, Block, 1 thread", block, 1),
        ("LTTng: tail, Block, 2 threads", block, 2),
        ("LTTng: tail, Block, 4 threads", block, 4),
    ]
    .map(|(name, pair, threads)| case(name, pair, threads, events / threads, options))
    .into()
}

fn case(name: &'static str, pair: Pair, threads: u64, events: u64, options: &Options) -> Case {
    let figures = vec![
        Figure::time("half of the events, within", Bound::Nothing),
        Figure::time("99.9 %, within", Bound::BEATS_PEER),
        Figure::time("99.99 %, within", Bound::TimesPeer(3.0)).aim(Bound::AtMost(3e-6)),
        Figure::time("the longest", Bound::Nothing),
    ];
    let prepare = move |side: Side| {
        let mut emitter = Emitter::start(side)?;
        let burst = Burst { mode: Mode::Timed, ..Burst::new(threads, events).warmed_by(WARM_UP / threads) };
        let measure = move || {
            let outcome = emitter.record(&pair, &burst)?;
            let readings = outcome.emitted.tail.map_or([Reading::Skipped; 4], |tail| {
                [tail.p50_ns, tail.p999_ns, tail.p9999_ns, tail.max_ns].map(|ns| Reading::Value(ns * 1e-9))
            });
            Ok(readings.to_vec())
        };
        Ok(Box::new(measure) as Measure)
    };
    Case { name, figures, rounds: options.scale(7, 1), peer: Some(Peer::Lttng), prepare: Box::new(prepare) }
}

//! What is lost where events are offered at a fixed rate.

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, Unit};
use crate::lttng_pair::{Emitter, Pair};
use crate::lttng_peer::{Channel, WhenFull};
use crate::native_producers::{Burst, Mode};
use crate::native_target::Buffers;
use crate::options::Options;

const THREADS: u64 = 2;
/// Of each thread: nearly what the budget holds, so that none of it is lost.
const WARM_UP: u64 = 60_000;
/// Two clocks and the last step of a run: the same rate may look this much lower.
const SAME_RATE: f64 = 0.98;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    let none = Bound::AtMost(0.0);
    [
        ("LTTng: Drop 10 MB, 2 M events/s offered", 2e6, none, Bound::Nothing),
        ("LTTng: Drop 10 MB, 5 M events/s offered", 5e6, none, Bound::Nothing),
        ("LTTng: Drop 10 MB, 10 M events/s offered", 10e6, Bound::Nothing, none),
    ]
    .map(|(name, rate, gate, aim)| case(name, rate, [gate, aim], options))
    .into()
}

fn case(name: &'static str, rate: f64, [gate, aim]: [Bound; 2], options: &Options) -> Case {
    let figures = vec![
        Figure::new("lost, of 1,000 events", Unit::Count, gate).aim(aim),
        Figure::new("events kept", Unit::Rate, Bound::TimesPeer(SAME_RATE)),
        Figure::time("an event, CPU time of its thread", Bound::Nothing),
    ];
    let pair = Pair {
        ours: Buffers::dropping_mb(10),
        lttng: Channel { when_full: WhenFull::Discard, subbuffers: 8, subbuffer_kb: 512 },
    };
    let seconds = options.scale(1.0, 0.1);
    let events = (rate * seconds) as u64 / THREADS;
    let prepare = move |side: Side| {
        let mut emitter = Emitter::start(side)?;
        let burst = Burst { mode: Mode::Rate(rate), ..Burst::new(THREADS, events).warmed_by(WARM_UP) };
        let measure = move || {
            let outcome = emitter.record(&pair, &burst)?;
            let emitted = outcome.emitted;
            // The warm-up may have lost some of it; which, nobody can tell.
            let lost = outcome.lost_share * burst.attempts() as f64;
            let kept = (emitted.events as f64 - lost).max(0.0);
            Ok(vec![
                Reading::Value(outcome.lost_share * 1000.0),
                Reading::Value(kept / emitted.seconds),
                Reading::Value(emitted.cpu_ns * 1e-9),
            ])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case { name, figures, rounds: options.scale(7, 1), peer: Some(Peer::Lttng), prepare: Box::new(prepare) }
}

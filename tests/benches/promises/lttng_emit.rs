//! What an event of 40 bytes costs its thread beside LTTng: without pressure, waiting for a reader, with more threads than processors, with little memory.

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, Unit};
use crate::lttng_pair::{Emitter, Outcome, Pair};
use crate::lttng_peer::{Channel, WhenFull};
use crate::native_producers::{Burst, Mode};
use crate::native_target::Buffers;
use crate::options::Options;

/// Of all threads together.
const EVENTS: u64 = 5_000_000;
/// The same where the budget is never reached: 32 MB of 256.
const FITTING: u64 = 500_000;
/// Of all threads together, more than any budget here holds: all of its memory has been touched.
const BLOCK_WARM_UP: u64 = 500_000;
/// One event in so many, enough to see every sequence number once before the rounds.
const CHECKED_SHARE: u64 = 10;
const LOST: &str = "lost, of 1,000 events";
const CPU: &str = "an event, CPU time of its thread";
const WALL: &str = "an event, elapsed in its thread";
const LONGEST_GATE: f64 = 0.050;
const LONGEST_AIM: f64 = 0.015;

/// 16 MB in all on two processors, and so on: LTTng's buffers are per processor.
const fn channel(when_full: WhenFull, subbuffers: u32, subbuffer_kb: u32) -> Channel {
    Channel { when_full, subbuffers, subbuffer_kb }
}

/// One case.
struct Setting {
    name: &'static str,
    pair: Pair,
    threads: u64,
    /// Of each thread.
    events: u64,
    /// Of each thread.
    warm_up: u64,
    cpu: Figure,
    wall: Figure,
    /// The longest single event, of a second burst in which each is timed.
    longest: Option<Figure>,
}

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    let events = options.scale(EVENTS, EVENTS / 20);
    let fitting = options.scale(FITTING, FITTING / 5);
    let times = Bound::TimesPeer;
    let sustained = Setting {
        events,
        ..drop_mode("LTTng: emit, Drop, 1 thread, sustained", 1, fitting, Bound::Nothing, Bound::Nothing)
    };
    let mut settings = vec![
        // The drain gives memory back while the warm-up goes on, so one as large as the burst would not touch all that the burst needs.
        Setting {
            warm_up: 4 * fitting,
            ..drop_mode("LTTng: emit, Drop, 1 thread", 1, fitting, times(4.0), Bound::AtMost(25e-9))
        },
        sustained,
        drop_mode("LTTng: emit, Drop, 2 threads", 2, 2 * fitting, times(3.0), times(8.0)),
        drop_mode("LTTng: emit, Drop, 4 threads", 4, 2 * fitting, times(3.0), times(8.0)),
        block("LTTng: emit, Block 10 MB, 1 thread", 1, events),
        block("LTTng: emit, Block 10 MB, 2 threads", 2, events),
    ];
    settings.extend(oversubscribed(options.scale(EVENTS / 2, EVENTS / 80)));
    settings.push(Setting {
        name: "LTTng: emit, Block 256 KB, 1 thread",
        pair: Pair {
            ours: Buffers { budget_kb: 256, ..Buffers::blocking_mb(0) },
            lttng: channel(WhenFull::Block, 4, 64),
        },
        threads: 1,
        events: options.scale(EVENTS / 5, EVENTS / 100),
        warm_up: BLOCK_WARM_UP / 25,
        cpu: Figure::time(CPU, Bound::Nothing),
        wall: Figure::time(WALL, Bound::TimesPeer(4.0)).aim(Bound::TimesPeer(20.0)),
        longest: None,
    });
    settings.into_iter().map(|setting| case(setting, options)).collect()
}

/// A budget that holds all `events` and as many before them: where one was dropped nevertheless, the round tells no cost.
fn drop_mode(name: &'static str, threads: u64, events: u64, gate: Bound, aim: Bound) -> Setting {
    let pair = Pair { ours: Buffers::dropping_mb(256), lttng: channel(WhenFull::Discard, 8, 4096) };
    let cpu = Figure::time(CPU, gate).aim(aim);
    let wall = Figure::time(WALL, Bound::Nothing);
    let events = events / threads;
    Setting { name, pair, threads, events, warm_up: events, cpu, wall, longest: None }
}

fn block(name: &'static str, threads: u64, events: u64) -> Setting {
    let pair = Pair { ours: Buffers::blocking_mb(10), lttng: channel(WhenFull::Block, 8, 1024) };
    let cpu = Figure::time(CPU, Bound::TimesPeer(4.0)).aim(Bound::TimesPeer(8.0));
    let wall = Figure::time(WALL, Bound::TimesPeer(2.0)).aim(Bound::TimesPeer(4.0));
    let warm_up = BLOCK_WARM_UP / threads;
    Setting { name, pair, threads, events, warm_up, cpu, wall, longest: None }
}

/// Four threads on two processors. LTTng with 4 MB loses some, with 16 MB it is three times as fast.
fn oversubscribed(events: u64) -> [Setting; 2] {
    let setting = |name, megabytes, subbuffer_kb, wall: Figure| Setting {
        name,
        pair: Pair {
            ours: Buffers::blocking_mb(megabytes),
            lttng: channel(WhenFull::Block, megabytes / 2 * 1024 / subbuffer_kb, subbuffer_kb),
        },
        threads: 4,
        events,
        warm_up: BLOCK_WARM_UP / 4,
        cpu: Figure::time(CPU, Bound::TimesPeer(4.0)),
        wall,
        longest: Some(
            Figure::time("the longest single event", Bound::AtMost(LONGEST_GATE))
                .aim(Bound::AtMost(LONGEST_AIM)),
        ),
    };
    let large = Figure::time(WALL, Bound::TimesPeer(1.3)).aim(Bound::TimesPeer(2.0));
    [
        setting("LTTng: emit, Block 4 MB, 4 threads", 4, 512, Figure::time(WALL, Bound::Nothing)),
        setting("LTTng: emit, Block 16 MB, 4 threads", 16, 1024, large),
    ]
}

fn case(setting: Setting, options: &Options) -> Case {
    let Setting { name, pair, threads, events, warm_up, cpu, wall, longest } = setting;
    let blocks = pair.lttng.when_full == WhenFull::Block;
    let lost_gate = if blocks { Bound::AtMost(0.0) } else { Bound::Nothing };
    let mut figures = vec![cpu, wall, Figure::new(LOST, Unit::Count, lost_gate)];
    let is_timed = longest.is_some();
    figures.extend(longest);
    let prepare = move |side: Side| {
        let mut emitter = Emitter::start(side)?;
        if let (true, Emitter::Native(native)) = (blocks, &mut emitter) {
            native.check_complete(
                pair.ours.budget_kb.div_ceil(1 << 10),
                &Burst::new(threads, events / CHECKED_SHARE),
            )?;
        }
        let measure = move || {
            let burst = Burst::new(threads, events).warmed_by(warm_up);
            let mut readings = cost(emitter.record(&pair, &burst)?, side, blocks);
            if is_timed {
                let timed = Burst { mode: Mode::Timed, events: events / 2, ..burst };
                let tail = emitter.record(&pair, &timed)?.emitted.tail;
                readings.push(tail.map_or(Reading::Skipped, |tail| Reading::Value(tail.max_ns * 1e-9)));
            }
            Ok(readings)
        };
        Ok(Box::new(measure) as Measure)
    };
    Case { name, figures, rounds: options.scale(7, 1), peer: Some(Peer::Lttng), prepare: Box::new(prepare) }
}

/// CPU time, elapsed time, loss.
fn cost(outcome: Outcome, side: Side, blocks: bool) -> Vec<Reading> {
    let lost = Reading::Value(outcome.lost_share * 1000.0);
    if side == Side::Ours && !blocks && outcome.lost_share > 0.0 {
        return vec![Reading::Skipped, Reading::Skipped, lost];
    }
    let Outcome { emitted, .. } = outcome;
    vec![Reading::Value(emitted.cpu_ns * 1e-9), Reading::Value(emitted.wall_ns * 1e-9), lost]
}

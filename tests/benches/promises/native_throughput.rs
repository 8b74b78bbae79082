//! Bytes a second of a stream beside those of a bare socket: 64 KB writes, the system's buffers, the same way of reading.

use std::time::Instant;

use anyhow::ensure;

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, Unit};
use crate::native_emitter::Shape;
use crate::native_producers::Burst;
use crate::native_socket::Arrived;
use crate::native_target::{Buffers, Native};
use crate::options::Options;

const THREADS: u64 = 2;
const BUDGET_MB: u32 = 10;
const BYTES: u64 = 400 << 20;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    vec![
        case("stream of 40-byte events beside a bare socket", Shape::Bytes40, Bound::AtLeast(25e6), options),
        case("stream of 200-byte events beside a bare socket", Shape::Bytes200, Bound::Nothing, options),
    ]
}

fn case(name: &'static str, shape: Shape, aim: Bound, options: &Options) -> Case {
    let figures = vec![
        Figure::new("bytes", Unit::Rate, Bound::TimesPeer(0.5)).aim(Bound::TimesPeer(0.8)),
        Figure::new("events", Unit::Rate, Bound::Nothing).aim(aim),
    ];
    let bytes = options.scale(BYTES, BYTES / 20);
    // The clock runs from the order on: a warm-up would be part of it.
    let burst = Burst::new(THREADS, bytes / shape.bytes() / THREADS).warmed_by(0);
    let prepare = move |side: Side| {
        let mut native = Native::start()?;
        let measure = move || match side {
            Side::Ours => {
                let recorded = native.record(1, Buffers::blocking_mb(BUDGET_MB), &burst, shape)?;
                ensure!(recorded.lost == 0, "{} events are lost", recorded.lost);
                let rate = |amount: u64| Reading::Value(amount as f64 / recorded.seconds);
                Ok(vec![rate(recorded.bytes), rate(burst.attempts())])
            }
            Side::Peer(_) => {
                let inbox = native.inbox()?;
                let began = Instant::now();
                native.order(&format!("raw {bytes} {}", inbox.path().display()))?;
                let Arrived { bytes, last_byte } = inbox.finish()?;
                let seconds = last_byte.saturating_duration_since(began).as_secs_f64();
                Ok(vec![Reading::Value(bytes as f64 / seconds), Reading::Skipped])
            }
        };
        Ok(Box::new(measure) as Measure)
    };
    Case { name, figures, rounds: options.scale(7, 1), peer: Some(Peer::Floor), prepare: Box::new(prepare) }
}

//! Events in bulk: Block and Drop, small and large budgets.

use support::load::Load;
use support::requests::Collect;

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, Unit};
use crate::options::Options;
use crate::recording::{check_all_received, field, record};

const THREADS: u64 = 2;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    let small = Block {
        name: "Block 1 MB, 2 threads",
        megabytes: 1,
        events: options.scale(500_000, 100_000),
        peers: options.scale(100_000, 10_000),
        gate: 50.0,
        aim: 100.0,
    };
    let large = Block {
        name: "Block 64 MB, 2 threads",
        megabytes: 64,
        events: options.scale(2_500_000, 100_000),
        peers: options.scale(2_500_000, 100_000),
        gate: 5.0,
        aim: 8.0,
    };
    vec![small.case(options), large.case(options), drop_mode(options)]
}

/// Nothing may be lost, however small the budget.
#[derive(Debug, Clone, Copy)]
struct Block {
    name: &'static str,
    megabytes: u32,
    /// A thread of ours.
    events: u64,
    /// A thread of the peer.
    peers: u64,
    /// So many times the peer's rate.
    gate: f64,
    aim: f64,
}

impl Block {
    fn case(self, options: &Options) -> Case {
        let pace = options.pace_mb;
        let received = Figure::new(
            "events received, first emit to last byte, all there",
            Unit::Rate,
            Bound::TimesPeer(self.gate),
        );
        let figures = vec![
            received.aim(Bound::TimesPeer(self.aim)),
            Figure::new("events written", Unit::Rate, Bound::Nothing),
        ];
        let prepare = move |side: Side| {
            let mut load = warm(side)?;
            let request = Collect::block(self.megabytes);
            let count = side.pick(self.events, self.peers);
            let command = format!("burst {THREADS} {count}");
            let total = THREADS * count;
            check_all_received(&mut load, &request, &command, total)?;
            let measure = move || {
                let run = record(&mut load, &request, &command, pace)?;
                run.check_lossless(total)?;
                let written = field(&run.answer, "events_per_second")?;
                Ok(vec![Reading::Value(total as f64 / run.seconds()), Reading::Value(written)])
            };
            Ok(Box::new(measure) as Measure)
        };
        Case {
            name: self.name,
            figures,
            rounds: options.scale(7, 1),
            peer: Some(Peer::Dotnet),
            prepare: Box::new(prepare),
        }
    }
}

fn drop_mode(options: &Options) -> Case {
    let pace = options.pace_mb;
    let command = format!("burst {THREADS} {}", options.scale(500_000, 100_000));
    let figures = vec![
        Figure::time("an event of a thread", Bound::BEATS_PEER),
        Figure::new("bytes of events received", Unit::Rate, Bound::Nothing),
    ];
    let prepare = move |side: Side| {
        let mut load = warm(side)?;
        let command = command.clone();
        let measure = move || {
            let run = record(&mut load, &Collect::ticks(6, 1), &command, pace)?;
            let nanoseconds = field(&run.answer, "ns_per_event_per_thread")?;
            let bytes = run.end.blocks.bytes as f64;
            Ok(vec![Reading::Value(nanoseconds * 1e-9), Reading::Value(bytes / run.seconds())])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "Drop 1 MB, 2 threads",
        figures,
        rounds: options.scale(7, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// A target that has run its loop before, unrecorded.
fn warm(side: Side) -> anyhow::Result<Load> {
    let mut load = side.start()?;
    load.command("burst 2 20000")?;
    Ok(load)
}

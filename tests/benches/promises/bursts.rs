//! Events in bulk: Block and Drop, small and large budgets, many short threads.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use support::HANG;
use support::load::Load;
use support::requests::Collect;

use crate::case::{Bound, Case, Comparison, Figure, Measure, Reading, Side, Unit, await_enabled};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session, StreamEnd};

/// index, thread, and 16 characters with their terminator: the least that an event takes in a stream.
const EVENT_BYTES: u64 = 8 + 8 + 34;
const THREADS: u64 = 2;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    let many = options.scale(500_000, 100_000);
    vec![
        block("Block 1 MB, 2 threads", 1, many, options.scale(100_000, 10_000), options),
        block("Block 64 MB, 2 threads", 64, many, many, options),
        drop_mode(many, options),
        churn(options),
    ]
}

/// `events` a thread of ours, `peers` a thread of the peer.
fn block(name: &'static str, megabytes: u32, events: u64, peers: u64, options: &Options) -> Case {
    let pace = options.pace_mb;
    let figures = vec![
        Figure::new("events written", Unit::Rate, Bound::BeatsPeer),
        Figure::new("events delivered, to the end of the stream", Unit::Rate, Bound::BeatsPeer),
    ];
    let prepare = move |side: Side| {
        let mut load = warm(side)?;
        let count = if side == Side::Ours { events } else { peers };
        let measure = move || {
            let run =
                record(&mut load, &Collect::block(megabytes), &format!("burst {THREADS} {count}"), pace)?;
            let total = THREADS * count;
            ensure!(
                run.end.bytes >= total * EVENT_BYTES,
                "{} bytes cannot hold {total} events",
                run.end.bytes
            );
            let seconds = run.end.at.saturating_duration_since(run.began).as_secs_f64();
            Ok(vec![
                Reading::Value(field(&run.answer, "events_per_second")?),
                Reading::Value(total as f64 / seconds),
            ])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name,
        figures,
        rounds: options.scale(7, 1),
        comparison: Comparison::SideBySide,
        prepare: Box::new(prepare),
    }
}

fn drop_mode(events: u64, options: &Options) -> Case {
    let pace = options.pace_mb;
    let figures = vec![
        Figure::time("an event of a thread", Bound::BeatsPeer),
        Figure::new("events received, by their bytes", Unit::Rate, Bound::Nothing),
    ];
    let prepare = move |side: Side| {
        let mut load = warm(side)?;
        let measure = move || {
            let command = format!("burst {THREADS} {events}");
            let run = record(&mut load, &Collect::ticks(6, 1), &command, pace)?;
            let seconds = run.end.at.saturating_duration_since(run.began).as_secs_f64();
            let delivered = run.end.bytes as f64 / EVENT_BYTES as f64;
            let nanoseconds = field(&run.answer, "ns_per_event_per_thread")?;
            Ok(vec![Reading::Value(nanoseconds * 1e-9), Reading::Value(delivered / seconds)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "Drop 1 MB, 2 threads",
        figures,
        rounds: options.scale(7, 1),
        comparison: Comparison::SideBySide,
        prepare: Box::new(prepare),
    }
}

fn churn(options: &Options) -> Case {
    let threads: u64 = options.scale(2000, 200);
    let pace = options.pace_mb;
    let name = options
        .scale("churn, 2,000 threads of 4 events, Block 1 MB", "churn, 200 threads of 4 events, Block 1 MB");
    let prepare = move |side: Side| {
        let mut load = warm(side)?;
        let measure = move || {
            let run = record(&mut load, &Collect::block(1), &format!("churn {threads} 4"), pace)?;
            let events = 4 * threads;
            ensure!(
                run.end.bytes >= events * EVENT_BYTES,
                "{} bytes cannot hold {events} events",
                run.end.bytes
            );
            Ok(vec![Reading::Value(field(&run.answer, "seconds")?)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name,
        figures: vec![Figure::time("all threads", Bound::BeatsPeer)],
        rounds: options.scale(5, 1),
        comparison: Comparison::SideBySide,
        prepare: Box::new(prepare),
    }
}

/// A target that has run its loop before, unrecorded.
fn warm(side: Side) -> anyhow::Result<Load> {
    let mut load = side.start()?;
    load.command("burst 2 20000")?;
    Ok(load)
}

/// A recorded command.
struct Recorded {
    answer: String,
    began: Instant,
    end: StreamEnd,
}

fn record(
    load: &mut Load,
    request: &Collect,
    command: &str,
    pace_mb: Option<f64>,
) -> anyhow::Result<Recorded> {
    let port = load.port_file()?;
    let session = Session::start(&port, &request.message())?;
    let id = session.id;
    let reading = session.count(pace_mb);
    await_enabled(load)?;
    let began = Instant::now();
    let answer = load.command(command)?;
    PlainClient::new(&port).stop(id, 3 * HANG)?.context("StopTracing is not answered")?;
    Ok(Recorded { answer, began, end: reading.finish()? })
}

/// `NAME=number` of an answer line.
fn field(line: &str, name: &str) -> anyhow::Result<f64> {
    let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.with_context(|| format!("no {name}= in {line:?}"))?.parse().with_context(|| line.to_owned())
}

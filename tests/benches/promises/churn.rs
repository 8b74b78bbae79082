//! Many short threads of four events each: against .NET, against the same threads without events, and what they leave behind.

use support::load::{Load, Target};
use support::process_facts::resident_bytes;
use support::requests::Collect;
use support::{HANG, await_condition};

use anyhow::Context as _;

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, Unit, await_enabled};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};
use crate::recording::{check_all_received, field, record};

const EVENTS: u64 = 4;
/// One command of the memory figure.
const PART: u64 = 2_000;
const PARTS: u64 = 5;
/// The target's resident memory with all threads of [`PARTS`] commands may be this many times that with the first.
const GROWTH: f64 = 1.1;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    vec![
        beside_dotnet("churn, 4 events a thread, Block 1 MB", 1, 500, options),
        beside_no_events("churn 10,000 x 4, Block 1 MB, beside the same without events", 1, options),
        beside_dotnet("churn, 4 events a thread, Block 64 MB", 64, 10_000, options),
        beside_no_events("churn 10,000 x 4, Block 64 MB, beside the same without events", 64, options),
    ]
}

/// Ours 10,000 threads, the runtime fewer where it takes seconds for a thousand.
fn beside_dotnet(name: &'static str, megabytes: u32, peers: u64, options: &Options) -> Case {
    let ours = options.scale(10_000, 1_000);
    let peers = options.scale(peers, 200);
    let prepare = move |side: Side| {
        let mut load = warm(side)?;
        let threads = side.pick(ours, peers);
        let (request, command) = (Collect::block(megabytes), format!("churn {threads} {EVENTS}"));
        let measure = move || {
            let run = record(&mut load, &request, &command, None)?;
            run.check_lossless(threads * EVENTS)?;
            Ok(vec![Reading::Value(field(&run.answer, "seconds")? / threads as f64)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name,
        figures: vec![Figure::time("a thread, its events received", Bound::BEATS_PEER)],
        rounds: options.scale(5, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

fn beside_no_events(name: &'static str, megabytes: u32, options: &Options) -> Case {
    let threads: u64 = options.scale(10_000, 1_000);
    let part = options.scale(PART, 200);
    let figures = vec![
        Figure::time("all threads, every event received", Bound::TimesPeer(1.0 / 1.5))
            .aim(Bound::TimesPeer(1.0 / 1.2)),
        Figure::new("resident, last 2,000 threads / first", Unit::Times, Bound::AtMost(GROWTH)),
    ];
    let prepare = move |side: Side| {
        let mut load = warm(side)?;
        let request = Collect::block(megabytes);
        let measure = move || match side {
            Side::Ours => {
                let command = format!("churn {threads} {EVENTS}");
                check_all_received(&mut load, &request, &command, threads * EVENTS)?;
                let run = record(&mut load, &request, &command, None)?;
                run.check_lossless(threads * EVENTS)?;
                let seconds = field(&run.answer, "seconds")?;
                Ok(vec![Reading::Value(seconds), Reading::Value(growth(&request, part)?)])
            }
            Side::Peer(_) => {
                let answer = load.command(&format!("churn {threads} 0"))?;
                Ok(vec![Reading::Value(field(&answer, "seconds")?), Reading::Skipped])
            }
        };
        Ok(Box::new(measure) as Measure)
    };
    Case { name, figures, rounds: options.scale(7, 1), peer: Some(Peer::Floor), prepare: Box::new(prepare) }
}

/// Resident memory of a fresh target after the last part of one session, as multiple of that after the first.
fn growth(request: &Collect, part: u64) -> anyhow::Result<f64> {
    let mut load = warm(Side::Ours)?;
    let port = load.port_file()?;
    let session = Session::start(&port, &request.message())?;
    let id = session.id;
    let reading = session.count(None);
    await_enabled(&mut load)?;
    let mut resident = Vec::new();
    for _ in 0..PARTS {
        load.command(&format!("churn {part} {EVENTS}"))?;
        await_drained(&mut load)?;
        resident.push(resident_bytes(load.pid())? as f64);
    }
    PlainClient::new(&port).stop(id, HANG)?.context("StopTracing is not answered")?;
    reading.finish()?;
    let (first, last) = (resident.first().context("no part")?, resident.last().context("no part")?);
    Ok(last / first)
}

/// What the threads of a command left is written once the process is quiet; the state of the last of them may go then.
fn await_drained(load: &mut Load) -> anyhow::Result<()> {
    let mut last = (resident_bytes(load.pid())?, 0);
    await_condition("resident memory that stands still", HANG, || {
        let now = resident_bytes(load.pid()).unwrap_or_default();
        last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
        // Six looks, 5 ms apart: more than the drain gathers for.
        last.1 > 5
    })?;
    Ok(())
}

/// A target whose threads have run before, unrecorded.
fn warm(side: Side) -> anyhow::Result<Load> {
    let mut load = side.start()?;
    load.command(if load.target() == Target::Ours { "churn 2000 4" } else { "churn 500 4" })?;
    Ok(load)
}

//! What one event costs the thread that emits it, as long as nobody has to wait or drop.

use std::time::Duration;

use anyhow::ensure;
use support::HANG;
use support::load::{Load, Target};
use support::requests::Collect;

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, await_enabled};
use crate::options::Options;
use crate::plain_client::{Counting, PlainClient, Session};
use crate::recording::field;
use crate::row::median;
use crate::stuck_reader::await_stillness;

/// Events of a burst that fits a budget of [`LARGE_MB`] whole.
const FITTING: u64 = 100_000;
const LARGE_MB: u32 = 64;
/// Bursts of a round; their median is its reading.
const BURSTS: usize = 5;
/// Longer than any drain sleeps: the budget is empty again.
const BETWEEN: Duration = Duration::from_millis(150);
const DISABLED_GATE: f64 = 2e-9;
const DISABLED_AIM: f64 = 1e-9;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    vec![enabled(options), disabled(options), dropped(options)]
}

fn enabled(options: &Options) -> Case {
    let tick = Figure::time("a Tick, wall", Bound::TimesPeer(8.0)).aim(Bound::AtMost(25e-9));
    let prepare = |side: Side| {
        let mut load = warm(side)?;
        let measure = move || {
            let written = Written::begin(&mut load)?;
            let time = written.median_burst(&mut load)?;
            written.end(&mut load)?;
            Ok(vec![Reading::Value(time)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "emit, enabled, 1 thread, budget never reached",
        figures: vec![tick],
        rounds: options.scale(7, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

fn disabled(options: &Options) -> Case {
    let count = options.scale(50_000_000, 5_000_000);
    let tick = Figure::time("a Tick, wall", Bound::AtMost(DISABLED_GATE)).aim(Bound::AtMost(DISABLED_AIM));
    let prepare = move |side: Side| {
        let mut load = warm(side)?;
        let measure = move || Ok(vec![Reading::Value(burst(&mut load, count)?)]);
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "emit, disabled, 1 thread",
        figures: vec![tick],
        rounds: options.scale(7, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// A dropped event of a full session beside a written one.
fn dropped(options: &Options) -> Case {
    let tick = Figure::time("a Tick dropped; the peer: written", Bound::BEATS_PEER);
    let prepare = |side: Side| {
        let mut load = warm(side)?;
        let measure = move || {
            let time = match side {
                Side::Ours => saturated(&mut load)?,
                Side::Peer(_) => {
                    let written = Written::begin(&mut load)?;
                    let time = written.median_burst(&mut load)?;
                    written.end(&mut load)?;
                    time
                }
            };
            Ok(vec![Reading::Value(time)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "Drop 1 MB, full, nobody reads",
        figures: vec![tick.aim(Bound::TimesPeer(1.0 / 0.3))],
        rounds: options.scale(7, 1),
        peer: Some(Peer::Floor),
        prepare: Box::new(prepare),
    }
}

/// A session in which every event finds room.
#[derive(Debug)]
struct Written {
    client: PlainClient,
    id: u64,
    reading: Counting,
    dropped_before: Option<u64>,
}

impl Written {
    fn begin(load: &mut Load) -> anyhow::Result<Self> {
        let dropped_before = dropped_so_far(load)?;
        let port = load.port_file()?;
        let session = Session::start(&port, &Collect::ticks(6, LARGE_MB).message())?;
        let (id, client) = (session.id, PlainClient::new(&port));
        let reading = session.count(None);
        await_enabled(load)?;
        // A fresh session's memory is touched for the first time.
        burst(load, FITTING)?;
        Ok(Self { client, id, reading, dropped_before })
    }

    fn median_burst(&self, load: &mut Load) -> anyhow::Result<f64> {
        let mut times = Vec::new();
        for _ in 0..BURSTS {
            std::thread::sleep(BETWEEN);
            times.push(burst(load, FITTING)?);
        }
        Ok(median(&times).unwrap_or(f64::NAN))
    }

    fn end(mut self, load: &mut Load) -> anyhow::Result<()> {
        ensure!(self.client.stop(self.id, HANG)?.is_some(), "StopTracing is not answered");
        ensure!(self.reading.finish()?.blocks.complete, "the stream has no end");
        let dropped = dropped_so_far(load)?;
        ensure!(dropped == self.dropped_before, "events were dropped: {dropped:?}");
        Ok(())
    }
}

/// A session that is full, and whose client does not read.
fn saturated(load: &mut Load) -> anyhow::Result<f64> {
    let session = Session::start(&load.port_file()?, &Collect::ticks(6, 1).message())?;
    await_enabled(load)?;
    // Until the drain has filled the socket too.
    for _ in 0..BURSTS {
        burst(load, FITTING)?;
        await_stillness(load)?;
    }
    let before = dropped_so_far(load)?;
    let times = (0..BURSTS).map(|_| burst(load, FITTING)).collect::<anyhow::Result<Vec<_>>>()?;
    let after = dropped_so_far(load)?;
    let dropped = after.zip(before).map(|(after, before)| after - before);
    let share = dropped.unwrap_or(0) as f64 / (FITTING as f64 * BURSTS as f64);
    ensure!(share > 0.99, "only {dropped:?} events were dropped");
    drop(session);
    load.await_live(0, HANG)?;
    Ok(median(&times).unwrap_or(f64::NAN))
}

/// By the target's own count; a runtime has none.
fn dropped_so_far(load: &mut Load) -> anyhow::Result<Option<u64>> {
    match load.target() {
        Target::Ours => Ok(Some(load.sessions()?.dropped)),
        Target::Dotnet(_) => Ok(None),
    }
}

/// One event of `burst 1 COUNT`, in seconds.
fn burst(load: &mut Load, count: u64) -> anyhow::Result<f64> {
    let answer = load.command(&format!("burst 1 {count}"))?;
    // The answer gives a tenth of a nanosecond, and the whole of a burst to a tenth of a millisecond.
    Ok(field(&answer, "ns_per_event_per_thread")? * 1e-9)
}

/// A target that has run its loop often enough for a runtime to have compiled it for good.
fn warm(side: Side) -> anyhow::Result<Load> {
    let mut load = side.start()?;
    for _ in 0..3 {
        load.command("burst 1 1000000")?;
        std::thread::sleep(BETWEEN);
    }
    Ok(load)
}

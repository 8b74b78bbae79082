//! A Block session whose client never reads: its stop, its producers, the client's leaving, the end of the process.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use support::background::Background;
use support::load::Load;
use support::process_facts::processor_time;
use support::requests::Collect;
use support::{HANG, await_condition};

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, await_enabled};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};
use crate::slow_reader;

/// StopTracing is answered within this.
pub(crate) const STOP_PROMISE: f64 = 5.0;
/// Producers are free within this of a stop or a hang-up.
pub(crate) const FREE_PROMISE: f64 = 0.100;
const EXIT_PROMISE: f64 = 5.0;
/// Producers stand still once the process used no more than a hundredth of a second over so long.
const STILL: Duration = Duration::from_millis(300);
/// So long is awaited what is promised within 5 s.
const PATIENCE: Duration = Duration::from_secs(6);

pub(crate) fn case(options: &Options) -> Case {
    let figures = vec![
        Figure::time("StopTracing answered", Bound::AtMost(STOP_PROMISE)),
        Figure::time("producers free after the stop", Bound::AtMost(FREE_PROMISE)),
        Figure::time("producers free after two stops at once", Bound::AtMost(FREE_PROMISE)),
        Figure::time("producers free after the hang-up", Bound::AtMost(FREE_PROMISE)),
        Figure::time("producers free after kill -9 of a slow reader", Bound::AtMost(FREE_PROMISE)),
        Figure::time("process gone after SIGTERM, its socket too", Bound::AtMost(EXIT_PROMISE)),
    ];
    let prepare = |side: Side| {
        let measure = move || {
            let (stopped, freed) = stop(&mut side.start()?)?;
            let (twice, hung_up) = (stop_twice(side)?, hang_up(&mut side.start()?)?);
            Ok(vec![stopped, freed, twice, hung_up, kill_reader(&mut side.start()?)?, terminate(side)?])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "Block session that is never read",
        figures,
        rounds: options.scale(5, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// A Block session of 1 MB that nobody reads, with two producers that wait for it.
pub(crate) fn stuck_session(load: &mut Load) -> anyhow::Result<Session> {
    let session = Session::start(&load.port_file()?, &Collect::block(1).message())?;
    await_enabled(load)?;
    load.send("burst 2 500000")?;
    await_stillness(load)?;
    Ok(session)
}

/// Waits until the process uses no processor time any more.
pub(crate) fn await_stillness(load: &Load) -> anyhow::Result<()> {
    let mut from = (processor_time(load.pid())?, Instant::now());
    await_condition("producers that wait", HANG, || {
        let used = processor_time(load.pid()).unwrap_or_default();
        if used > from.0 + Duration::from_millis(10) {
            from = (used, Instant::now());
        }
        from.1.elapsed() > STILL
    })?;
    Ok(())
}

/// StopTracing of a stuck session: its answer, and the answer of `burst`, both from the request on.
pub(crate) fn stop_stuck(load: &mut Load, port: &Path, id: u64) -> anyhow::Result<(Reading, Reading)> {
    let from = Instant::now();
    let stopping = std::thread::spawn({
        let mut client = PlainClient::new(port);
        move || client.stop(id, PATIENCE)
    });
    let freed = match load.next_line(PATIENCE) {
        Ok(line) if line.starts_with("burst") => Reading::from(from.elapsed()),
        Ok(line) => anyhow::bail!("`burst` was answered with {line:?}"),
        Err(_) => Reading::Never(PATIENCE.as_secs_f64()),
    };
    let stopped = stopping.join().map_err(|_| anyhow::anyhow!("the stopping thread panicked"))??;
    Ok((stopped.map_or(Reading::Never(PATIENCE.as_secs_f64()), Reading::from), freed))
}

fn stop(load: &mut Load) -> anyhow::Result<(Reading, Reading)> {
    let session = stuck_session(load)?;
    let port = load.port_file()?;
    let times = stop_stuck(load, &port, session.id)?;
    // Only now may its client go.
    drop(session);
    Ok(times)
}

/// From two connections; which of them is told that there is no such session any more is open.
fn stop_twice(side: Side) -> anyhow::Result<Reading> {
    if side != Side::Ours {
        // It serves one connection at a time, and the first stop waits for the reader.
        return Ok(Reading::Skipped);
    }
    let mut load = side.start()?;
    let session = stuck_session(&mut load)?;
    let (port, id) = (load.port_file()?, session.id);
    let from = Instant::now();
    let stopping = [(); 2].map(|()| {
        let mut client = PlainClient::new(&port);
        std::thread::spawn(move || client.stop(id, PATIENCE))
    });
    let line = load.next_line(HANG).context("after two stops")?;
    let freed = from.elapsed();
    ensure!(line.starts_with("burst"), "`burst` was answered with {line:?}");
    let answers = stopping.map(|thread| matches!(thread.join(), Ok(Ok(Some(_)))));
    ensure!(answers.contains(&true), "neither stop was answered well");
    drop(session);
    Ok(freed.into())
}

fn kill_reader(load: &mut Load) -> anyhow::Result<Reading> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--slow-reader").arg(load.port_file()?);
    let reader = Background::start(command)?;
    reader.expect_output(slow_reader::READY, HANG)?;
    await_enabled(load)?;
    load.send("burst 2 500000")?;
    await_stillness(load)?;
    let from = Instant::now();
    reader.signal(Signal::KILL)?;
    let line = load.next_line(HANG).context("after the death of the reader")?;
    ensure!(line.starts_with("burst"), "`burst` was answered with {line:?}");
    Ok(from.elapsed().into())
}

fn hang_up(load: &mut Load) -> anyhow::Result<Reading> {
    let session = stuck_session(load)?;
    let from = Instant::now();
    drop(session);
    let line = load.next_line(HANG).context("after the client's leaving")?;
    ensure!(line.starts_with("burst"), "`burst` was answered with {line:?}");
    Ok(from.elapsed().into())
}

fn terminate(side: Side) -> anyhow::Result<Reading> {
    if side != Side::Ours {
        // Its target does not handle SIGTERM: the kernel ends it, sessions and all.
        return Ok(Reading::Skipped);
    }
    let mut load = side.start()?;
    let session = stuck_session(&mut load)?;
    let port = load.port_file()?;
    let from = Instant::now();
    load.process().signal(Signal::TERM)?;
    let gone = || {
        // A child that was not waited for yet is a zombie, and gone.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", load.pid())).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z') || rest.is_empty())
    };
    let ended = await_condition("the end of the process", PATIENCE, gone).is_ok();
    let took = from.elapsed();
    drop(session);
    ensure!(!ended || !port.exists(), "{} is still there", port.display());
    Ok(if ended { took.into() } else { Reading::Never(PATIENCE.as_secs_f64()) })
}

//! Our client on real .NET runtimes, beside Microsoft's own client on the same work.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use support::HANG;
use support::background::{Background, run};
use support::binary::{diagport, diagport_command};
use support::judge::Judgement;
use support::load::{Load, LoadSetup, Target};
use support::peers::Peers;
use support::stream_facts::StreamFacts;

const RUNTIMES: [&str; 3] = ["8.0.31", "10.0.12", "11.0.0"];
const REFERENCE: &str = "11.0.0";
const NEEDED: [&str; 3] = ["epload", "ipcclient", "tracecheck"];
/// Events of the work that both clients record: 2 threads, 50,000 each.
const EVENTS: u64 = 100_000;
/// Ticks of `tick 100 2`.
const TICKS: u64 = 200;
/// Events of each of the five kinds of `activity 50`, one of which is a Tick.
const ACTIVITIES: u64 = 50;
/// Ticks and activities.
const VARIED: &str = "Peer-Load:3:4";
/// Their client stops by the clock: the work takes between two and three seconds, and longer on a busy machine.
const THEIR_SECONDS: &str = "20";

/// Waits until a real target says of its event source that it is enabled, or that it is not.
fn await_enabled(load: &mut Load, wanted: &str) -> anyhow::Result<()> {
    support::await_condition(wanted, HANG, || {
        load.command("burst 1 0").is_ok_and(|answer| answer.contains(wanted))
    })?;
    Ok(())
}

/// A real target does the work once its event source is enabled.
fn work(load: &mut Load) -> anyhow::Result<()> {
    await_enabled(load, "enabled=True")?;
    load.command("burst 2 50000")?;
    Ok(())
}

/// The trace holds all of the work, in the eyes of our reader and of TraceEvent.
fn check_trace(peers: &Peers, trace: &Path, events: u64) -> anyhow::Result<()> {
    let facts = StreamFacts::of_file(trace)?;
    let judgement = Judgement::of(peers, "tracecheck", trace, &[])?;
    ensure!(judgement.error().is_none(), "{}", judgement.summary);
    ensure!(
        (facts.ticks(), facts.lost) == (events, 0) && judgement.count("Peer-Load/1/Tick") == events,
        "our reader: {} + {} lost; TraceEvent: {} + {} lost; {events} were emitted",
        facts.ticks(),
        facts.lost,
        judgement.count("Peer-Load/1/Tick"),
        judgement.lost()
    );
    let all: u64 = facts.counts.values().sum();
    ensure!(
        judgement.summary["events"] == all,
        "our reader: {all} events; TraceEvent: {}",
        judgement.summary["events"]
    );
    Ok(())
}

/// All kinds of event of the target, with and without nesting, at full speed and at leisure.
fn varied_work(load: &mut Load) -> anyhow::Result<()> {
    work(load)?;
    load.command("tick 100 2")?;
    load.command("activity 50")?;
    Ok(())
}

/// What TraceEvent counts of the target's own events, kind by kind.
fn own_counts(peers: &Peers, trace: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let judgement = Judgement::of(peers, "tracecheck", trace, &[])?;
    let counts = judgement.summary["counts"].as_object().context("no counts")?;
    let own = counts.iter().filter(|(kind, _)| kind.starts_with("Peer-Load/"));
    own.map(|(kind, count)| Ok((kind.clone(), count.as_u64().context("a count")?))).collect()
}

fn start_trace(load: &Load, trace: &str, more: &[&str]) -> anyhow::Result<Background> {
    start_trace_of(load, "Peer-Load:1:4", trace, more)
}

fn start_trace_of(load: &Load, providers: &str, trace: &str, more: &[&str]) -> anyhow::Result<Background> {
    let pid = load.pid_text();
    let mut words = vec!["trace", "-p", &pid, "--providers", providers, "-o", trace];
    words.extend(more);
    let mut command = diagport_command(&words)?;
    command.current_dir(load.folder());
    Background::start_with_input(command)
}

// spec-test: CLI-COLLECT-1, CLI-TRACE-4
#[test]
fn our_client_records_what_microsofts_records() -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip("our_client_records_what_microsofts_records", &NEEDED) else {
        return Ok(());
    };
    for version in RUNTIMES {
        let mut load = LoadSetup::new(Target::Dotnet(version)).start()?;
        let tool = start_trace_of(&load, VARIED, "ours.nettrace", &[])?;
        varied_work(&mut load)?;
        tool.signal(Signal::INT)?;
        let finished = tool.finish(HANG)?.expect_code(0)?;
        let said = finished.text();
        let last = said.lines().last().context("no last line")?;
        ensure!(last.contains("lost"), "{version}: the last line says nothing of loss: {last}");

        // Or else the next session might seem to be there because this one still is.
        await_enabled(&mut load, "enabled=False")?;
        let pid = load.pid_text();
        let arguments = ["collect", &pid, "theirs.nettrace", THEIR_SECONDS, "stacks=1", VARIED];
        let theirs = peers.start("ipcclient", &arguments, load.folder())?;
        varied_work(&mut load)?;
        theirs.finish(HANG)?.expect_code(0)?;

        let mut counts = Vec::new();
        for name in ["theirs.nettrace", "ours.nettrace"] {
            let trace = load.folder().join(name);
            check_trace(peers, &trace, EVENTS + TICKS + ACTIVITIES)
                .with_context(|| format!("{version}: {name}: {said}"))?;
            counts.push(own_counts(peers, &trace)?);
        }
        ensure!(counts[0] == counts[1], "{version}: theirs {:?}, ours {:?}", counts[0], counts[1]);
        // Starts and stops, inner and outer, beside the ticks.
        let nested = counts[1].values().filter(|count| **count == ACTIVITIES).count();
        ensure!(nested == 4, "{version}: {:?}", counts[1]);
    }
    Ok(())
}

#[test]
fn block_mode_is_complete_where_the_runtime_has_it() -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip("block_mode_is_complete_where_the_runtime_has_it", &NEEDED) else {
        return Ok(());
    };
    let mut load = LoadSetup::new(Target::Dotnet(REFERENCE)).start()?;
    let tool = start_trace(
        &load,
        "b.nettrace",
        &["--buffering-mode", "Block", "--buffersize", "8", "--fail-on-loss"],
    )?;
    work(&mut load)?;
    tool.signal(Signal::INT)?;
    tool.finish(HANG)?.expect_code(0)?;
    check_trace(peers, &load.folder().join("b.nettrace"), EVENTS)
}

// spec-test: CLI-COLLECT-2
#[test]
fn block_mode_is_refused_clearly_where_the_runtime_lacks_it() -> anyhow::Result<()> {
    let name = "block_mode_is_refused_clearly_where_the_runtime_lacks_it";
    let Some(_peers) = Peers::or_skip(name, &NEEDED) else { return Ok(()) };
    for version in ["8.0.31", "10.0.12"] {
        let load = LoadSetup::new(Target::Dotnet(version)).start()?;
        let tool = start_trace(&load, "b.nettrace", &["--buffering-mode", "Block"])?;
        tool.finish(HANG)?.expect_code(5)?.expect_text("Block").context(version)?;
        ensure!(!load.folder().join("b.nettrace").exists(), "{version}: a file was left");
        load.port()?.info_latency()?;
    }
    Ok(())
}

// spec-test: CLI-CHILD-1, CLI-CHILD-2
#[test]
fn a_real_runtime_is_launched_suspended_and_recorded_from_its_start() -> anyhow::Result<()> {
    let name = "a_real_runtime_is_launched_suspended_and_recorded_from_its_start";
    let Some(peers) = Peers::or_skip(name, &NEEDED) else { return Ok(()) };
    for version in RUNTIMES {
        let home = support::temp_folder()?;
        let epload = peers.epload(version).context("no epload")?;
        let mut command = diagport_command(&["trace", "--providers", "Peer-Load:1:4", "-o", "c.nettrace"])?;
        // A busy machine may take longer than the usual ten seconds to get a runtime as far as its port.
        command
            .args(["--timeout", "60s", "--"])
            .arg(epload.get_program())
            .args(epload.get_args())
            .current_dir(home.path())
            .env("TMPDIR", home.path());
        let mut tool = Background::start_with_input(command)?;
        tool.write_input(b"tick 100 1\nexit\n")?;
        let finished = tool.finish(HANG)?.expect_code(0)?.expect_text("tick 100").context(version)?;
        check_trace(peers, &home.path().join("c.nettrace"), 100)
            .with_context(|| format!("{version}: {}", finished.text()))?;
    }
    Ok(())
}

#[test]
fn a_suspended_runtime_that_connects_is_recorded_from_its_start() -> anyhow::Result<()> {
    let name = "a_suspended_runtime_that_connects_is_recorded_from_its_start";
    let Some(peers) = Peers::or_skip(name, &NEEDED) else { return Ok(()) };
    for version in RUNTIMES {
        let home = support::temp_folder()?;
        let socket = home.path().join("d.sock");
        let socket = socket.to_str().context("path")?;
        let mut command = diagport_command(&[
            "trace",
            "--dport",
            socket,
            "--providers",
            "Peer-Load:1:4",
            "-o",
            "d.nettrace",
        ])?;
        command.current_dir(home.path());
        let tool = Background::start_with_input(command)?;
        support::await_condition("our listener", HANG, || Path::new(socket).exists())?;
        let mut load =
            LoadSetup::new(Target::Dotnet(version)).env("DOTNET_DiagnosticPorts", socket).start()?;
        load.command("tick 100 1")?;
        load.exit(HANG)?;
        let finished = tool.finish(HANG)?.expect_code(0).context(version)?;
        check_trace(peers, &home.path().join("d.nettrace"), 100)
            .with_context(|| format!("{version}: {}", finished.text()))?;
        ensure!(!Path::new(socket).exists(), "our listener left {socket}");
    }
    Ok(())
}

/// The short commands on every runtime: each ends by itself, with its result.
// spec-test: CLI-INFO-1, CLI-ENV-1
#[test]
fn short_commands_work_on_every_runtime() -> anyhow::Result<()> {
    let Some(_peers) = Peers::or_skip("short_commands_work_on_every_runtime", &NEEDED) else { return Ok(()) };
    for version in RUNTIMES {
        let load = LoadSetup::new(Target::Dotnet(version)).env("DIAGPORT_TEST_WORD", "a word").start()?;
        let pid = load.pid_text();
        let port = load.port()?.path_text();
        for (arguments, wanted) in [
            (vec!["info", "-p", &pid], version),
            (vec!["info", "--port", &port, "--json"], version),
            (vec!["env", "-p", &pid], "DIAGPORT_TEST_WORD=a word"),
            (vec!["resume", "-p", &pid], ""),
            (vec!["ps"], &pid),
        ] {
            let mut command = std::process::Command::new(diagport()?);
            command.args(&arguments).env("TMPDIR", load.folder());
            let finished = run(command, HANG)?.expect_code(0)?.expect_text(wanted).context(version)?;
            ensure!(finished.elapsed < Duration::from_secs(20), "{arguments:?} took {:?}", finished.elapsed);
        }
    }
    Ok(())
}

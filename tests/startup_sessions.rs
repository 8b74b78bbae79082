//! Startup sessions: the same variables on our scripted target and on a real runtime, and the same facts of what both leave behind.
//!
//! Real .NET 11 takes part where it is here. Where it is known to do worse (loss in Drop mode), or where we promise more, it does not.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use diagport_nettrace::Completion;
use rustix::process::Signal;
use support::background::{Finished, run};
use support::binary::diagport_command;
use support::judge::Judgement;
use support::load::{Load, LoadSetup, Target};
use support::peers::Peers;
use support::requests::{PROCESS_INFO, RESUME_RUNTIME};
use support::stream_facts::StreamFacts;
use support::{HANG, await_condition, say, temp_folder};

const DOTNET: Target = Target::Dotnet("11.0.0");
/// The head of every NetTrace stream.
const HEAD_BYTES: u64 = 102;
const TICKS: (&str, &str) = ("DOTNET_EventPipeConfig", "Peer-Load:1:4");
const ONE_MB: (&str, &str) = ("DOTNET_EventPipeCircularMB", "1");
const ON: (&str, &str) = ("DOTNET_EnableEventPipe", "1");
const BLOCK: (&str, &str) = ("DOTNET_EventPipeBufferingMode", "1");
const WHOLE_FILE: (&str, &str) = ("DOTNET_EventPipeOutputStreaming", "0");

type Variables<'a> = [(&'a str, &'a str)];

/// Ours, and the real one where it is here.
fn targets(test: &str) -> Vec<Target> {
    let real = Peers::or_skip(test, &["epload"]).map(|_| DOTNET);
    [Target::Ours].into_iter().chain(real).collect()
}

fn setup(target: Target, folder: &Path, variables: &Variables<'_>) -> LoadSetup {
    let setup = LoadSetup::new(target).folder(folder);
    variables.iter().fold(setup, |setup, (name, value)| setup.env(name, *value))
}

/// What the target wrote to its standard error, one item a line.
fn complaints(finished: &Finished) -> Vec<String> {
    String::from_utf8_lossy(&finished.stderr).lines().map(str::to_owned).collect()
}

fn recordings(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let paths: Result<Vec<_>, _> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect();
    Ok(paths?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "nettrace")).collect())
}

/// The one recording in the folder, whole.
fn the_recording(folder: &Path) -> anyhow::Result<(PathBuf, StreamFacts)> {
    let paths = recordings(folder)?;
    let [path] = paths.as_slice() else { anyhow::bail!("recordings: {paths:?}") };
    let facts = StreamFacts::of_file(path)?;
    ensure!(facts.completion == Completion::Complete, "{path:?}: {:?}", facts.completion);
    Ok((path.clone(), facts))
}

/// Starts a target, has it do something, ends it in order; what it left behind and how it ended.
fn record(
    target: Target,
    variables: &Variables<'_>,
    work: impl FnOnce(&mut Load) -> anyhow::Result<()>,
) -> anyhow::Result<(tempfile::TempDir, Finished)> {
    let folder = temp_folder()?;
    let mut load = setup(target, folder.path(), variables).start()?;
    work(&mut load)?;
    let finished = load.exit(HANG)?.expect_code(0)?;
    Ok((folder, finished))
}

fn commands<'a>(lines: &'a [&'a str]) -> impl FnOnce(&mut Load) -> anyhow::Result<()> + 'a {
    |load| lines.iter().try_for_each(|line| load.command(line).map(|_| ()))
}

/// 200,000 events through 1 MB of buffers: all of them, by our reader and by TraceEvent.
// spec-test: START-END-1, START-MODE-1, SES-BLOCK-1
#[test]
fn block_mode_loses_nothing() -> anyhow::Result<()> {
    let test = "block_mode_loses_nothing";
    for target in targets(test) {
        let (folder, finished) = record(target, &[ON, TICKS, ONE_MB, BLOCK], commands(&["burst 1 200000"]))?;
        let (path, facts) = the_recording(folder.path())?;
        ensure!(path.ends_with("trace.nettrace"), "{path:?}");
        ensure!(
            (facts.ticks(), facts.lost, facts.index_gaps) == (200_000, 0, 0),
            "{target:?}: {} ticks, {} lost, {} gaps",
            facts.ticks(),
            facts.lost,
            facts.index_gaps
        );
        ensure!(complaints(&finished).is_empty(), "{target:?}: {}", finished.text());
        let Some(peers) = Peers::or_skip(test, &["tracecheck"]) else { continue };
        let judgement = Judgement::of(peers, "tracecheck", &path, &["--contiguous", "Peer-Load", "index"])?;
        let figures = ["events", "threads", "gaps", "repeats", "back", "notFromZero"]
            .map(|name| judgement.contiguous(name));
        ensure!(judgement.error().is_none(), "{target:?}: {:?}", judgement.error());
        ensure!((judgement.count_id("Peer-Load", 1), judgement.lost()) == (200_000, 0), "{target:?}");
        ensure!(figures == [200_000, 1, 0, 0, 0, 0], "{target:?}: contiguous {figures:?}");
    }
    Ok(())
}

/// What a full buffer loses is in the file, exactly.
// spec-test: START-END-1, SES-LOSS-1
#[test]
fn drop_mode_counts_what_it_loses() -> anyhow::Result<()> {
    let test = "drop_mode_counts_what_it_loses";
    let mut counts = None;
    let (folder, _) = record(Target::Ours, &[ON, TICKS, ONE_MB], |load| {
        load.command("burst 4 250000")?;
        counts = Some(load.sessions()?);
        Ok(())
    })?;
    let counts = counts.context("counts")?;
    let (path, facts) = the_recording(folder.path())?;
    say(&format!("{test}: {counts:?}"));
    ensure!((counts.live, counts.emitted) == (1, 1_000_000), "{counts:?}");
    ensure!(
        (facts.ticks(), facts.lost) == (counts.written, counts.dropped),
        "{counts:?}, the file says {} and {} lost",
        facts.ticks(),
        facts.lost
    );
    let Some(peers) = Peers::or_skip(test, &["tracecheck"]) else { return Ok(()) };
    let judgement = Judgement::of(peers, "tracecheck", &path, &[])?;
    let judged = (judgement.count_id("Peer-Load", 1), u64::try_from(judgement.lost())?);
    ensure!(judged == (counts.written, counts.dropped), "{counts:?}, TraceEvent says {judged:?}");
    Ok(())
}

/// Without streaming only the head is in the file before the end.
// spec-test: START-MODE-1, START-END-1
#[test]
fn without_streaming_the_file_comes_at_the_end() -> anyhow::Result<()> {
    for target in targets("without_streaming_the_file_comes_at_the_end") {
        let (folder, finished) = record(target, &[ON, TICKS, WHOLE_FILE], |load| {
            load.command("burst 1 1000")?;
            let path = load.folder().join("trace.nettrace");
            let length = || std::fs::metadata(&path).map_or(0, |file| file.len());
            await_condition("the head of the file", HANG, || length() >= HEAD_BYTES)?;
            let bytes = length();
            ensure!(bytes == HEAD_BYTES, "{target:?}: {bytes} bytes while it runs");
            Ok(())
        })?;
        let (_, facts) = the_recording(folder.path())?;
        ensure!((facts.ticks(), facts.lost) == (1000, 0), "{target:?}: {} ticks", facts.ticks());
        ensure!(complaints(&finished).is_empty(), "{target:?}: {}", finished.text());
    }
    Ok(())
}

/// The whole file on SIGTERM, too.
// spec-test: START-END-1
#[test]
fn sigterm_ends_it_in_order() -> anyhow::Result<()> {
    for more in [("DOTNET_EventPipeOutputStreaming", "1"), BLOCK] {
        let folder = temp_folder()?;
        let mut load = setup(Target::Ours, folder.path(), &[ON, TICKS, ONE_MB, more]).start()?;
        load.command("burst 1 1000")?;
        load.terminate(HANG)?.expect_code(0)?;
        let (_, facts) = the_recording(folder.path())?;
        ensure!((facts.ticks(), facts.lost) == (1000, 0), "{more:?}: {} ticks", facts.ticks());
    }
    Ok(())
}

/// It records while a port holds startup, and needs no port at all.
// spec-test: START-TIME-1, START-ENV-2
#[test]
fn it_waits_for_nobody() -> anyhow::Result<()> {
    for target in targets("it_waits_for_nobody") {
        let folder = temp_folder()?;
        let variables = [ON, TICKS, ("DOTNET_DefaultDiagnosticPortSuspend", "1")];
        let mut load = setup(target, folder.path(), &variables).launch()?;
        let path = folder.path().join("trace.nettrace");
        await_condition("the head of the file", HANG, || {
            std::fs::metadata(&path).is_ok_and(|file| file.len() >= HEAD_BYTES)
        })?;
        // The file of a port is there a moment before anybody listens on it.
        await_condition("a port", HANG, || load.port().and_then(|port| port.connect()).is_ok())?;
        ensure!(load.process().stdout().is_empty(), "{target:?} is not suspended");
        load.port()?.ask(RESUME_RUNTIME, &[])?;
        load.await_ready(HANG)?;
        load.command("burst 1 1000")?;
        load.exit(HANG)?.expect_code(0)?;
        ensure!(the_recording(folder.path())?.1.ticks() == 1000, "{target:?}");

        let off = ("DOTNET_EnableDiagnostics", "0");
        let (folder, _) = record(target, &[ON, TICKS, off], commands(&["burst 1 1000"]))?;
        ensure!(the_recording(folder.path())?.1.ticks() == 1000, "{target:?}");
    }
    Ok(())
}

// spec-test: START-ENV-1, START-PATH-1
#[test]
fn names_of_variables_and_files() -> anyhow::Result<()> {
    let config = ("COMPlus_EventPipeConfig", "Peer-Load:1:4");
    let path = ("COMPlus_EventPipeOutputPath", "a-{pid}.nettrace");
    for target in targets("names_of_variables_and_files") {
        let mut expected = None;
        let both = [("COMPlus_EnableEventPipe", "1"), config, path];
        let (folder, _) = record(target, &both, |load| {
            expected = Some(format!("a-{}.nettrace", load.pid()));
            load.command("burst 1 1000").map(|_| ())
        })?;
        let (path_found, facts) = the_recording(folder.path())?;
        ensure!(path_found.ends_with(expected.context("a pid")?), "{target:?}: {path_found:?}");
        ensure!(facts.ticks() == 1000, "{target:?}: {} ticks", facts.ticks());

        let overruled = [("DOTNET_EnableEventPipe", "0"), ("COMPlus_EnableEventPipe", "1"), config, path];
        let (folder, _) = record(target, &overruled, commands(&["burst 1 10"]))?;
        ensure!(recordings(folder.path())?.is_empty(), "{target:?} started a session");
    }
    Ok(())
}

/// How many of 100 events a config records.
// spec-test: START-CONFIG-1, START-CONFIG-2
#[test]
fn configs_record_what_they_record_on_dotnet() -> anyhow::Result<()> {
    let cases = [
        ("Peer-Load", 0),
        ("Peer-Load:", 100),
        ("Peer-Load::4", 100),
        ("Peer-Load::3", 0),
        ("Peer-Load:1", 100),
        ("Peer-Load:zz:4", 0),
        ("Peer-Load:2:5", 0),
        ("Peer-Load:1:4,", 100),
        ("Peer-Load:0x1:0", 100),
        ("Peer-Load:-1:x", 100),
        ("Peer-Load:1:9", 100),
        ("Other:1:4,Peer-Load:1:4:a=b:junk,Third", 100),
        ("peer-load:1:4", 0),
        ("*", 0),
        ("", 0),
    ];
    for target in targets("configs_record_what_they_record_on_dotnet") {
        for (config, expected) in cases {
            let variables = [ON, ONE_MB, ("DOTNET_EventPipeConfig", config)];
            let (folder, _) = record(target, &variables, commands(&["burst 1 100"]))?;
            let ticks = the_recording(folder.path())?.1.ticks();
            ensure!(ticks == expected, "{target:?}, {config:?}: {ticks} events, not {expected}");
        }
    }
    Ok(())
}

/// What we make of texts that on .NET record nothing, or lose the session.
// spec-test: START-CONFIG-3, SES-ENABLE-5
#[test]
fn nonsense_in_a_config_costs_one_line() -> anyhow::Result<()> {
    let nameless = "EventPipeConfig: entries without a name are skipped";
    let too_high = |entry: &str| format!("EventPipeConfig: the level of {entry:?} counts as 5");
    let cases = [
        (",Peer-Load:1:4,:1:4", vec![nameless.to_owned()]),
        ("Peer-Load::", vec![too_high("Peer-Load::")]),
        ("Peer-Load:1:9,,S:1:6", vec![too_high("Peer-Load:1:9"), too_high("S:1:6"), nameless.to_owned()]),
        ("*:FFFFFFFFFFFFFFFF:5", vec![]),
    ];
    for (config, lines) in cases {
        let variables = [ON, ("DOTNET_EventPipeConfig", config)];
        let (folder, finished) = record(Target::Ours, &variables, commands(&["burst 1 100"]))?;
        ensure!(the_recording(folder.path())?.1.ticks() == 100, "{config:?}");
        let said = complaints(&finished);
        let fits = said.len() == lines.len() && said.iter().zip(&lines).all(|(a, b)| a.starts_with(b));
        ensure!(fits, "{config:?}: {said:?}, expected {lines:?}");
    }
    Ok(())
}

/// No session, one line, and a process that does its work.
fn check_no_session(target: Target, variables: &Variables<'_>, reason: &str) -> anyhow::Result<()> {
    let all = [&[ON, TICKS][..], variables].concat();
    let (folder, finished) = record(target, &all, |load| {
        let answer = load.command("burst 1 10")?;
        ensure!(answer.contains("enabled=False"), "{target:?} {variables:?}: {answer}");
        ensure!(load.port()?.ask(PROCESS_INFO, &[])?.is_ok(), "{target:?} {variables:?}");
        Ok(())
    })?;
    let left = recordings(folder.path())?;
    ensure!(left.is_empty(), "{target:?} {variables:?} left {left:?}");
    if target == Target::Ours {
        let said = complaints(&finished);
        let fits = said.len() == 1
            && said[0].starts_with("startup session not started: ")
            && said[0].contains(reason);
        ensure!(fits, "{variables:?}: {said:?}, expected one line with {reason:?}");
    }
    Ok(())
}

// spec-test: START-MODE-2, START-PATH-2
#[test]
fn what_cannot_be_started_is_told_once() -> anyhow::Result<()> {
    let needs_streaming = "EventPipeBufferingMode 1 (Block) needs EventPipeOutputStreaming 1";
    for target in targets("what_cannot_be_started_is_told_once") {
        let check = |variables: &Variables<'_>, reason: &str| check_no_session(target, variables, reason);
        check(&[BLOCK, WHOLE_FILE], needs_streaming)?;
        check(&[("DOTNET_EventPipeBufferingMode", "2")], "EventPipeBufferingMode is 2")?;
        check(&[("COMPlus_EventPipeBufferingMode", "ff")], "EventPipeBufferingMode is 255")?;
        check(&[("DOTNET_EventPipeOutputPath", "no/such/folder/a.nettrace")], "cannot write")?;
        if target == Target::Ours {
            // It ends a process of .NET 11.
            check(&[("DOTNET_EventPipeConfig", ",")], "names no provider")?;
        }
        check(&[("DOTNET_EventPipeConfig", ":1:4")], "names no provider")?;
    }
    Ok(())
}

/// A child that inherits the variables leaves the file to its parent.
// spec-test: START-PATH-3
#[test]
fn a_file_is_recorded_into_once() -> anyhow::Result<()> {
    let folder = temp_folder()?;
    let start = || setup(Target::Ours, folder.path(), &[ON, TICKS]).start();
    let mut first = start()?;
    let mut second = start()?;
    first.command("burst 1 1000")?;
    let answer = second.command("burst 1 1000")?;
    ensure!(answer.contains("enabled=False"), "{answer}");
    second.exit(HANG)?.expect_text("another process records into")?;
    first.exit(HANG)?.expect_code(0)?;
    ensure!(the_recording(folder.path())?.1.ticks() == 1000);
    Ok(())
}

/// How the notice of a full disk begins.
const EARLY_END: &str = "startup session into \"/dev/full\" ended early";

/// A disk that is full ends the session, with one line, and nothing else.
// spec-test: START-FAIL-1, SES-FAIL-1
#[test]
fn a_session_that_ends_early_is_told_of() -> anyhow::Result<()> {
    let variables = [ON, TICKS, ONE_MB, BLOCK, ("DOTNET_EventPipeOutputPath", "/dev/full")];
    let (_, finished) = record(Target::Ours, &variables, |load| {
        load.await_live(0, HANG)?;
        load.command("burst 1 200000")?;
        // It is told of behind the end of the session, and a process that exits at once may leave it untold.
        load.process().expect_error_output(EARLY_END, HANG)
    })?;
    let said = complaints(&finished);
    // The log has a line of its own.
    let lines = said.iter().filter(|line| line.starts_with(EARLY_END));
    ensure!(lines.count() == 1, "{said:?}");
    Ok(())
}

/// `EventPipeRundown=0` is for the sessions of clients, too, and the log says so.
// spec-test: START-ALL-1
#[test]
fn no_rundown_where_the_environment_says_so() -> anyhow::Result<()> {
    let off = ("DOTNET_EventPipeRundown", "0");
    for target in targets("no_rundown_where_the_environment_says_so") {
        let (folder, finished) = record(target, &[ON, TICKS, ONE_MB, off], |load| {
            load.command("burst 1 100")?;
            let words = ["trace", "-p", &load.pid_text(), "--providers", "Peer-Load:1:4", "--duration", "1s"];
            let mut client = diagport_command(&words)?;
            client.args(["-o", "of-client.nettrace"]).current_dir(load.folder()).env("TMPDIR", load.folder());
            run(client, HANG)?.expect_code(0)?;
            Ok(())
        })?;
        for path in recordings(folder.path())? {
            let facts = StreamFacts::of_file(&path)?;
            let rundown: Vec<_> = facts.counts.keys().filter(|(name, _)| name.ends_with("Rundown")).collect();
            ensure!(rundown.is_empty(), "{target:?}, {path:?}: {rundown:?}");
        }
        if target == Target::Ours {
            let said = complaints(&finished);
            let fits = said.len() == 1 && said[0].contains("EventPipeRundown is 0");
            ensure!(fits, "{said:?}");
        }
    }
    Ok(())
}

/// A process that is killed leaves all that it had written.
// spec-test: START-END-2
#[test]
fn what_was_written_outlives_a_kill() -> anyhow::Result<()> {
    let folder = temp_folder()?;
    let mut load = setup(Target::Ours, folder.path(), &[ON, TICKS, ONE_MB, BLOCK]).start()?;
    load.command("burst 1 200000")?;
    let path = folder.path().join("trace.nettrace");
    StreamFacts::await_ticks_in_file(&path, 200_000)?;
    load.process().signal(Signal::KILL)?;
    await_condition("its end", HANG, || load.sessions().is_err())?;
    let facts = StreamFacts::of_file(&path)?;
    ensure!(facts.completion != Completion::Complete, "{:?}", facts.completion);
    ensure!((facts.ticks(), facts.lost, facts.index_gaps) == (200_000, 0, 0), "{}", facts.ticks());
    Ok(())
}

//! Cases that users of diagnostic ports reported, on launching a program to record it (T10 of our list).
#![forbid(unsafe_code)]

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use support::background::{Background, run};
use support::binary::{diagport, diagport_command};
use support::stream_facts::StreamFacts;
use support::{HANG, say};

/// A busy machine may take longer than the usual ten seconds to get a launched command as far as its port.
const CHILD_LIMIT: &str = "60s";

/// T10: a launched child gets exactly what it would get without us, and its end is ours.
// spec-test: CLI-CHILD-1
#[test]
fn child_launch_is_transparent() -> anyhow::Result<()> {
    let home = support::temp_folder()?;
    let vector = ["a b", "\"q\"", "", "x\\", "$HOME", "ünï✓", "--duration", "5", "-t:Run"];
    let mut command =
        diagport_command(&["trace", "--providers", "X", "-o", "t.nettrace", "--timeout", CHILD_LIMIT, "--"])?;
    command
        .arg(env!("CARGO_BIN_EXE_argdump"))
        .args(vector)
        .current_dir(home.path())
        .env("TMPDIR", home.path());
    command.env("ARGDUMP_STDERR_MB", "100").env("ARGDUMP_EXIT", "7");
    let mut tool = Background::start_with_input(command)?;
    tool.write_input(b"some input\nand more")?;
    tool.close_input();
    let finished = tool.finish(HANG)?;
    ensure!(finished.code == Some(7), "exit code {:?}: {}", finished.code, finished.out());
    let mut wanted: Vec<String> = vector.iter().map(|word| support::requests::hex(word.as_bytes())).collect();
    wanted.push(format!("stdin {}", support::requests::hex(b"some input\nand more")));
    let printed: Vec<&str> =
        finished.stdout.split(|b| *b == b'\n').filter_map(|l| std::str::from_utf8(l).ok()).collect();
    ensure!(
        printed.starts_with(&wanted.iter().map(String::as_str).collect::<Vec<_>>()),
        "it printed {printed:?}"
    );
    let megabytes = finished.stderr.iter().filter(|byte| **byte == b'e').count() >> 20;
    ensure!(megabytes >= 100, "{megabytes} MB of standard error came through");
    let facts = StreamFacts::of_file(&home.path().join("t.nettrace"))?;
    ensure!(facts.completion == diagport_nettrace::Completion::Complete, "{:?}", facts.completion);
    ensure!(no_port_stays(home.path())?, "a port file stayed");
    Ok(())
}

fn no_port_stays(folder: &Path) -> anyhow::Result<bool> {
    let mut entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(!entries.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket())))
}

/// T10, second run: one SIGINT ends the recording of a long-lived child; the file is whole and no port file stays.
// spec-test: CLI-STOPPING-1, CLI-CHILD-1
#[test]
fn an_interrupt_ends_the_recording_of_a_child() -> anyhow::Result<()> {
    let home = support::temp_folder()?;
    let binary = diagport()?.to_str().context("path")?;
    let mut command = diagport_command(&[
        "trace",
        "--providers",
        "Peer-Load:1:4",
        "-o",
        "t.nettrace",
        "--timeout",
        CHILD_LIMIT,
        "--",
        binary,
        "load",
    ])?;
    command.current_dir(home.path()).env("TMPDIR", home.path());
    let mut tool = Background::start_with_input(command)?;
    tool.expect_output("ready", HANG)?;
    tool.write_input(b"tick 100 1\n")?;
    tool.expect_output("tick 100", HANG)?;
    tool.signal(Signal::INT)?;
    let finished = tool.finish(HANG)?;
    let facts = StreamFacts::of_file(&home.path().join("t.nettrace")).with_context(|| finished.text())?;
    ensure!((facts.ticks(), facts.lost) == (100, 0), "{facts:?}");
    ensure!(facts.completion == diagport_nettrace::Completion::Complete, "{:?}", facts.completion);
    ensure!(no_port_stays(home.path())?, "a port file stayed: {}", finished.text());
    Ok(())
}

/// T10, a child that has no port: a clear failure, in bounded time, and no child left behind.
// spec-test: CLI-CHILD-1
#[test]
fn a_child_without_a_port_fails_clearly() -> anyhow::Result<()> {
    let home = support::temp_folder()?;
    let mut command =
        diagport_command(&["trace", "--providers", "X", "-o", "t.nettrace", "--", "sleep", "317"])?;
    command.current_dir(home.path()).env("TMPDIR", home.path());
    let finished = run(command, HANG)?;
    say(&format!(
        "a_child_without_a_port_fails_clearly: {:?}, {}",
        finished.elapsed,
        finished.text().trim_end()
    ));
    ensure!(finished.code.is_some_and(|code| code != 0), "exit code {:?}", finished.code);
    ensure!(finished.elapsed < Duration::from_secs(30), "it took {:?}", finished.elapsed);
    let error = finished.text().lines().last().unwrap_or_default().to_owned();
    ensure!(error.contains("port") && error.contains("sleep"), "the message says little: {error}");
    ensure!(no_port_stays(home.path())?, "a port file stayed");
    Ok(())
}

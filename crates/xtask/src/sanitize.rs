//! `cargo xtask sanitize`: the hostile-input tests, the stress and a raw-thread driver of the buffer under sanitizers.
//!
//! * `address [TEST...]`: integration tests with every binary instrumented, then some seconds of stress.
//! * `thread [MUTANT...]`: the driver and the stress under ThreadSanitizer, then the driver with each planted mistake, which must be
//!   reported: a sanitizer that stays silent there proves nothing.
//!
//! Needs the nightly toolchain (the sanitizers' runtimes come with it). Where there is none it says so and
//! succeeds, because it proves nothing either way; it never claims a result it did not see.

mod std_model;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, bail, ensure};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What a malformed request could hurt: the target under the battery, the field cases and the scripts.
const ADDRESS_TESTS: [&str; 3] = ["battery", "field_sessions", "scripted"];
/// A race of the driver itself, and those mistakes of the buffer that are races; others can be named besides.
const THREAD_MUTANTS: [&str; 4] =
    ["driver_reads_ahead", "leave_relaxed", "give_back_relaxed", "take_inside_gate"];
/// What threads still hold at exit is no finding.
const ASAN_OPTIONS: &str = "detect_leaks=0:abort_on_error=1";
/// Reports are counted by their text, so that the program's own exit code is seen. Threads of a pipe end after it is gone, and nobody
/// joins them.
const TSAN_OPTIONS: &str = "exitcode=0:halt_on_error=0:report_thread_leaks=0:history_size=4";
/// With a mistake the first report is enough, and what comes after it may be anything.
const TSAN_OPTIONS_OF_MUTANTS: &str = "exitcode=0:halt_on_error=1:report_thread_leaks=0:history_size=4";
/// What names of our own functions contain.
const OURS: [&str; 3] = ["diagport", "stress::", "raw_threads"];
const STRESS: &[&str] = &["-p", "diagport-tests", "--bin", "stress"];
const DRIVER: &[&str] = &["-p", "diagport-buffer", "--example", "raw_threads"];
const STRESS_SECONDS: &str = "20";
const DRIVER_SECONDS: &str = "10";
const MUTANT_SECONDS: &str = "3";

/// Runs one of the two, or both.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let nightly = Command::new("cargo").args(["+nightly", "--version"]).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        println!("sanitize: not run: there is no nightly toolchain (rustup toolchain install nightly)");
        return Ok(());
    }
    match words.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        None => {
            address(root, &[])?;
            thread(root, &[])
        }
        Some(("address", tests)) => address(root, tests),
        Some(("thread", mutants)) => thread(root, mutants),
        Some((word, _)) => bail!("sanitize {word}? (address, thread)"),
    }
}

/// One instrumented build.
struct Build<'a> {
    root: &'a Path,
    sanitizer: &'static str,
    target_dir: PathBuf,
    /// Besides the sanitizer's own.
    flags: Vec<String>,
}

impl<'a> Build<'a> {
    fn new(root: &'a Path, sanitizer: &'static str) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Self { root, sanitizer, target_dir: target.join(format!("sanitize-{sanitizer}")), flags: Vec::new() }
    }

    fn cargo(&self, words: &[&str]) -> Command {
        let sanitizer = format!("-Zsanitizer={}", self.sanitizer);
        let own = [sanitizer.as_str(), "-Cunsafe-allow-abi-mismatch=sanitizer", "-Cforce-frame-pointers=yes"];
        let flags: Vec<&str> = own.into_iter().chain(self.flags.iter().map(String::as_str)).collect();
        let mut command = Command::new("cargo");
        command
            .arg("+nightly")
            .args(words)
            .args(["--target", TARGET])
            .current_dir(self.root)
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            .env_remove("RUSTFLAGS")
            .env("CARGO_TARGET_DIR", &self.target_dir)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
            .env("ASAN_OPTIONS", ASAN_OPTIONS)
            .env("DIAGPORT_SANITIZED", self.sanitizer);
        command
    }

    fn build(&self, words: &[&str]) -> anyhow::Result<()> {
        let words = [&["build"], words].concat();
        let status = self.cargo(&words).status().context("cannot start cargo +nightly")?;
        ensure!(status.success(), "the instrumented build failed: cargo +nightly {}", words.join(" "));
        Ok(())
    }

    fn binary(&self, name: &str) -> PathBuf {
        self.target_dir.join(TARGET).join("debug").join(name)
    }
}

fn address(root: &Path, tests: &[String]) -> anyhow::Result<()> {
    let build = Build::new(root, "address");
    build.build(&["-p", "diagport-cli", "--bin", "diagport"])?;
    let chosen: Vec<&str> = match tests {
        [] => ADDRESS_TESTS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let mut command = build.cargo(&["test", "-p", "diagport-tests"]);
    for test in &chosen {
        command.args(["--test", test]);
    }
    let status = command
        .env("DIAGPORT_BINARY", build.binary("diagport"))
        .status()
        .context("cannot start cargo +nightly")?;
    ensure!(status.success(), "tests failed under AddressSanitizer: {}", chosen.join(" "));
    build.build(STRESS)?;
    let stress = Command::new(build.binary("stress"))
        .args(["--light", "--seconds", STRESS_SECONDS])
        .env("ASAN_OPTIONS", ASAN_OPTIONS)
        .env("DIAGPORT_SANITIZED", "address")
        .status()
        .context("cannot start the stress")?;
    ensure!(stress.success(), "the stress failed under AddressSanitizer: {stress}");
    println!("sanitize address: {} stress clean", chosen.join(" "));
    Ok(())
}

fn thread(root: &Path, mutants: &[String]) -> anyhow::Result<()> {
    let mut build = Build::new(root, "thread");
    build.flags = std_model::link_flags(&build.target_dir.join("std-model"))?;
    // `membarrier` is replaced by plain fences, and mistakes can be planted.
    build.flags.extend(["--cfg", "diagport_tsan", "-Copt-level=1"].map(str::to_owned));
    build.build(DRIVER)?;
    check_silent(&build, "examples/raw_threads", &[DRIVER_SECONDS])?;
    build.build(STRESS)?;
    check_silent(&build, "stress", &["--light", "--seconds", STRESS_SECONDS])?;
    for mutant in THREAD_MUTANTS.into_iter().chain(mutants.iter().map(String::as_str)) {
        let output =
            under_tsan(&build, TSAN_OPTIONS_OF_MUTANTS, "examples/raw_threads", &[MUTANT_SECONDS, mutant])?;
        let is_seen =
            reports(&output).iter().any(|report| report.contains("data race") && !is_of_std(report));
        ensure!(is_seen, "ThreadSanitizer does not see the planted race {mutant}");
        println!("sanitize thread: mutant {mutant} is reported, as it must be");
    }
    println!("sanitize thread: driver and stress clean");
    Ok(())
}

fn check_silent(build: &Build<'_>, binary: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = under_tsan(build, TSAN_OPTIONS, binary, arguments)?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let (of_std, reports): (Vec<_>, Vec<_>) =
        reports(&output).into_iter().partition(|report| is_of_std(report));
    if !of_std.is_empty() {
        println!("sanitize thread: {} reports about memory of std's own threads", of_std.len());
    }
    for report in reports.iter().take(3) {
        eprintln!("{report}");
    }
    ensure!(reports.is_empty(), "ThreadSanitizer reports {} times on {binary}", reports.len());
    ensure!(
        output.status.success(),
        "{binary} under ThreadSanitizer ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The sanitizer's memory layout needs fixed addresses: `setarch -R`.
fn under_tsan(build: &Build<'_>, options: &str, binary: &str, arguments: &[&str]) -> anyhow::Result<Output> {
    Command::new("setarch")
        .arg("-R")
        .arg(build.binary(binary))
        .args(arguments)
        .env("TSAN_OPTIONS", options)
        .env("DIAGPORT_SANITIZED", "thread")
        .output()
        .with_context(|| format!("cannot start setarch -R {binary}"))
}

/// Each report of the sanitizer, by its own text.
fn reports(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let parts = text.split("WARNING: ThreadSanitizer").skip(1);
    parts.map(|part| part.split("\n==================").next().unwrap_or(part).to_owned()).collect()
}

/// Whether one side of the race is all in std: a thread that begins or ends and handles its own name or handle. That code is not
/// instrumented, and reaches no memory of ours without a frame of ours.
fn is_of_std(report: &str) -> bool {
    let accesses = report.split("\n\n").filter(|part| part.contains(" of size "));
    accesses.map(|part| part.lines().filter(|line| line.trim_start().starts_with('#'))).any(|mut frames| {
        let mut count = 0;
        let all = frames.all(|frame| {
            count += 1;
            frame.contains("/rustc/") && !OURS.iter().any(|name| frame.contains(name))
        });
        all && count > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: &[&str], second: &[&str], of_std: bool) {
        let stack =
            |frames: &[&str]| frames.iter().map(|frame| format!("    #0 {frame}\n")).collect::<String>();
        let report = format!(
            ": data race (pid=1)\n  Write of size 8 at 0x1 by thread T1:\n{}\n  Previous read of size 8 at 0x1 by thread T2:\n{}\n  Thread T1 created by:\n{}",
            stack(first),
            stack(second),
            stack(&["pthread_create /rustc/llvm/x.cpp:1"])
        );
        assert_eq!(is_of_std(&report), of_std, "{report}");
    }

    #[test]
    fn a_race_is_of_std_only_where_one_side_has_no_frame_of_ours() {
        let (theirs, ours) = ("memcpy /rustc/llvm/x.cpp:1", "run crates/diagport-session/src/drain.rs:1");
        check(&[theirs, ours], &[theirs], true);
        check(&[theirs, ours], &[theirs, ours], false);
        check(&[theirs, ours], &["drop_glue::<diagport_session::X> /rustc/core/ptr/mod.rs:1"], false);
        check(&[theirs, ours], &[], false);
    }
}

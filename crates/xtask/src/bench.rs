//! `cargo xtask bench`: every bound that is a figure, measured on the release binary, beside .NET and LTTng where they are.
//!
//! The measuring is the benchmark `promises` of the tests package; this builds the product first, so that no build runs beside a measurement.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Builds, then measures with `arguments`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    cargo(root, &["build", "--release", "--package", "diagport-cli", "--bin", "diagport"], &[])?;
    // The measuring runs in the folder of its package; a file is named from where the person stands.
    let mut arguments = arguments.to_vec();
    if let Some(at) = arguments.iter().position(|word| word == "--json")
        && let Some(file) = arguments.get_mut(at + 1)
    {
        *file = std::path::absolute(&*file).context("--json")?.to_string_lossy().into_owned();
    }
    cargo(root, &["bench", "--package", "diagport-tests", "--bench", "promises", "--"], &arguments)
}

fn cargo(root: &Path, words: &[&str], arguments: &[String]) -> anyhow::Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(words)
        .args(arguments)
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo {} ended with {status}", words.join(" "));
    }
    Ok(())
}

//! `cargo xtask stress`: randomised stress of the event engine with an oracle that counts.
//!
//! The stress itself is the program `stress` of the tests package, built as the product is.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Builds it and runs it with `arguments`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(["run", "--release", "--package", "diagport-tests", "--bin", "stress", "--"])
        .args(arguments)
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the stress ended with {status}");
    }
    Ok(())
}

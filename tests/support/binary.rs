//! Where the built `diagport` is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};

/// The `diagport` binary of the same profile as the running test; built when it is absent or older than its sources.
/// `DIAGPORT_BINARY` names another one.
///
/// # Errors
/// When it has to be built and the build fails.
pub fn diagport() -> anyhow::Result<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(|| locate().map_err(|error| format!("{error:#}"))) {
        Ok(path) => Ok(path),
        Err(error) => anyhow::bail!("no diagport binary: {error}"),
    }
}

/// A command line of `diagport`.
///
/// # Errors
/// As [`diagport`].
pub fn diagport_command(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(diagport()?);
    command.args(arguments);
    Ok(command)
}

fn locate() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("DIAGPORT_BINARY") {
        return Ok(PathBuf::from(named));
    }
    // TARGET/debug/deps/test-1234 → TARGET/debug/diagport
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).context("the test runs from no target folder")?.to_path_buf();
    let binary = profile.join(format!("diagport{}", std::env::consts::EXE_SUFFIX));
    let root = super::workspace_root();
    let sources = newest(&root.join("crates"))?.max(newest(&root.join("Cargo.lock"))?);
    let built = std::fs::metadata(&binary).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    if built < sources {
        build(&root, &profile)?;
    }
    ensure!(binary.is_file(), "{} is not there after the build", binary.display());
    Ok(binary)
}

fn build(root: &Path, profile: &Path) -> anyhow::Result<()> {
    let target = profile.parent().context("the test runs from no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "diagport-cli", "--bin", "diagport"]);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let output = command.env("CARGO_TARGET_DIR", target).current_dir(root).output()?;
    ensure!(output.status.success(), "cargo build: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The latest change of a product source or manifest below `path`. A chore's or a crate's own tests make no binary.
fn newest(path: &Path) -> anyhow::Result<SystemTime> {
    let meta = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    if meta.is_file() {
        return Ok(meta.modified()?);
    }
    let mut latest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_source = name.ends_with(".rs") || name == "Cargo.toml";
        let is_product_folder =
            entry.file_type()?.is_dir() && !matches!(&*name, "tests" | "xtask" | "benches");
        if is_source || is_product_folder {
            latest = latest.max(newest(&entry.path())?);
        }
    }
    Ok(latest)
}

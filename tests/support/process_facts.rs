//! What the kernel says of a process.

use std::time::Duration;

use anyhow::Context as _;

/// Open file descriptors of `pid`.
///
/// # Errors
/// When the process is gone or not ours.
pub fn open_files(pid: u32) -> anyhow::Result<usize> {
    let folder = format!("/proc/{pid}/fd");
    Ok(std::fs::read_dir(&folder).with_context(|| folder.clone())?.count())
}

/// Threads of `pid`.
///
/// # Errors
/// When the process is gone.
pub fn threads(pid: u32) -> anyhow::Result<u64> {
    status_field(pid, "Threads:")
}

/// Resident memory of `pid` in bytes.
///
/// # Errors
/// When the process is gone.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    Ok(status_field(pid, "VmRSS:")? * 1024)
}

/// Largest resident memory that `pid` ever had, in bytes.
///
/// # Errors
/// When the process is gone.
pub fn peak_resident_bytes(pid: u32) -> anyhow::Result<u64> {
    Ok(status_field(pid, "VmHWM:")? * 1024)
}

/// Does memory say something of the product? Under a sanitizer (`DIAGPORT_SANITIZED`) its own bookkeeping grows.
#[must_use]
pub fn memory_is_the_products() -> bool {
    std::env::var_os("DIAGPORT_SANITIZED").is_none()
}

/// Processor time that `pid` has used.
///
/// # Errors
/// When the process is gone.
pub fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // utime and stime, in hundredths of a second on every Linux.
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
}

/// Do all threads of `pid` stand still, as SIGSTOP makes them?
///
/// # Errors
/// When the process is gone.
pub fn is_stopped(pid: u32) -> anyhow::Result<bool> {
    let folder = format!("/proc/{pid}/task");
    for entry in std::fs::read_dir(&folder).with_context(|| folder.clone())? {
        let text = std::fs::read_to_string(entry?.path().join("stat")).with_context(|| folder.clone())?;
        // The state stands behind the name, which may hold anything.
        let state = text.rsplit(')').next().unwrap_or_default().trim_start();
        if !state.starts_with('T') {
            return Ok(false);
        }
    }
    Ok(true)
}

fn status_field(pid: u32, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("no {name} in {path}"))?;
    let word = line.split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("{name} {line}"))
}

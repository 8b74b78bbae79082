//! Facts about a process, from procfs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn proc_path(pid: u32, file: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(file)
}

pub(crate) fn root(pid: u32) -> PathBuf {
    proc_path(pid, "root")
}

pub(crate) fn exists(pid: u32) -> bool {
    pid != 0 && proc_path(pid, "stat").exists()
}

pub(crate) fn ids() -> io::Result<Vec<u32>> {
    let mut ids: Vec<u32> =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

pub(crate) fn owner_uid(pid: u32) -> io::Result<u32> {
    Ok(fs::metadata(proc_path(pid, ""))?.uid())
}

/// Field 22 of `stat`: start time in clock ticks since boot.
pub(crate) fn start_key(pid: u32) -> io::Result<u64> {
    let stat = fs::read(proc_path(pid, "stat"))?;
    start_key_in(&stat).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn start_key_in(stat: &[u8]) -> Option<u64> {
    // The name stands between parentheses and may itself hold blanks and parentheses: count from the last one.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[after_name..]).ok()?;
    // The first field after the name is number 3.
    fields.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

/// The last number of `NSpid`: what the process itself takes for its pid.
pub(crate) fn namespace_pid(pid: u32) -> io::Result<u32> {
    let status = fs::read_to_string(proc_path(pid, "status"))?;
    Ok(namespace_pid_in(&status).unwrap_or(pid))
}

fn namespace_pid_in(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().last()?.parse().ok()
}

/// The name the kernel keeps (15 bytes at most).
pub(crate) fn name(pid: u32) -> io::Result<String> {
    let comm = fs::read(proc_path(pid, "comm"))?;
    Ok(String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned())
}

pub(crate) fn executable(pid: u32) -> io::Result<PathBuf> {
    fs::read_link(proc_path(pid, "exe"))
}

pub(crate) fn arguments(pid: u32) -> io::Result<Vec<OsString>> {
    Ok(nul_separated(&fs::read(proc_path(pid, "cmdline"))?))
}

pub(crate) fn environment_variable(pid: u32, name: &str) -> io::Result<Option<OsString>> {
    let prefix = format!("{name}=").into_bytes();
    let environment = fs::read(proc_path(pid, "environ"))?;
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(&prefix[..]));
    Ok(value.map(|value| OsString::from_vec(value.to_vec())))
}

fn nul_separated(bytes: &[u8]) -> Vec<OsString> {
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(|part| OsString::from_vec(part.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::{namespace_pid_in, nul_separated, start_key_in};

    #[test]
    fn start_key_is_counted_from_the_last_parenthesis() {
        let numbers = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        let check = |name: &str, expected: Option<u64>| {
            assert_eq!(start_key_in(format!("17 ({name}) {numbers}").as_bytes()), expected, "name {name:?}");
        };
        check("plain", Some(4242));
        check("two words", Some(4242));
        check("a) b (c) R 1 2", Some(4242));
        check("", Some(4242));
        assert_eq!(start_key_in(b"17 (cut) S 1 2"), None);
        assert_eq!(start_key_in(b""), None);
        assert_eq!(start_key_in(b"no parenthesis"), None);
    }

    #[test]
    fn namespace_pid_is_the_innermost() {
        let check = |line: &str, expected: Option<u32>| {
            assert_eq!(namespace_pid_in(&format!("Name:\tx\n{line}\nThreads:\t1\n")), expected, "{line}");
        };
        check("NSpid:\t812", Some(812));
        check("NSpid:\t812\t9\t1", Some(1));
        check("NStgid:\t812", None);
    }

    #[test]
    fn arguments_keep_empty_ones() {
        assert_eq!(nul_separated(b""), Vec::<std::ffi::OsString>::new());
        assert_eq!(nul_separated(b"a\0\0b c\0"), ["a", "", "b c"].map(std::ffi::OsString::from));
        assert_eq!(nul_separated(b"title without end"), ["title without end"].map(std::ffi::OsString::from));
    }
}

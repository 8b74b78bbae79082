//! Finding ports: the folders they lie in, the files, and facts about the processes they name.
//!
//! Nothing here connects, except [`sweep_stale`], and nothing waits. Names are not judged here: their grammar is
//! the codec's.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::socket_file::{Entry, entry_at, unlink_if_same};
use crate::os::process;
use crate::{Probe, effective_uid, probe};

/// How every port file's name begins.
const NAME_PREFIX: &str = "dotnet-diagnostic-";

/// A refusing socket is asked twice, this far apart.
const STALE_RECHECK: Duration = Duration::from_millis(20);

/// A socket in a folder of ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFile {
    /// Folder and name.
    pub path: PathBuf,
    /// The name alone; the codec parses pid and key from it.
    pub file_name: String,
    /// Last modification: for a socket, when it was bound.
    pub modified: SystemTime,
    /// Owner of the file.
    pub owner_uid: u32,
    /// With `inode`, the identity of the file.
    pub device: u64,
    /// With `device`, the identity of the file.
    pub inode: u64,
}

/// The sockets in `folder` whose names begin as a port's does, sorted by name. Plain files, folders and symbolic
/// links are left out; files that vanish meanwhile, too.
///
/// # Errors
/// The folder cannot be read.
pub fn list_port_files(folder: &Path) -> io::Result<Vec<PortFile>> {
    let mut files: Vec<PortFile> =
        fs::read_dir(folder)?.filter_map(|entry| port_file(&entry.ok()?)).collect();
    files.sort_by(|left, right| left.file_name.cmp(&right.file_name));
    Ok(files)
}

/// The process's root folder, as its own mount namespace shows it.
#[must_use]
pub fn root_of(pid: u32) -> PathBuf {
    process::root(pid)
}

/// Who owns the file, links not followed. None: there is none, or it may not be looked at.
#[must_use]
pub fn owner_uid_of(path: &Path) -> Option<u32> {
    Some(fs::symlink_metadata(path).ok()?.uid())
}

/// Whether there is something at the path, and it is no socket. Links are followed.
#[must_use]
pub fn is_no_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.file_type().is_socket())
}

/// Device and inode of a folder: one folder has many names, below the roots of processes for example.
#[must_use]
pub fn folder_identity(folder: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(folder).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn port_file(entry: &fs::DirEntry) -> Option<PortFile> {
    let file_name = entry.file_name().into_string().ok().filter(|name| name.starts_with(NAME_PREFIX))?;
    let metadata = fs::symlink_metadata(entry.path()).ok()?;
    if !metadata.file_type().is_socket() {
        return None;
    }
    Some(PortFile {
        path: entry.path(),
        file_name,
        modified: metadata.modified().ok()?,
        owner_uid: metadata.uid(),
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

/// The folder of ports for a process whose TMPDIR is `tmpdir`: that, unless unset or empty; else `/tmp`.
#[must_use]
pub fn temp_dir_from(tmpdir: Option<&OsStr>) -> PathBuf {
    tmpdir.filter(|value| !value.is_empty()).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// The folder of ports for this process.
#[must_use]
pub fn temp_dir() -> PathBuf {
    temp_dir_from(std::env::var_os("TMPDIR").as_deref())
}

/// The folder of ports for process `pid`, from the environment it was started with, as that process names it.
///
/// # Errors
/// Its environment cannot be read (another user's process, or gone).
pub fn temp_dir_of(pid: u32) -> io::Result<PathBuf> {
    Ok(temp_dir_from(process::environment_variable(pid, "TMPDIR")?.as_deref()))
}

/// The DisambiguationKey of a process: its start time in clock ticks since boot (field 22 of its `stat`).
///
/// # Errors
/// No such process.
pub fn start_key_of(pid: u32) -> io::Result<u64> {
    process::start_key(pid)
}

/// The pid a process has in its own, innermost pid namespace; `pid` itself where it shares ours.
///
/// # Errors
/// No such process.
pub fn namespace_pid_of(pid: u32) -> io::Result<u32> {
    process::namespace_pid(pid)
}

/// Whether a process of that id exists now, as far as our pid namespace shows.
#[must_use]
pub fn process_exists(pid: u32) -> bool {
    process::exists(pid)
}

/// All process ids of our pid namespace, ascending.
///
/// # Errors
/// There is no procfs.
pub fn process_ids() -> io::Result<Vec<u32>> {
    process::ids()
}

/// The user a process runs as.
///
/// # Errors
/// No such process.
pub fn process_owner_uid(pid: u32) -> io::Result<u32> {
    process::owner_uid(pid)
}

/// The kernel's name of a process, 15 bytes at most.
///
/// # Errors
/// No such process.
pub fn process_name(pid: u32) -> io::Result<String> {
    process::name(pid)
}

/// The file a process runs.
///
/// # Errors
/// No such process, a kernel thread, or not ours to know.
pub fn process_executable(pid: u32) -> io::Result<PathBuf> {
    process::executable(pid)
}

/// The argument vector of a process; empty for kernel threads and zombies.
///
/// # Errors
/// No such process.
pub fn process_arguments(pid: u32) -> io::Result<Vec<OsString>> {
    process::arguments(pid)
}

/// The process that a port file's name speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedProcess {
    /// Process id.
    pub pid: u32,
    /// Its start key when the port was made.
    pub key: u64,
}

/// Removes leftovers from a folder of ports; returns what was removed.
///
/// A file goes only if **all** of this holds: it is a socket, not a link; it is of our own uid; `parse` finds a
/// process in its name; that process is dead or has another start key; and it refuses a connection. The last one
/// protects a folder shared between pid namespaces, where live processes look dead.
///
/// # Errors
/// The folder cannot be read. A file that cannot be removed is skipped.
pub fn sweep_stale(folder: &Path, parse: impl Fn(&str) -> Option<NamedProcess>) -> io::Result<Vec<PathBuf>> {
    let own_uid = effective_uid();
    let is_stale = |file: &PortFile| {
        file.owner_uid == own_uid
            && parse(&file.file_name).is_some_and(|named| {
                !process_exists(named.pid) || start_key_of(named.pid).is_ok_and(|key| key != named.key)
            })
    };
    let mut refusing: Vec<_> = list_port_files(folder)?
        .into_iter()
        .filter(|file| is_stale(file) && probe(&file.path) == Probe::Refused)
        .collect();
    if !refusing.is_empty() {
        // Between a process's bind and its listen its socket refuses, too; and it may look dead from here.
        std::thread::sleep(STALE_RECHECK);
    }
    refusing.retain(|file| match entry_at(&file.path) {
        Ok(Entry::Socket(found)) => {
            found.inode == file.inode
                && found.device == file.device
                && probe(&file.path) == Probe::Refused
                && matches!(unlink_if_same(&file.path, found), Ok(true))
        }
        _ => false,
    });
    Ok(refusing.into_iter().map(|file| file.path).collect())
}

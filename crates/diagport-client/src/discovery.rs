//! From a pid or a name to the sockets that may be that process's port.
//!
//! A port's file name holds the pid as its process sees it and, as key, the process's start time. Files outlive
//! processes, pids are used again, and anybody may put a file of that name into a shared folder; so a name is only a
//! hint. Candidates are ranked (key equal to the start time of the live process, then newest first), and whoever connects
//! takes the first that does not refuse; one with another key only if the process that serves it is the wanted one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use diagport_codec::PortName;
use diagport_transport::discover::{self, PortFile};
use diagport_transport::{MAX_PATH_BYTES, PathError, check_path, effective_uid};
use thiserror::Error;

use crate::target::{Candidate, ListeningPort, Trust};

/// What people name a target by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSelector {
    /// A process id of our own pid namespace.
    ProcessId(u32),
    /// The name of exactly one process that has a port.
    Name(String),
    /// The path of a listening socket.
    Port(PathBuf),
}

/// No candidate at all.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// There is no such process.
    #[error("process {process_id} does not exist")]
    NoSuchProcess {
        /// The pid.
        process_id: u32,
    },
    /// The process has no port where ports are looked for.
    #[error("process {process_id} has no diagnostic port: searched {} for {pattern}{}", folders(.searched), hint(.note))]
    NoPort {
        /// The pid.
        process_id: u32,
        /// Every folder that was searched.
        searched: Vec<PathBuf>,
        /// The file name that was looked for.
        pattern: String,
        /// What may explain it.
        note: Option<String>,
    },
    /// No process of that name has a port.
    #[error("no process named `{name}` has a diagnostic port ({} processes have one)", .with_port)]
    NoSuchName {
        /// The name.
        name: String,
        /// How many processes have a port.
        with_port: usize,
    },
    /// Several have.
    #[error("`{name}` names {} processes: {}; choose one by its process id", .process_ids.len(), numbers(.process_ids))]
    Ambiguous {
        /// The name.
        name: String,
        /// Their pids, ascending.
        process_ids: Vec<u32>,
    },
    /// No socket address can hold the path.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Finds the candidates of a target. Reads procfs and folders; connects to nobody.
///
/// # Errors
/// [`ResolveError`]: there is nothing to connect to. A stale file is a candidate; connecting tells.
// spec: CLI-FIND-1
pub fn resolve(selector: &TargetSelector) -> Result<ListeningPort, ResolveError> {
    match selector {
        TargetSelector::Port(path) => {
            check_path(path)?;
            let named = Candidate { path: path.clone(), trust: Trust::Named };
            Ok(ListeningPort::new(vec![named], None))
        }
        TargetSelector::ProcessId(pid) => resolve_process(*pid),
        TargetSelector::Name(name) => resolve_name(name),
    }
}

fn resolve_process(pid: u32) -> Result<ListeningPort, ResolveError> {
    if !discover::process_exists(pid) {
        return Err(ResolveError::NoSuchProcess { process_id: pid });
    }
    let place = Place::of(pid);
    let candidates = place.candidates(&mut Folders::default());
    if candidates.is_empty() {
        return Err(place.no_port());
    }
    Ok(ListeningPort::new(candidates, Some(pid)))
}

fn resolve_name(name: &str) -> Result<ListeningPort, ResolveError> {
    let mut all = list_processes();
    let with_port = all.len();
    all.retain(|process| process.is_named(name));
    match all.len() {
        1 => Ok(all.remove(0).port),
        0 => Err(ResolveError::NoSuchName { name: name.to_owned(), with_port }),
        _ => Err(ResolveError::Ambiguous {
            name: name.to_owned(),
            process_ids: all.iter().map(|process| process.process_id).collect(),
        }),
    }
}

/// A live process with at least one file that may be its port.
#[derive(Debug, Clone)]
pub struct DiscoveredProcess {
    /// Its pid in our namespace.
    pub process_id: u32,
    /// Its pid in its own namespace.
    pub namespace_pid: u32,
    /// The user it runs as, where known.
    pub owner_uid: Option<u32>,
    /// The kernel's name for it, 15 bytes at most; empty where unknown.
    pub name: String,
    /// The file it runs, where we may know.
    pub executable: Option<PathBuf>,
    /// Its argument vector, lossily decoded; empty where unknown.
    pub arguments: Vec<String>,
    /// Where to connect.
    pub port: ListeningPort,
}

impl DiscoveredProcess {
    /// Whether `name` is its kernel name, or the file name of its executable or of its first argument.
    pub fn is_named(&self, name: &str) -> bool {
        let file_name = |path: &Path| path.file_name().is_some_and(|file| file == name);
        self.name == name
            || self.executable.as_deref().is_some_and(file_name)
            || self.arguments.first().is_some_and(|argument| file_name(Path::new(argument)))
    }
}

/// Every live process for which a port file exists, by pid; each once, however many files name it. What cannot be
/// read (foreign processes, processes that end meanwhile) is left out, never an error.
// spec: CLI-FIND-2
pub fn list_processes() -> Vec<DiscoveredProcess> {
    let mut folders = Folders::default();
    let ids = discover::process_ids().unwrap_or_default();
    ids.into_iter().filter_map(|pid| discovered(pid, &mut folders)).collect()
}

fn discovered(pid: u32, folders: &mut Folders) -> Option<DiscoveredProcess> {
    let place = Place::of(pid);
    let candidates = place.candidates(folders);
    if candidates.is_empty() {
        return None;
    }
    let arguments = discover::process_arguments(pid).unwrap_or_default();
    Some(DiscoveredProcess {
        process_id: pid,
        namespace_pid: place.namespace_pid,
        owner_uid: discover::process_owner_uid(pid).ok(),
        name: discover::process_name(pid).unwrap_or_default(),
        executable: discover::process_executable(pid).ok(),
        arguments: arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        port: ListeningPort::new(candidates, Some(pid)),
    })
}

/// The listings made so far, so that a walk over all processes reads each folder once.
#[derive(Default)]
struct Folders {
    /// By device and inode: one folder has many names under /proc.
    by_identity: HashMap<(u64, u64), Vec<(PortFile, PortName)>>,
}

impl Folders {
    fn files(&mut self, folder: &Path) -> &[(PortFile, PortName)] {
        let Some(identity) = discover::folder_identity(folder) else { return &[] };
        self.by_identity.entry(identity).or_insert_with(|| {
            let files = discover::list_port_files(folder).unwrap_or_default();
            files
                .into_iter()
                .filter_map(|file| PortName::parse(&file.file_name).map(|name| (file, name)))
                .collect()
        })
    }
}

/// Where a process's port may lie.
struct Place {
    pid: u32,
    namespace_pid: u32,
    start_key: Option<u64>,
    /// `None`: its environment cannot be read.
    temp_dir: Option<PathBuf>,
}

impl Place {
    fn of(pid: u32) -> Self {
        Self {
            pid,
            namespace_pid: discover::namespace_pid_of(pid).unwrap_or(pid),
            start_key: discover::start_key_of(pid).ok(),
            temp_dir: discover::temp_dir_of(pid).ok(),
        }
    }

    /// The folders, each with the pid that file names in it carry. The target's own folder comes first, then ours,
    /// then its folder as its own mount namespace shows it (containers, private temp folders).
    fn folders(&self) -> Vec<(PathBuf, u32)> {
        let mut folders = Vec::new();
        if let Some(folder) = &self.temp_dir
            && self.namespace_pid == self.pid
        {
            folders.push((folder.clone(), self.pid));
        }
        folders.push((discover::temp_dir(), self.pid));
        let inside = self.temp_dir.clone().unwrap_or_else(|| discover::temp_dir_from(None));
        if let Ok(relative) = inside.strip_prefix("/") {
            folders.push((discover::root_of(self.pid).join(relative), self.namespace_pid));
        }
        let mut seen = Vec::new();
        folders.retain(|entry| {
            let fresh = !seen.contains(entry);
            seen.push(entry.clone());
            fresh
        });
        folders
    }

    fn candidates(&self, folders: &mut Folders) -> Vec<Candidate> {
        let mut found: Vec<(PortFile, bool)> = Vec::new();
        for (folder, named_pid) in self.folders() {
            for (file, name) in folders.files(&folder) {
                let known =
                    |(other, _): &(PortFile, bool)| (other.device, other.inode) == (file.device, file.inode);
                if name.process_id == named_pid && !found.iter().any(known) {
                    found.push((file.clone(), self.start_key == Some(name.key)));
                }
            }
        }
        found
            .sort_by_key(|(file, true_key)| (std::cmp::Reverse(*true_key), std::cmp::Reverse(file.modified)));
        let trust = |true_key| if true_key { Trust::Named } else { Trust::PidOnly };
        found
            .into_iter()
            .map(|(file, true_key)| Candidate { path: file.path, trust: trust(true_key) })
            .collect()
    }

    fn no_port(&self) -> ResolveError {
        let key = self.start_key.map_or_else(|| "*".to_owned(), |key| key.to_string());
        let pattern = format!("dotnet-diagnostic-{}-{key}-socket", self.namespace_pid);
        ResolveError::NoPort {
            process_id: self.pid,
            searched: self.folders().into_iter().map(|(folder, _)| folder).collect(),
            note: self.note(&pattern),
            pattern,
        }
    }

    fn note(&self, pattern: &str) -> Option<String> {
        let Some(folder) = &self.temp_dir else {
            let (owner, own) = (discover::process_owner_uid(self.pid).ok()?, effective_uid());
            let why = if owner == own {
                "the operating system keeps its environment from us".to_owned()
            } else {
                format!("it belongs to uid {owner}, own uid is {own}")
            };
            return Some(format!("its TMPDIR could not be read ({why})"));
        };
        let length = folder.join(pattern).as_os_str().len();
        (length > MAX_PATH_BYTES).then(|| {
            format!(
                "the path would be {length} bytes long, {} more than a socket can have",
                length - MAX_PATH_BYTES
            )
        })
    }
}

fn folders(searched: &[PathBuf]) -> String {
    searched.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn hint(note: &Option<String>) -> String {
    note.as_ref().map_or_else(String::new, |note| format!("; {note}"))
}

fn numbers(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

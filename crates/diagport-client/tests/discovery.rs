//! Finding the port of a live process among decoys.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

use diagport_client::{
    Client, Deadline, Fault, ResolveError, Target, TargetSelector, list_processes, resolve,
};
use diagport_transport::discover::start_key_of;

/// A process whose TMPDIR is a folder of the test's own.
struct Sleeper {
    process: Child,
    folder: tempfile::TempDir,
}

impl Sleeper {
    fn start() -> Self {
        Self::start_as("sleep")
    }

    /// A program of that name which sleeps.
    fn start_as(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let process = Command::new(program).arg("100").env("TMPDIR", folder.path()).spawn().unwrap();
        // Until it has become `sleep` its environment is ours, and for a moment nobody's.
        let wanted = format!("TMPDIR={}", folder.path().display());
        let environment = format!("/proc/{}/environ", process.id());
        while !std::fs::read(&environment)
            .unwrap()
            .split(|byte| *byte == 0)
            .any(|entry| entry == wanted.as_bytes())
        {
            std::thread::yield_now();
        }
        Self { process, folder }
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn file(&self, key: u64) -> PathBuf {
        self.folder.path().join(format!("dotnet-diagnostic-{}-{key}-socket", self.pid()))
    }

    fn true_file(&self) -> PathBuf {
        self.file(start_key_of(self.pid()).unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn set_time(path: &PathBuf, time: SystemTime) {
    let status = Command::new("touch").arg("-d").arg(format!("@{}", seconds(time))).arg(path).status();
    assert!(status.unwrap().success());
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

// spec-test: CLI-FIND-1
// spec-test: CLI-FIND-2
// spec-test: CLI-FIND-3
#[tokio::test]
async fn the_true_port_is_found_among_newer_decoys() {
    let sleeper = Sleeper::start();
    let later = SystemTime::now() + Duration::from_secs(3600);
    let abandoned = sleeper.file(1);
    drop(UnixListener::bind(&abandoned).unwrap());
    let plain = sleeper.file(2);
    std::fs::write(&plain, "").unwrap();
    let foreign_key = sleeper.file(3);
    let other = UnixListener::bind(&foreign_key).unwrap();
    for decoy in [&abandoned, &plain, &foreign_key] {
        set_time(decoy, later);
    }
    let listener = UnixListener::bind(sleeper.true_file()).unwrap();

    let port = resolve(&TargetSelector::ProcessId(sleeper.pid())).unwrap();
    assert_eq!(port.path(), sleeper.true_file());
    let listed: Vec<_> = list_processes().into_iter().filter(|p| p.process_id == sleeper.pid()).collect();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].is_named("sleep") && listed[0].port.path() == sleeper.true_file(), "{listed:?}");

    // Without the true one: a file that another process serves is not the wanted one's, whatever it is called.
    drop(listener);
    std::fs::remove_file(sleeper.true_file()).unwrap();
    let port = resolve(&TargetSelector::ProcessId(sleeper.pid())).unwrap();
    let client = Client::new(Target::Listening(port));
    let error = client.resume(Deadline::after(Duration::from_secs(5))).await.unwrap_err();
    let served = format!("{}: served by process {}", foreign_key.display(), std::process::id());
    assert_eq!(error.fault(), Fault::NotFound, "{error}");
    assert!(error.to_string().starts_with(&served), "{error}");

    // With nobody behind any file: not found, and all files stay.
    drop(other);
    let port = resolve(&TargetSelector::ProcessId(sleeper.pid())).unwrap();
    let client = Client::new(Target::Listening(port));
    let error = client.resume(Deadline::after(Duration::from_secs(5))).await.unwrap_err();
    assert_eq!(error.fault(), Fault::NotFound, "{error}");
    assert!([abandoned, plain, foreign_key].iter().all(|decoy| decoy.symlink_metadata().is_ok()));
}

/// A key that we do not know (another time namespace, an older runtime) is good enough if the wanted process serves it.
// spec-test: CLI-FIND-3
#[tokio::test]
async fn a_port_of_the_process_itself_needs_no_key() {
    struct Named(PathBuf);
    impl Drop for Named {
        fn drop(&mut self) {
            drop(std::fs::remove_file(&self.0));
        }
    }
    let pid = std::process::id();
    let file = Named(std::env::temp_dir().join(format!("dotnet-diagnostic-{pid}-1-socket")));
    let _port = UnixListener::bind(&file.0).unwrap();
    let port = resolve(&TargetSelector::ProcessId(pid)).unwrap();
    let client = Client::new(Target::Listening(port.clone()));
    let error = client.resume(Deadline::after(Duration::from_millis(200))).await.unwrap_err();
    assert_eq!((error.fault(), port.path()), (Fault::TimedOut, file.0.as_path()), "{error}");
}

#[test]
fn a_process_without_a_port_says_where_was_searched() {
    let sleeper = Sleeper::start();
    let error = resolve(&TargetSelector::ProcessId(sleeper.pid())).unwrap_err();
    let text = error.to_string();
    let file = sleeper.true_file();
    assert!(matches!(error, ResolveError::NoPort { .. }), "{text}");
    assert!(text.contains(&sleeper.folder.path().display().to_string()), "{text}");
    assert!(text.contains(file.file_name().unwrap().to_str().unwrap()), "{text}");
    let pid = sleeper.pid();
    drop(sleeper);
    let gone = resolve(&TargetSelector::ProcessId(pid)).unwrap_err();
    assert!(matches!(gone, ResolveError::NoSuchProcess { .. }), "{gone}");
}

#[test]
fn a_name_names_exactly_one_process() {
    let name = format!("nap-{}", std::process::id());
    let (first, second) = (Sleeper::start_as(&name), Sleeper::start_as(&name));
    let selector = TargetSelector::Name(name);
    let none = resolve(&selector);
    assert!(matches!(none, Err(ResolveError::NoSuchName { .. })), "{none:?}");
    let _first_port = UnixListener::bind(first.true_file()).unwrap();
    assert_eq!(resolve(&selector).unwrap().process_id(), Some(first.pid()));
    let _second_port = UnixListener::bind(second.true_file()).unwrap();
    match resolve(&selector).unwrap_err() {
        ResolveError::Ambiguous { process_ids, .. } => {
            assert!(
                process_ids.contains(&first.pid()) && process_ids.contains(&second.pid()),
                "{process_ids:?}"
            );
        }
        other => panic!("{other}"),
    }
}

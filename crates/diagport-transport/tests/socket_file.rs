//! The socket file: rights, stale files, decoys, removal, re-creation.
//!
//! Each test pins a trap that the socket library or the reference runtime leaves open.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diagport_transport::discover::{NamedProcess, list_port_files, start_key_of, sweep_stale};
use diagport_transport::{
    BindError, BindOptions, MAX_PATH_BYTES, PathError, PortAccess, PortListener, Probe, check_path, connect,
    effective_gid, probe,
};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn bind(path: &Path) -> Result<PortListener, BindError> {
    PortListener::bind(path, BindOptions::default())
}

/// A socket file whose listener is gone.
fn abandon(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
    assert_eq!(probe(path), Probe::Refused);
}

// spec-test: SRV-FILE-1
#[tokio::test]
async fn the_file_is_0600_whenever_it_can_be_seen_even_under_umask_0() {
    let folder = folder();
    let path = folder.path().join("p.sock");
    // The umask is the process's: this test binary must not rely on another value elsewhere.
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (path, stop) = (path.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let (mut seen, mut worst) = (0_u32, 0_u32);
            while !stop.load(Ordering::Relaxed) {
                if let Ok(metadata) = fs::symlink_metadata(&path) {
                    seen += 1;
                    worst |= metadata.permissions().mode() & 0o777;
                }
            }
            (seen, worst)
        })
    };
    for _ in 0..50 {
        drop(bind(&path).unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    let (seen, worst) = watcher.join().unwrap();
    rustix::process::umask(before);
    println!("watcher saw the file {seen} times; union of its modes {worst:03o}");
    assert_eq!(worst & 0o177, 0, "mode bits beyond 0600 were visible: {worst:o}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_group_gets_in_when_an_option_says_so() {
    let folder = folder();
    let path = folder.path().join("p.sock");
    let options = BindOptions { access: PortAccess::Group { gid: effective_gid() } };
    let listener = PortListener::bind(&path, options).unwrap();
    let metadata = fs::symlink_metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o660);
    assert_eq!(metadata.gid(), effective_gid());
    assert!(listener.is_path_ours());
}

// spec-test: SRV-FILE-2
#[tokio::test]
async fn the_longest_path_is_107_bytes_and_the_error_says_so() {
    let folder = folder();
    let stem = folder.path().join("x").as_os_str().len();
    let path_of = |length: usize| folder.path().join("x".repeat(length - stem + 1));
    let check = |length: usize, fits: bool| {
        let path = path_of(length);
        assert_eq!(path.as_os_str().len(), length);
        match (bind(&path), fits) {
            (Ok(listener), true) => assert!(listener.is_path_ours()),
            (Err(BindError::Path(error @ PathError::TooLong { .. })), false) => {
                let text = error.to_string();
                assert!(text.contains(&length.to_string()) && text.contains("107"), "{text}");
            }
            (other, _) => panic!("{length} bytes: {other:?}"),
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{length} bytes left a file");
    };
    check(MAX_PATH_BYTES, true);
    check(MAX_PATH_BYTES + 1, false);
    check(150, false);
    assert!(matches!(check_path(Path::new("")), Err(PathError::Empty)));
    assert!(matches!(check_path(Path::new("a\0b")), Err(PathError::HoldsNul { .. })));
}

// spec-test: SRV-FILE-3
#[tokio::test]
async fn a_stale_socket_is_replaced_and_everything_else_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("p.sock");

    abandon(&path);
    drop(bind(&path).expect("stale socket of ours"));
    assert!(!path.exists());

    let live = UnixListener::bind(&path).unwrap();
    let inode = fs::symlink_metadata(&path).unwrap().ino();
    let error = bind(&path).unwrap_err();
    assert!(matches!(error, BindError::AlreadyServed { .. }), "{error:?}");
    assert!(error.to_string().contains("already served"), "{error}");
    assert_eq!(fs::symlink_metadata(&path).unwrap().ino(), inode);
    drop(live);
    fs::remove_file(&path).unwrap();

    fs::write(&path, "precious").unwrap();
    assert!(matches!(bind(&path).unwrap_err(), BindError::NotASocket { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();

    // A link, even to a stale socket of ours: neither the link nor its target is touched.
    let target = folder.path().join("target.sock");
    abandon(&target);
    symlink(&target, &path).unwrap();
    assert!(matches!(bind(&path).unwrap_err(), BindError::NotASocket { .. }));
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink() && target.exists());

    assert!(matches!(bind(&folder.path().join("absent/p.sock")).unwrap_err(), BindError::Io { .. }));
}

// spec-test: SRV-FILE-4
#[tokio::test]
async fn dropping_a_listener_removes_its_own_file_only() {
    let folder = folder();
    let path = folder.path().join("p.sock");
    let first = bind(&path).unwrap();
    // Somebody moves our file away and takes the name.
    fs::rename(&path, folder.path().join("moved")).unwrap();
    assert!(!first.is_path_ours());
    let second = bind(&path).unwrap();
    drop(first);
    assert!(second.is_path_ours(), "the first listener's drop removed the second one's file");
    drop(second);
    assert!(!path.exists());
}

// spec-test: SRV-FILE-5
#[tokio::test]
async fn a_vanished_file_is_made_again_and_waiting_peers_are_kept() {
    let folder = folder();
    let path = folder.path().join("p.sock");
    let mut listener = bind(&path).unwrap();
    let waiting = connect(&path, Duration::from_secs(60)).await.unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!listener.is_path_ours());
    listener.recreate().unwrap();
    assert!(listener.is_path_ours());
    let fresh = connect(&path, Duration::from_secs(60)).await.unwrap();
    for _ in 0..2 {
        tokio::time::timeout(Duration::from_secs(60), listener.accept()).await.expect("accepted").unwrap();
    }
    drop((waiting, fresh, listener));
    assert!(!path.exists());
}

// spec-test: SRV-SWEEP-1
#[tokio::test]
async fn the_sweep_removes_dead_leftovers_and_nothing_else() {
    let folder = folder();
    let own_pid = std::process::id();
    let own_key = start_key_of(own_pid).unwrap();
    let dead_pid = 4_194_303; // the largest pid Linux gives out; hardly ever in use
    let at = |name: String| folder.path().join(name);
    let port = |pid: u32, key: u64| at(format!("dotnet-diagnostic-{pid}-{key}-socket"));

    let dead = port(dead_pid, 77);
    let other_key = port(own_pid, 1);
    let live_here = port(own_pid, own_key);
    let live_elsewhere = port(dead_pid, 78); // as seen from another pid namespace
    let plain = port(own_pid, 2);
    let foreign_name = at("dotnet-diagnostic-notes".to_owned());
    let link = port(dead_pid, 79);
    for path in [&dead, &other_key, &live_here, &foreign_name] {
        abandon(path);
    }
    let listener = UnixListener::bind(&live_elsewhere).unwrap();
    fs::write(&plain, "").unwrap();
    symlink(&foreign_name, &link).unwrap();

    let mut removed = sweep_stale(folder.path(), parse_name).unwrap();
    removed.sort();
    let mut expected: Vec<PathBuf> = vec![dead, other_key];
    expected.sort();
    assert_eq!(removed, expected);
    for kept in [&live_here, &live_elsewhere, &plain, &foreign_name, &link] {
        assert!(fs::symlink_metadata(kept).is_ok(), "{} was removed", kept.display());
    }
    drop(listener);
    let names: Vec<_> =
        list_port_files(folder.path()).unwrap().into_iter().map(|file| file.file_name).collect();
    assert_eq!(names.len(), 3, "sockets only: {names:?}");
}

fn parse_name(name: &str) -> Option<NamedProcess> {
    let (pid, key) = name.strip_prefix("dotnet-diagnostic-")?.strip_suffix("-socket")?.split_once('-')?;
    Some(NamedProcess { pid: pid.parse().ok()?, key: key.parse().ok()? })
}

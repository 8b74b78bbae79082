//! From the first instant of the socket file to its last: start, stale files, loss of the file, shutdown.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diagport_codec::{BufferingMode, PortName, ProcessInfoVersion, Reply, Request};
use diagport_server::{Host, OwnProcess, ServerBuilder, ServerHandle, Shutdown, StartError};
use diagport_session::{EventDefinition, EventPipe};
use diagport_transport::{Probe, probe};
use support::{SOON, TestServer, collect, eventually, is_complete, read_stream, soon, start_session};

const INFO: Request = Request::ProcessInfo(ProcessInfoVersion::V1);

fn from_environment(folder: &Path, variables: &[(&str, &str)]) -> ServerHandle {
    let lookup = |name: &str| match name {
        "TMPDIR" => Some(folder.to_str().unwrap().to_owned()),
        _ => variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()),
    };
    ServerBuilder::from_environment(support::test_pipe(), Arc::new(OwnProcess::new()), lookup)
        .start()
        .unwrap()
}

// spec-test: SRV-START-1
#[test]
fn without_a_runtime_there_is_no_server() {
    let builder = ServerBuilder::new(support::test_pipe(), Arc::new(OwnProcess::new()) as Arc<dyn Host>);
    assert!(matches!(builder.start(), Err(StartError::NoRuntime)));
}

// spec-test: SRV-START-1, SRV-ENV-3
#[tokio::test]
async fn the_default_port_has_the_name_that_tools_look_for() {
    let folder = tempfile::tempdir().unwrap();
    let handle = from_environment(folder.path(), &[]);
    let path = handle.default_port_path().unwrap();
    let name = PortName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap();
    assert_eq!(name.process_id, std::process::id());
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let key = stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(19).unwrap();
    assert_eq!(name.key.to_string(), key);
    assert_eq!(path.parent().unwrap(), folder.path());
    let metadata = fs::symlink_metadata(path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(metadata.uid(), diagport_transport::effective_uid());
}

// spec-test: SRV-ENV-2, SRV-ENV-3
#[tokio::test]
async fn switched_off_means_no_socket_and_no_suspension() {
    let folder = tempfile::tempdir().unwrap();
    for switch in ["DOTNET_EnableDiagnostics", "COMPlus_EnableDiagnostics_IPC"] {
        let handle =
            from_environment(folder.path(), &[(switch, "0"), ("DOTNET_DefaultDiagnosticPortSuspend", "1")]);
        assert!(handle.default_port_path().is_none());
        assert!(!handle.is_suspended());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{switch}");
    }
    let handle = from_environment(folder.path(), &[("DOTNET_DefaultDiagnosticPortSuspend", "1")]);
    assert!(handle.is_suspended());
}

// spec-test: SRV-SHUTDOWN-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_streams_answers_requests_and_removes_the_file() {
    let server = TestServer::start();
    let event = server
        .pipe
        .provider("Test-Provider")
        .define::<(i64,)>(EventDefinition::new(1, "Tick"), ["index"])
        .unwrap();
    let mut stream = server.open().await;
    start_session(&mut stream, &collect(BufferingMode::Drop, 1)).await;
    let _silent = server.open().await;
    for index in 0..1000 {
        let _ = event.write((index,));
    }
    let reader = tokio::spawn(async move { read_stream(&mut stream).await });
    let path = server.path();
    let started = Instant::now();
    assert_eq!(server.handle.shutdown(SOON).await, Shutdown::Complete);
    println!("shutdown with a session and a silent peer took {:?} (promised 5 s)", started.elapsed());
    assert!(!path.exists(), "the socket file is still there");
    assert!(is_complete(&soon(reader).await.unwrap()));
    let statistics = server.pipe.statistics();
    assert_eq!((statistics.written, statistics.dropped, statistics.live_sessions), (1000, 0, 0));
    // Twice is harmless, and the pipe is still good for another server.
    assert_eq!(server.handle.shutdown(SOON).await, Shutdown::Complete);
    let again = ServerBuilder::new(server.pipe.clone(), server.host.clone() as Arc<dyn Host>)
        .folder(server.folder.path())
        .start()
        .unwrap();
    assert!(again.default_port_path().is_some());
}

fn flood(pipe: &EventPipe) {
    let event = pipe
        .provider("Test-Provider")
        .define::<(i64, String)>(EventDefinition::new(1, "Tick"), ["index", "text"])
        .unwrap();
    let text = "x".repeat(1000);
    for index in 0..4000 {
        let _ = event.write((index, &text));
    }
}

// spec-test: SRV-SHUTDOWN-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stands_still_does_not_hold_shutdown() {
    let server = TestServer::start();
    let mut stream = server.open().await;
    start_session(&mut stream, &collect(BufferingMode::Drop, 4)).await;
    let pipe = server.pipe.clone();
    tokio::task::spawn_blocking(move || flood(&pipe)).await.unwrap();
    let started = Instant::now();
    let outcome = server.handle.shutdown(SOON).await;
    println!("shutdown with a sleeping reader: {outcome:?} after {:?} (promised 5 s)", started.elapsed());
    assert!(started.elapsed() < SOON / 2, "the reader has 2 s, not all of the time");
    eventually("no session", || server.pipe.statistics().live_sessions == 0).await;

    // With less time than the reader is granted, its stream is cut.
    let server = TestServer::start_with_limits(|limits| limits.stop_grace = 10 * SOON);
    let mut stream = server.open().await;
    start_session(&mut stream, &collect(BufferingMode::Drop, 4)).await;
    let pipe = server.pipe.clone();
    tokio::task::spawn_blocking(move || flood(&pipe)).await.unwrap();
    let started = Instant::now();
    let outcome = server.handle.shutdown(Duration::from_millis(500)).await;
    println!("with 500 ms: {outcome:?} after {:?}", started.elapsed());
    assert_eq!(outcome, Shutdown::Cut);
    assert!(started.elapsed() < SOON);
    eventually("no session", || server.pipe.statistics().live_sessions == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_handle_stops_the_server() {
    let server = TestServer::start();
    let path = server.path();
    let TestServer { handle, folder, .. } = server;
    drop(handle);
    eventually("the socket file is gone", || !path.exists()).await;
    drop(folder);
}

// spec-test: SRV-SWEEP-1, SRV-FILE-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_files_are_swept_and_decoys_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::process::id();
    let at = |name: String| folder.path().join(name);
    let reused_pid = at(format!("dotnet-diagnostic-{own}-1-socket"));
    let dead_pid = at("dotnet-diagnostic-4194303-77-socket".to_owned());
    let plain_file = at(format!("dotnet-diagnostic-{own}-2-socket"));
    let live_elsewhere = at("dotnet-diagnostic-4194302-5-socket".to_owned());
    drop(UnixListener::bind(&reused_pid).unwrap());
    drop(UnixListener::bind(&dead_pid).unwrap());
    let _listener = UnixListener::bind(&live_elsewhere).unwrap();
    fs::write(&plain_file, "").unwrap();
    // A leftover of our very own name: taken over.
    let first = from_environment(folder.path(), &[]);
    let own_path = first.default_port_path().unwrap().to_owned();
    drop(first);
    eventually("the first server is gone", || !own_path.exists()).await;
    drop(UnixListener::bind(&own_path).unwrap());

    let handle = from_environment(folder.path(), &[]);
    assert_eq!(handle.default_port_path(), Some(own_path.as_path()), "{:?}", handle.unusable_ports());
    eventually("swept", || !reused_pid.exists() && !dead_pid.exists()).await;
    assert!(plain_file.exists() && live_elsewhere.exists() && own_path.exists());
}

// spec-test: SRV-FILE-3
#[tokio::test]
async fn a_port_that_somebody_serves_is_left_to_him() {
    let folder = tempfile::tempdir().unwrap();
    let first = from_environment(folder.path(), &[]);
    let second = from_environment(folder.path(), &[]);
    assert!(second.default_port_path().is_none());
    let lines = second.unusable_ports();
    assert!(lines.len() == 1 && lines[0].contains("already served"), "{lines:?}");
    drop(second);
    tokio::task::yield_now().await;
    assert!(first.default_port_path().unwrap().exists());
}

// spec-test: SRV-FILE-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_socket_file_comes_back() {
    let server = TestServer::start_with_limits(|limits| limits.socket_file_check = Duration::from_millis(20));
    let path = server.path();
    let inode = fs::symlink_metadata(&path).unwrap().ino();
    fs::remove_file(&path).unwrap();
    // The file is there a little before somebody listens.
    eventually("the file is back", || probe(&path) == Probe::Served).await;
    assert!(matches!(server.ask(&INFO).await, Reply::Ok { .. }));
    println!("inode {inode} -> {}", fs::symlink_metadata(&path).unwrap().ino());
    assert_eq!(server.handle.shutdown(SOON).await, Shutdown::Complete);
    assert!(!path.exists());
}

// spec-test: SRV-FILE-2
#[tokio::test]
async fn a_folder_too_deep_for_a_socket_gives_one_line_and_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(90));
    fs::create_dir(&deep).unwrap();
    let handle = from_environment(&deep, &[("DOTNET_DefaultDiagnosticPortSuspend", "1")]);
    assert!(handle.default_port_path().is_none());
    assert!(!handle.is_suspended(), "nobody could ever resume it");
    let lines = handle.unusable_ports();
    assert!(lines.len() == 1 && lines[0].contains("107"), "{lines:?}");
    assert_eq!(fs::read_dir(&deep).unwrap().count(), 0, "nothing was bound under another name");
}

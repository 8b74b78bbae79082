//! The suspend gate: who holds startup, who releases it, and what the operator is told.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::{Duration, Instant};

use diagport_codec::{
    AttachProfiler, BufferingMode, Guid, HResult, PortKind, PortSpec, ProcessInfoVersion, Reply, Request,
    SuspendMode,
};
use diagport_server::{DefaultPort, Host, Limits, PauseNotice, ServerBuilder};
use diagport_transport::{IpcStream, connect};
use support::{
    Monitor, SOON, TestServer, collect, encode, error_of, eventually, exchange, read_reply, soon,
    start_session,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const RESUME: Request = Request::ResumeRuntime;

fn quick_notice() -> Limits {
    Limits { pause_notice: Duration::from_millis(100), ..Limits::default() }
}

async fn resume_on(stream: IpcStream) {
    assert_eq!(exchange(stream, &encode(&RESUME)).await, Reply::success());
}

// spec-test: SRV-SUSPEND-1, SRV-SUSPEND-2, SRV-SUSPEND-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_suspended_ports_and_one_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let monitors = ["A.sock", "B.sock", "C.sock"].map(|name| Monitor::bind(&at(name)));
    let text = format!(
        "{};{},suspend;{},nosuspend",
        at("A.sock").display(),
        at("B.sock").display(),
        at("C.sock").display()
    );
    let pipe = support::test_pipe();
    let host = std::sync::Arc::new(support::TestHost::default());
    let notice = std::sync::Arc::new(support::TestNotice::default());
    let lookup = |name: &str| match name {
        "DOTNET_DiagnosticPorts" => Some(text.clone()),
        "TMPDIR" => Some(folder.path().to_str().unwrap().to_owned()),
        _ => None,
    };
    let handle = ServerBuilder::from_environment(pipe, host.clone() as std::sync::Arc<dyn Host>, lookup)
        .limits(quick_notice())
        .pause_notice(notice.clone() as std::sync::Arc<dyn PauseNotice>)
        .start()
        .unwrap();
    let pending_in = |index: usize| {
        let messages = notice.paused.lock().unwrap();
        messages.get(index).map(|message| message.pending_ports.clone())
    };

    let mut connections = Vec::new();
    for monitor in &monitors {
        connections.push(monitor.accept().await);
    }
    let first = connections[0].1;
    assert!(connections.iter().all(|(_, advertise)| *advertise == first));
    let [a, b] = ["A.sock", "B.sock"].map(|name| at(name).display().to_string());

    eventually("a message", || pending_in(0).is_some()).await;
    assert_eq!(pending_in(0).unwrap(), [a.clone(), b.clone()]);
    let text_of_message = notice.paused.lock().unwrap()[0].to_string();
    println!("{text_of_message}");
    assert!(text_of_message.contains(&format!("DOTNET_DiagnosticPorts=\"{text}\"")), "{text_of_message}");
    assert!(text_of_message.ends_with("DOTNET_DefaultDiagnosticPortSuspend=0"), "{text_of_message}");

    resume_on(connections.remove(0).0).await;
    eventually("a second message", || pending_in(1).is_some()).await;
    assert_eq!(pending_in(1).unwrap(), [b]);

    // On the default port, and on A again: harmless.
    let default_path = handle.default_port_path().unwrap().to_owned();
    resume_on(connect(&default_path, SOON).await.unwrap()).await;
    let (again, advertise) = monitors[0].accept().await;
    assert_eq!(advertise, first);
    resume_on(again).await;
    assert!(
        tokio::time::timeout(Duration::from_millis(200), handle.wait_resumed()).await.is_err(),
        "B is pending"
    );
    assert!(handle.is_suspended());

    let started = Instant::now();
    resume_on(connections.remove(0).0).await;
    soon(handle.wait_resumed()).await;
    println!("resumed {:?} after the last resume (promised 1 s)", started.elapsed());
    assert!(!handle.is_suspended());
    eventually("the host is told, once", || *host.resumed.lock().unwrap() == 1).await;
    assert_eq!(notice.paused.lock().unwrap().len(), 2);
}

// spec-test: SRV-SUSPEND-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suspension_outlives_a_connection() {
    let mut monitor = None;
    let server = TestServer::start_with(|builder, folder| {
        let path = folder.join("monitor.sock");
        monitor = Some(Monitor::bind(&path));
        let address = path.to_str().unwrap().to_owned();
        builder.port(PortSpec { address, kind: PortKind::Connect, suspend: SuspendMode::Suspend })
    });
    let monitor = monitor.unwrap();
    for _ in 0..3 {
        let (stream, _) = monitor.accept().await;
        drop(stream);
        assert!(server.handle.is_suspended());
    }
    resume_on(monitor.accept().await.0).await;
    soon(server.handle.wait_resumed()).await;
}

// spec-test: SRV-SUSPEND-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_process_answers_everything_but_attach() {
    let server =
        TestServer::start_with(|builder, _| builder.default_port(DefaultPort::Listen(SuspendMode::Suspend)));
    let attach = Request::AttachProfiler(AttachProfiler {
        attach_timeout_ms: 1,
        profiler_guid: Guid([1; 16]),
        profiler_path: Some("/p.so".to_owned()),
        client_data: Vec::new(),
    });
    assert_eq!(error_of(&server.ask(&attach).await), HResult::NOT_YET_AVAILABLE);
    let info = server.ask(&Request::ProcessInfo(ProcessInfoVersion::V2)).await;
    assert!(matches!(info, Reply::Ok { .. }));

    // A session streams while startup is paused: the reply, then the head of the stream at once.
    let mut stream = server.open().await;
    let id = start_session(&mut stream, &collect(BufferingMode::Block, 1)).await;
    let mut head = [0; 8];
    soon(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"Nettrace");
    assert_eq!(server.ask(&Request::StopTracing { session_id: id }).await, Reply::session(id));

    assert_eq!(server.ask(&RESUME).await, Reply::success());
    soon(server.handle.wait_resumed()).await;
    assert_eq!(error_of(&server.ask(&attach).await), HResult::NOT_SUPPORTED);
}

// spec-test: SRV-SUSPEND-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unusable_port_never_holds_startup() {
    let server = TestServer::start_with(|builder, folder| {
        let long = folder.join("z".repeat(120)).to_str().unwrap().to_owned();
        let missing = folder.join("absent/extra.sock").to_str().unwrap().to_owned();
        builder
            .port(PortSpec { address: long.clone(), kind: PortKind::Connect, suspend: SuspendMode::Suspend })
            .port(PortSpec { address: long, kind: PortKind::Listen, suspend: SuspendMode::Suspend })
            .port(PortSpec { address: missing, kind: PortKind::Listen, suspend: SuspendMode::Suspend })
    });
    assert!(!server.handle.is_suspended());
    soon(server.handle.wait_resumed()).await;
    let lines = server.notice.unusable.lock().unwrap().clone();
    println!("{}", lines.join("\n"));
    assert_eq!(lines, server.handle.unusable_ports());
    assert_eq!(lines.len(), 3);
    assert!(lines[0].contains("107") && lines[0].contains("limit"), "{}", lines[0]);
    assert!(lines[2].contains("absent/extra.sock"), "{}", lines[2]);
    assert!(server.handle.default_port_path().is_some(), "the other ports are there");
    assert!(server.notice.paused.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_pause_is_not_announced() {
    // The pause must be a short one; on a busy machine the first tries may not be.
    for notice_ms in [100, 1_000, 10_000] {
        let pause_notice = Duration::from_millis(notice_ms);
        let limits = Limits { pause_notice, ..Limits::default() };
        let started = Instant::now();
        let server = TestServer::start_with(|builder, _| {
            builder.default_port(DefaultPort::Listen(SuspendMode::Suspend)).limits(limits)
        });
        assert_eq!(server.ask(&RESUME).await, Reply::success());
        soon(server.handle.wait_resumed()).await;
        if started.elapsed() < pause_notice {
            tokio::time::sleep(pause_notice + Duration::from_millis(150)).await;
            assert!(server.notice.paused.lock().unwrap().is_empty());
            return;
        }
    }
    panic!("no pause was short");
}

// An extra listen port: served, and it suspends like any other.
// spec-test: SRV-LISTEN-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listen_port_at_a_fixed_path_is_served() {
    let server = TestServer::start_without_default(|builder, folder| {
        let address = folder.join("fixed.sock").to_str().unwrap().to_owned();
        builder.port(PortSpec { address, kind: PortKind::Listen, suspend: SuspendMode::Suspend })
    });
    assert!(server.handle.default_port_path().is_none());
    let path = server.folder.path().join("fixed.sock");
    let mut stream = connect(&path, SOON).await.unwrap();
    stream.write_all(&encode(&Request::ProcessInfo(ProcessInfoVersion::V1))).await.unwrap();
    assert!(matches!(read_reply(&mut stream).await, Reply::Ok { .. }));
    assert!(server.handle.is_suspended());
    resume_on(connect(&path, SOON).await.unwrap()).await;
    soon(server.handle.wait_resumed()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_releases_whoever_waits_for_a_resume() {
    let server =
        TestServer::start_with(|builder, _| builder.default_port(DefaultPort::Listen(SuspendMode::Suspend)));
    let (_, outcome) =
        soon(async { tokio::join!(server.handle.wait_resumed(), server.handle.shutdown(SOON)) }).await;
    assert_eq!(outcome, diagport_server::Shutdown::Complete);
    assert_eq!(*server.host.resumed.lock().unwrap(), 0, "nobody resumed it");
}

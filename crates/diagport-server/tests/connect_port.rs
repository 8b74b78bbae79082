//! Ports that connect to a monitor: Advertise, one idle connection, back-off.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use diagport_codec::{
    BufferingMode, HResult, PortKind, PortSpec, ProcessInfo, ProcessInfoVersion, Reply, Request, SuspendMode,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use support::{
    Monitor, SOON, TestServer, code_of, collect, encode, eventually, is_complete, is_kept, median,
    read_reply, read_stream, send_raw, soon, start_session,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn connect_port(path: &Path, suspend: SuspendMode) -> PortSpec {
    PortSpec { address: path.to_str().unwrap().to_owned(), kind: PortKind::Connect, suspend }
}

/// A server with one connect port, whose monitor is there before it.
fn start(suspend: SuspendMode) -> (TestServer, Monitor) {
    let mut monitor = None;
    let server = TestServer::start_with(|builder, folder| {
        let path = folder.join("monitor.sock");
        monitor = Some(Monitor::bind(&path));
        builder.port(connect_port(&path, suspend))
    });
    (server, monitor.unwrap())
}

fn info() -> Vec<u8> {
    encode(&Request::ProcessInfo(ProcessInfoVersion::V1))
}

// spec-test: SRV-CONNECT-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_advertises_again_at_once_when_a_command_took_the_connection() {
    let (server, monitor) = start(SuspendMode::NoSuspend);
    let mut latencies = Vec::new();
    let (mut stream, first) = monitor.accept().await;
    assert_eq!(first.cookie, server.handle.cookie());
    assert_eq!(first.process_id, u64::from(std::process::id()));
    for _ in 0..20 {
        stream.write_all(&info()).await.unwrap();
        let started = Instant::now();
        let Reply::Ok { payload } = read_reply(&mut stream).await else { panic!("refused") };
        assert_eq!(ProcessInfo::decode(ProcessInfoVersion::V1, &payload).unwrap().cookie, first.cookie);
        let (next, advertise) = monitor.accept().await;
        latencies.push(started.elapsed());
        assert_eq!(advertise, first);
        stream = next;
    }
    let middle = median(&mut latencies);
    println!("reply and next Advertise after {middle:?} (the reference: 6 ms), {:?} at worst", latencies[19]);
    assert!(middle < Duration::from_millis(500), "{middle:?}");
    // The default port serves beside it, under the same cookie.
    let Reply::Ok { payload } = server.ask(&Request::ProcessInfo(ProcessInfoVersion::V1)).await else {
        panic!()
    };
    assert_eq!(ProcessInfo::decode(ProcessInfoVersion::V1, &payload).unwrap().cookie, first.cookie);
}

// spec-test: SRV-CONNECT-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_advertises_again_while_a_session_streams() {
    let (server, monitor) = start(SuspendMode::NoSuspend);
    let (mut session, first) = monitor.accept().await;
    let id = start_session(&mut session, &collect(BufferingMode::Drop, 1)).await;
    let (mut commands, second) = monitor.accept().await;
    assert_eq!(second, first);
    let reader = tokio::spawn(async move { read_stream(&mut session).await });
    commands.write_all(&encode(&Request::StopTracing { session_id: id })).await.unwrap();
    assert_eq!(read_reply(&mut commands).await, Reply::session(id));
    assert!(is_complete(&soon(reader).await.unwrap()));
    assert_eq!(monitor.accept().await.1, first);
    drop(server);
}

// One thread: the command and the close are both there before the server's task can look.
// spec-test: SRV-CONNECT-3
#[tokio::test(flavor = "current_thread")]
async fn a_command_followed_by_a_close_is_executed() {
    let (server, monitor) = start(SuspendMode::Suspend);
    assert!(server.handle.is_suspended());
    let (mut stream, _) = monitor.accept().await;
    stream.write_all(&encode(&Request::ResumeRuntime)).await.unwrap();
    drop(stream);
    soon(server.handle.wait_resumed()).await;
}

// spec-test: SRV-CONNECT-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_half_close_of_an_idle_connection_is_a_bad_request() {
    let (_server, monitor) = start(SuspendMode::NoSuspend);
    let (stream, first) = monitor.accept().await;
    assert_eq!(code_of(&send_raw(stream, b"").await), HResult::BAD_ENCODING);
    let (stream, second) = monitor.accept().await;
    assert_eq!(second, first);
    let garbage = b"not a message, but long enough to be judged";
    assert_eq!(code_of(&send_raw(stream, garbage).await), HResult::UNKNOWN_MAGIC);
    assert_eq!(monitor.accept().await.1, first);
}

// spec-test: SRV-CONNECT-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_peer_does_there_is_no_hot_loop() {
    /// What a monitor does with every connection it accepts.
    #[derive(Debug, Clone, Copy)]
    enum Habit {
        CloseAtOnce,
        ReadAdvertiseAndClose,
        SendGarbage,
        HalfClose,
        SendOneByte,
    }
    let observe = async |habit: Habit| {
        let (_server, monitor) = start(SuspendMode::NoSuspend);
        let mut count = 0_u32;
        let mut kept = Vec::new();
        let watch = Duration::from_secs(1);
        let begin = Instant::now();
        while count < 2 || begin.elapsed() < watch {
            // The second one shows that the port goes on, however late a busy machine lets it come.
            let left = if count < 2 { SOON } else { watch.saturating_sub(begin.elapsed()) };
            let Ok(mut stream) = tokio::time::timeout(left, monitor.accept_raw()).await else { break };
            count += 1;
            match habit {
                Habit::CloseAtOnce => {}
                Habit::ReadAdvertiseAndClose => {
                    let _ = stream.read_exact(&mut [0; 34]).await;
                }
                Habit::SendGarbage => {
                    let _ = stream.write_all(&[0x55; 64]).await;
                    kept.push(stream);
                }
                Habit::HalfClose => {
                    let _ = stream.shutdown_write();
                    kept.push(stream);
                }
                Habit::SendOneByte => {
                    let _ = stream.write_all(b"D").await;
                    kept.push(stream);
                }
            }
        }
        let watched = begin.elapsed();
        println!("{habit:?}: {count} connections in {watched:?}");
        // 10 ms growing by a quarter: 14 waits fit into a second. A hot loop makes hundreds.
        let most = 20.0 * watched.as_secs_f64();
        assert!(count >= 2 && f64::from(count) <= most, "{habit:?}: {count} connections in {watched:?}");
    };
    for habit in [
        Habit::CloseAtOnce,
        Habit::ReadAdvertiseAndClose,
        Habit::SendGarbage,
        Habit::HalfClose,
        Habit::SendOneByte,
    ] {
        observe(habit).await;
    }
}

// spec-test: SRV-CONNECT-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_monitor_may_come_late_and_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.sock");
    let server =
        TestServer::start_with(|builder, _| builder.port(connect_port(&path, SuspendMode::NoSuspend)));
    tokio::time::sleep(Duration::from_millis(100)).await;
    for round in 0..3 {
        let monitor = Monitor::bind(&path);
        let started = Instant::now();
        let (stream, advertise) = monitor.accept().await;
        println!(
            "round {round}: advertised {:?} after the monitor came (longest wait 500 ms)",
            started.elapsed()
        );
        assert_eq!(advertise.cookie, server.handle.cookie());
        drop((stream, monitor));
    }
}

// spec-test: SRV-FAIR-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_monitor_with_a_full_queue_delays_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.sock");
    // Nobody accepts here, and there is room for one.
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = diagport_transport::connect(&path, SOON).await.unwrap();
    assert!(diagport_transport::connect(&path, Duration::from_millis(1)).await.is_err(), "the queue is full");
    let server =
        TestServer::start_with(|builder, _| builder.port(connect_port(&path, SuspendMode::NoSuspend)));
    is_kept("answered beside a full queue", Duration::from_millis(500), async || {
        let started = Instant::now();
        let reply = server.ask(&Request::ProcessInfo(ProcessInfoVersion::V1)).await;
        assert!(matches!(reply, Reply::Ok { .. }));
        started.elapsed()
    })
    .await;
}

// spec-test: SRV-CONNECT-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_advertised_connection_may_stay_silent() {
    let mut monitor = None;
    let server = TestServer::start_with(|builder, folder| {
        let path = folder.join("monitor.sock");
        monitor = Some(Monitor::bind(&path));
        let limits = diagport_server::Limits {
            silence: Duration::from_millis(50),
            request: Duration::from_millis(50),
            half_open_connections: 1,
            ..diagport_server::Limits::default()
        };
        builder.port(connect_port(&path, SuspendMode::NoSuspend)).limits(limits)
    });
    let monitor = monitor.unwrap();
    let (mut stream, _) = monitor.accept().await;
    let _silent = server.open().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream.write_all(&info()).await.unwrap();
    assert!(matches!(read_reply(&mut stream).await, Reply::Ok { .. }));
    eventually("advertised again", || server.handle.statistics().advertised_connections == 2).await;
}

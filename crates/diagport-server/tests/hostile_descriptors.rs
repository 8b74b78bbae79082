//! Peers that pass descriptors whose close takes minutes. Nobody else may notice them, nor may the end of the process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use diagport_codec::{BufferingMode, ProcessInfoVersion, Reply, Request};
use diagport_server::Shutdown;
use diagport_transport::IpcStream;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use support::{SOON, TestServer, collect, encode, eventually, median, start_session};

const INFO: Request = Request::ProcessInfo(ProcessInfoVersion::V1);

/// A descriptor whose last close lingers far longer than any test waits, and the far end that does not read.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&sender, Some(10 * SOON)).unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.write(&[0; 65_536]).is_ok() {}
    (sender.into(), peer)
}

/// Sends the bytes with two such descriptors, which are then the receiver's alone.
fn send_with_lingering(stream: &IpcStream, bytes: &[u8], peers: &mut Vec<TcpStream>) {
    let mut descriptors = Vec::new();
    for _ in 0..2 {
        let (descriptor, peer) = lingering();
        descriptors.push(descriptor);
        peers.push(peer);
    }
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

// spec-test: SRV-FAIR-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passed_descriptors_delay_nobody() {
    // Its stop is to be answered because it has ended.
    let server = TestServer::start_with_limits(|limits| limits.stop_reply = 10 * SOON);
    let mut peers = Vec::new();
    // With a request, with half of one, behind one, and on a session's connection.
    for bytes in [&encode(&INFO)[..], b"DOT", b"nonsense that is long enough to be judged"] {
        let stream = server.open().await;
        send_with_lingering(&stream, bytes, &mut peers);
    }
    let mut session = server.open().await;
    let session_id = start_session(&mut session, &collect(BufferingMode::Drop, 1)).await;
    send_with_lingering(&session, b"behind", &mut peers);
    let silent = server.open().await;
    eventually("accepted", || server.handle.statistics().half_open_now > 0).await;
    send_with_lingering(&silent, b"D", &mut peers);

    let mut latencies = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        assert!(matches!(server.ask(&INFO).await, Reply::Ok { .. }));
        latencies.push(started.elapsed());
    }
    let middle = median(&mut latencies);
    println!("ProcessInfo beside passed descriptors that linger: {middle:?} (promised 50 ms)");
    assert!(middle < Duration::from_millis(500), "{middle:?}");

    let started = Instant::now();
    assert_eq!(server.ask(&Request::StopTracing { session_id }).await, Reply::session(session_id));
    println!("its session stopped after {:?}", started.elapsed());
    eventually("the slot is free", || server.pipe.statistics().live_sessions == 0).await;

    let started = Instant::now();
    assert_eq!(server.handle.shutdown(SOON).await, Shutdown::Complete);
    println!("shutdown after {:?}", started.elapsed());
}

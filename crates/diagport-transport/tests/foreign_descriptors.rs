//! Descriptors whose close takes as long as their maker likes: a peer that passes them holds no thread of ours.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use diagport_transport::{BindOptions, IpcStream, PortListener};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncReadExt;

/// How long the close of such a descriptor takes where nothing is done about it.
const LINGER: Duration = Duration::from_secs(60);
/// A call that takes this long has waited for a close.
const TOO_LONG: Duration = Duration::from_secs(10);

/// A connection over which nothing flows any more, with data still to send: its last close lingers.
struct Lingering {
    descriptor: OwnedFd,
    _peer: TcpStream,
}

fn lingering() -> Lingering {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&sender, Some(LINGER)).unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.write(&[0; 65_536]).is_ok() {}
    Lingering { descriptor: sender.into(), _peer: peer }
}

fn pass(socket: impl AsFd, descriptors: Vec<OwnedFd>) {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    sendmsg(socket, &[IoSlice::new(b"x")], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// Passes descriptors that linger in every way there is, one inside another socket's queue included.
fn pass_all(socket: impl AsFd, peers: &mut Vec<TcpStream>) {
    let mut next = || {
        let Lingering { descriptor, _peer } = lingering();
        peers.push(_peer);
        descriptor
    };
    let (inner, carrier) = UnixStream::pair().unwrap();
    pass(&inner, vec![next()]);
    let descriptors = vec![next(), next(), carrier.into()];
    pass(socket, descriptors);
}

fn check(way: &str, act: impl FnOnce()) {
    let started = Instant::now();
    act();
    let took = started.elapsed();
    assert!(took < TOO_LONG, "{way}: {took:?}, so a close was waited for");
}

// spec-test: SRV-FAIR-2
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_way_of_receiving_waits_for_their_close() {
    let mut peers = Vec::new();

    let (left, mut right) = IpcStream::pair().unwrap();
    right.keep_passed_descriptor();
    pass_all(&left, &mut peers);
    let started = Instant::now();
    assert_eq!(right.read_u8().await.unwrap(), b'x');
    assert!(started.elapsed() < TOO_LONG, "reading took {:?}", started.elapsed());
    check("the kept one and its stream are dropped", || drop(right));

    let (left, mut right) = IpcStream::pair().unwrap();
    pass_all(&left, &mut peers);
    let kept = right.receive_descriptor(4).await.unwrap().expect("a descriptor");
    check("a taken one is dropped", || drop(kept));

    let (left, right) = IpcStream::pair().unwrap();
    pass_all(&left, &mut peers);
    check("a stream is dropped before it was read", || drop(right));
    drop(left);

    let (left, right) = IpcStream::pair().unwrap();
    let right = right.into_blocking();
    pass_all(&left, &mut peers);
    check("a blocking stream discards them", || right.discard_received(1000));
    pass_all(&left, &mut peers);
    check("a blocking stream is dropped before it was read", || drop(right));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.sock");
    let listener = PortListener::bind(&path, BindOptions::default()).unwrap();
    let waiting = UnixStream::connect(&path).unwrap();
    pass_all(&waiting, &mut peers);
    check("a listener is dropped with a peer in its queue", || drop(listener));
    assert!(!path.exists());
}

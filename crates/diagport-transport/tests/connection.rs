//! Connections: proof of connection, half-close, hang-up, peer identity, passed descriptors, bounded writes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::io::{IoSlice, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use diagport_transport::{
    BindOptions, ConnectError, IpcStream, PassedDescriptor, PortListener, Probe, connect, effective_uid,
    probe,
};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, sendmsg,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Only a hang reaches it.
const SOON: Duration = Duration::from_secs(60);

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.sock");
    (folder, path)
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("within a minute")
}

#[tokio::test]
async fn connecting_to_a_full_queue_is_not_reported_as_connected() {
    let (_folder, path) = place();
    // A listener with room for one, which nobody accepts from.
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let first = connect(&path, SOON).await.expect("one place");
    let started = Instant::now();
    let error = connect(&path, Duration::from_millis(200)).await.unwrap_err();
    println!("refused after {:?}: {error}", started.elapsed());
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
    assert!(started.elapsed() < SOON);
    assert_eq!(probe(&path), Probe::Served, "a full queue is a live port");

    // The place becomes free: a waiting connect gets it, and it is a real connection.
    let waiting = tokio::spawn({
        let path = path.clone();
        async move { connect(&path, SOON).await }
    });
    let accepted = rustix::net::accept(&listener).unwrap();
    let mut second = soon(waiting).await.unwrap().expect("a place came free");
    second.write_all(b"x").await.expect("connected");
    drop((first, accepted));
}

#[tokio::test]
async fn connect_errors_name_their_cause() {
    let (folder, path) = place();
    let error_at = async |path: PathBuf| connect(&path, SOON).await.unwrap_err();
    assert!(matches!(error_at(path.clone()).await, ConnectError::NotFound { .. }));
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(matches!(error_at(path.clone()).await, ConnectError::Refused { .. }));
    let long = folder.path().join("y".repeat(150));
    let error = error_at(long).await;
    assert!(matches!(error, ConnectError::Path(_)) && error.to_string().contains("107"), "{error}");
}

#[tokio::test]
async fn half_close_is_real_and_is_not_a_hang_up() {
    let (mut left, mut right) = IpcStream::pair().unwrap();
    left.write_all(b"request").await.unwrap();
    left.shutdown().await.unwrap();
    let mut text = Vec::new();
    soon(right.read_to_end(&mut text)).await.unwrap();
    assert_eq!(text, b"request");
    assert!(!right.peer_hung_up());
    right.write_all(b"reply").await.unwrap();
    let mut reply = [0; 5];
    soon(left.read_exact(&mut reply)).await.unwrap();
    assert_eq!(&reply, b"reply");
    drop(left);
    assert!(right.peer_hung_up());
}

#[tokio::test]
async fn the_peer_is_named() {
    let (_folder, path) = place();
    let listener = PortListener::bind(&path, BindOptions::default()).unwrap();
    let client = connect(&path, SOON).await.unwrap();
    let server = soon(listener.accept()).await.unwrap();
    for identity in [server.peer_identity().unwrap(), client.peer_identity().unwrap()] {
        assert_eq!(identity.pid, Some(std::process::id()));
        assert_eq!(identity.uid, effective_uid());
    }
}

#[tokio::test]
async fn descriptors_do_not_leak_to_children() {
    let (_folder, path) = place();
    let listener = PortListener::bind(&path, BindOptions::default()).unwrap();
    let client = connect(&path, SOON).await.unwrap();
    let server = soon(listener.accept()).await.unwrap();
    for socket in [server.as_fd(), client.as_fd()] {
        assert!(rustix::io::fcntl_getfd(socket).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}

fn send_with(socket: &IpcStream, byte: u8, passed: &[&File]) {
    let borrowed: Vec<_> = passed.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    }
    sendmsg(socket, &[IoSlice::new(&[byte])], &mut control, SendFlags::NOSIGNAL).unwrap();
}

fn content(descriptor: PassedDescriptor) -> String {
    let mut text = String::new();
    let mut file = File::from(descriptor.into_descriptor());
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn a_passed_descriptor_is_kept_once_and_the_others_are_closed() {
    let file = |text: &str| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    };
    let (first, second) = (file("first"), file("second"));

    // With the second byte, two at once: the first one counts.
    let (left, mut right) = IpcStream::pair().unwrap();
    send_with(&left, b'a', &[]);
    send_with(&left, b'b', &[&first, &second]);
    let kept = soon(right.receive_descriptor(16)).await.unwrap().expect("a descriptor");
    assert_eq!(content(kept), "first");

    // None within the limit, and none at the end.
    let (left, mut right) = IpcStream::pair().unwrap();
    (0..20).for_each(|_| send_with(&left, b'x', &[]));
    assert!(soon(right.receive_descriptor(16)).await.unwrap().is_none());
    drop(left);
    assert!(soon(right.receive_descriptor(16)).await.unwrap().is_none());

    // Attached to bytes that are read as data: still there afterwards.
    let (left, mut right) = IpcStream::pair().unwrap();
    right.keep_passed_descriptor();
    send_with(&left, b'r', &[&second]);
    assert_eq!(soon(right.read_u8()).await.unwrap(), b'r');
    assert_eq!(content(right.take_passed_descriptor().expect("kept")), "second");

    // Unasked for: nothing enters our table.
    let (left, mut right) = IpcStream::pair().unwrap();
    let ours_alone = || [&first, &second].map(descriptors_of) == [1, 1];
    let started = Instant::now();
    while !ours_alone() {
        assert!(started.elapsed() < SOON, "one that was passed above stays open");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    send_with(&left, b'r', &[&first, &second]);
    assert_eq!(soon(right.read_u8()).await.unwrap(), b'r');
    assert!(right.take_passed_descriptor().is_none());
    assert!(ours_alone());
}

/// How often this process has the file open. Whatever other tests of this binary have open beside is another file.
fn descriptors_of(file: &File) -> usize {
    let wanted = file.metadata().unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    // One that another test has closed meanwhile cannot be looked at.
    open.filter_map(|entry| std::fs::metadata(entry.ok()?.path()).ok())
        .filter(|open| (open.dev(), open.ino()) == (wanted.dev(), wanted.ino()))
        .count()
}

#[tokio::test]
async fn a_bounded_write_returns_in_time_and_sees_the_peer_go() {
    let (mut reader, writer) = IpcStream::pair().unwrap();
    let writer = writer.into_blocking();
    let piece = vec![7_u8; 64 * 1024];
    let mut sent = 0;
    let wait = Duration::from_millis(50);
    let idle = loop {
        let started = Instant::now();
        match writer.write_some(&piece, wait).unwrap() {
            0 => break started.elapsed(),
            bytes => sent += bytes,
        }
    };
    println!("buffer took {sent} bytes; the write that found no room returned after {idle:?}");
    assert!(idle >= wait && idle < SOON, "{idle:?}");
    assert!(!writer.peer_closed());

    // The reader half-closes: that is no reason to stop.
    reader.shutdown_write().unwrap();
    assert!(!writer.peer_closed());

    // Room appears while the write waits.
    let waiting = std::thread::spawn(move || {
        let written = writer.write_some(&piece, SOON).unwrap();
        (writer, written)
    });
    let mut sink = vec![0; sent];
    soon(reader.read_exact(&mut sink)).await.unwrap();
    let (writer, written) = waiting.join().unwrap();
    assert!(written > 0);

    drop(reader);
    assert!(writer.peer_closed());
    let error = writer.write_some(b"x", wait).unwrap_err();
    assert!(
        matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset),
        "{error:?}"
    );
}

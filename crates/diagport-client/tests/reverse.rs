//! The monitor side: runtimes that connect to us.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod fake;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use diagport_client::{ADVERTISE_LIMIT, Client, Deadline, Fault, ReverseServer, Target};
use diagport_codec::{Advertise, Command, Guid, Reply, RuntimeCookie};
use fake::read_message;

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

fn advertise(cookie: u8, process_id: u64) -> [u8; 34] {
    Advertise { cookie: RuntimeCookie(Guid([cookie; 16])), process_id }.encode()
}

/// Connects as a runtime does.
fn runtime(path: &Path, cookie: u8, process_id: u64) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(&advertise(cookie, process_id)).unwrap();
    stream
}

/// Serves one request on a runtime's connection, on a thread of its own.
fn serve(mut stream: UnixStream) -> std::thread::JoinHandle<Command> {
    std::thread::spawn(move || {
        let request = read_message(&mut stream);
        stream.write_all(&Reply::success().encode().encode().unwrap()).unwrap();
        request.command
    })
}

// spec-test: CLI-REVERSE-1
#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_dropped_and_nobody_waits_for_them() {
    let mut best = Duration::MAX;
    // A busy machine may disturb some of the tries.
    for _ in 0..10 {
        best = best.min(arrival_among_strangers().await);
        if best < ADVERTISE_LIMIT {
            return;
        }
    }
    panic!("it waited for strangers: {best:?}");
}

/// How long the one true runtime took to be known.
async fn arrival_among_strangers() -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.sock");
    let server = ReverseServer::bind(&path).unwrap();
    let silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut wrong = UnixStream::connect(&path).unwrap();
    wrong.write_all(&[b'X'; 34]).unwrap();
    let mut cut = UnixStream::connect(&path).unwrap();
    cut.write_all(&advertise(9, 9)[..20]).unwrap();
    drop(cut);

    let from = Instant::now();
    let _late = runtime(&path, 1, 77);
    let arrived = deadline().run(server.accept()).await.expect("the true one arrives");
    assert_eq!((arrived.process_id(), arrived.cookie()), (77, RuntimeCookie(Guid([1; 16]))));
    let took = from.elapsed();
    drop(silent);
    server.close().await;
    assert!(!path.exists(), "the socket is removed");
    took
}

// spec-test: CLI-REVERSE-2
// spec-test: CLI-REVERSE-3
#[tokio::test(flavor = "multi_thread")]
async fn each_request_takes_the_runtimes_next_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.sock");
    let server = ReverseServer::bind(&path).unwrap();
    let dead = runtime(&path, 1, 1);
    let client = Client::new(Target::Advertised(server.accept().await));
    drop(dead);
    // The same process id in another container is another runtime.
    let _other = runtime(&path, 2, 1);
    let other = server.accept().await;
    assert_eq!((other.process_id(), other.cookie()), (1, RuntimeCookie(Guid([2; 16]))));

    for _ in 0..3 {
        let served = serve(runtime(&path, 1, 1));
        client.resume(deadline()).await.unwrap();
        assert_eq!(served.join().unwrap(), Command::RESUME_RUNTIME);
    }
    let error = client.resume(Deadline::after(Duration::from_millis(200))).await.unwrap_err();
    assert_eq!(error.fault(), Fault::TimedOut);
    assert!(error.to_string().contains("waiting for the process to connect"), "{error}");
}

#[tokio::test]
async fn a_served_path_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.sock");
    let first = ReverseServer::bind(&path).unwrap();
    assert!(ReverseServer::bind(&path).is_err());
    first.close().await;
    std::fs::write(&path, "a file").unwrap();
    assert!(ReverseServer::bind(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
}

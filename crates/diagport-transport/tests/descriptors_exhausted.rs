//! No descriptor left: accept neither spins nor dies, a waiting peer is turned away, and service goes on afterwards.
//!
//! A binary of its own, for it lowers the process's limit.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use diagport_transport::{BindOptions, PortListener};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;

// spec-test: SRV-ACCEPT-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accept_backs_off_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.sock");
    let listener = PortListener::bind(&path, BindOptions::default()).unwrap();
    // Peers first: they need descriptors of this process, too.
    let mut waiting: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let old = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..old }).unwrap();
    let cpu_before = cpu_ms();
    let mut ballast: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(File::open("/dev/null").is_err());

    let accepting = tokio::spawn(async move {
        let stream = listener.accept().await;
        (listener, stream)
    });
    let started = Instant::now();
    let mut turned_away = Vec::new();
    for (number, mut peer) in waiting.drain(..).enumerate() {
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let read = tokio::task::spawn_blocking(move || (peer.read(&mut [0]).unwrap(), peer)).await.unwrap();
        assert_eq!(read.0, 0, "turned away, not left alone");
        // Kept open: a closed one would leave a descriptor free.
        turned_away.push(read.1);
        println!("peer {number} turned away after {:?}", started.elapsed());
    }
    // A fourth one that stays: the listener is readable all the time, which is what makes a careless loop spin.
    drop(ballast.pop());
    let _fourth = UnixStream::connect(&path).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    ballast.clear();
    let busy_ms = cpu_ms() - cpu_before;
    println!("CPU used in {:?}: {busy_ms} ms", started.elapsed());
    assert!(busy_ms < 300, "accept spins: {busy_ms} ms");

    setrlimit(Resource::Nofile, old).unwrap();
    let late = UnixStream::connect(&path).unwrap();
    let (_listener, stream) =
        tokio::time::timeout(Duration::from_secs(10), accepting).await.expect("accepted").unwrap();
    stream.expect("a live connection").write_all(b"x").await.unwrap();
    drop(late);
}

/// User and system time of this process, in steps of 10 ms.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    let ticks: u64 =
        fields.split_ascii_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    ticks * 10
}

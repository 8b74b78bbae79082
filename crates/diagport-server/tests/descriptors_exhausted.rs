//! The last descriptor is somebody's silence: who speaks is served nevertheless.
//!
//! A binary of its own, for it lowers the process's limit.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use diagport_codec::{ProcessInfoVersion, Reply, Request};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{TestServer, eventually, median};

const LIMIT: u64 = 128;

// spec-test: SRV-ACCEPT-1, SRV-HALF-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_peers_make_room_for_those_who_speak() {
    let old = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), ..old }).unwrap();
    let server = TestServer::start();

    // No more silent ones than half of the descriptors, although the limit of the server is 512.
    let mut silent = Vec::new();
    while let Ok(peer) = UnixStream::connect(server.path()) {
        silent.push(peer);
        tokio::task::yield_now().await;
        if silent.len() == 40 {
            break;
        }
    }
    eventually("accepted", || server.handle.statistics().half_open_now == 40).await;

    // The program takes all the others but the one that a client needs.
    let mut ballast: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let (mut latencies, mut evictions, mut evicted) = (Vec::new(), Vec::new(), 0);
    for _ in 0..5 {
        drop(ballast.pop());
        let started = Instant::now();
        let reply = server.ask(&Request::ProcessInfo(ProcessInfoVersion::V1)).await;
        assert!(matches!(reply, Reply::Ok { .. }), "{reply:?}");
        latencies.push(started.elapsed());
        let before = std::mem::replace(&mut evicted, server.handle.statistics().evicted_connections);
        evictions.push(evicted - before);
        ballast.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    }
    println!("answered without a free descriptor after {latencies:?}, {evictions:?} silent peers sent away");
    assert!(median(&mut latencies) < Duration::from_secs(2), "{latencies:?}");
    assert!(evicted >= 1 && median(&mut evictions) <= 4, "{evictions:?}");
    drop(ballast);

    // More silent ones than half of the limit.
    setrlimit(Resource::Nofile, old).unwrap();
    while silent.len() < LIMIT as usize {
        silent.push(UnixStream::connect(server.path()).unwrap());
    }
    eventually("at most half of the limit", || {
        let statistics = server.handle.statistics();
        statistics.accepted_connections == LIMIT + 5 && statistics.half_open_now == LIMIT / 2
    })
    .await;
}

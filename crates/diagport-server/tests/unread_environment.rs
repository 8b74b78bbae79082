//! Peers that ask for a large environment and do not read it: neither memory nor the process's end is theirs.
//!
//! A binary of its own: it measures the memory of the process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diagport_codec::{ProcessInfoVersion, Reply, Request};
use diagport_server::{Host, HostError, HostIdentity, Limits, ServerBuilder, ServerHandle};
use diagport_transport::{IpcStream, connect};
use support::{SOON, TestHost, encode, read_reply, soon, test_pipe};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ENTRY_BYTES: usize = 4 << 20;
const PEERS: usize = 100;

/// A host with a large environment that counts how often it is asked for it.
#[derive(Debug, Default)]
struct LargeHost {
    identity: TestHost,
    asked: AtomicUsize,
}

impl Host for LargeHost {
    fn process_info(&self) -> HostIdentity {
        self.identity.process_info()
    }

    fn environment(&self) -> Result<Vec<String>, HostError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(vec![format!("LARGE={}", "x".repeat(ENTRY_BYTES))])
    }
}

fn start(limits: Limits) -> (ServerHandle, Arc<LargeHost>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(LargeHost::default());
    let builder = ServerBuilder::new(test_pipe(), host.clone() as Arc<dyn Host>);
    (builder.folder(folder.path()).limits(limits).start().unwrap(), host, folder)
}

async fn asking(server: &ServerHandle) -> IpcStream {
    let mut stream = connect(server.default_port_path().unwrap(), SOON).await.unwrap();
    stream.write_all(&encode(&Request::ProcessEnvironment)).await.unwrap();
    stream
}

// spec-test: SRV-ENVIRON-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_shares_one_copy() {
    let (server, host, _folder) = start(Limits::default());
    let before = resident_mb();
    let mut crowd = Vec::new();
    for _ in 0..PEERS {
        crowd.push(asking(&server).await);
    }
    for stream in &mut crowd {
        assert!(matches!(read_reply(stream).await, Reply::Ok { .. }));
    }
    let grown = resident_mb().saturating_sub(before);
    let asked = host.asked.load(Ordering::Relaxed);
    println!("{PEERS} unread environments of 8 MB: {grown} MB more, made {asked} times");
    assert!(grown < 120, "{grown} MB for {PEERS} copies of one block");

    // An honest one gets his beside them, and all of it.
    let mut honest = asking(&server).await;
    assert!(matches!(read_reply(&mut honest).await, Reply::Ok { .. }));
    let mut block = Vec::new();
    soon(honest.read_to_end(&mut block)).await.unwrap();
    assert_eq!(block.len(), 4 + 4 + 2 * ("LARGE=".len() + ENTRY_BYTES + 1));
}

// spec-test: SRV-SHUTDOWN-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_block_holds_shutdown_no_longer_than_a_stream_does() {
    let stop_grace = Duration::from_millis(200);
    let limits = Limits { stop_grace, continuation: 10 * SOON, ..Limits::default() };
    let (server, _host, _folder) = start(limits);
    let mut unread = asking(&server).await;
    assert!(matches!(read_reply(&mut unread).await, Reply::Ok { .. }));
    // An answered peer that neither closes nor says more holds nothing up either.
    let mut answered = connect(server.default_port_path().unwrap(), SOON).await.unwrap();
    answered.write_all(&encode(&Request::ProcessInfo(ProcessInfoVersion::V1))).await.unwrap();
    assert!(matches!(read_reply(&mut answered).await, Reply::Ok { .. }));
    let started = Instant::now();
    server.shutdown(10 * SOON).await;
    println!("shutdown beside an unread environment after {:?}, grace {stop_grace:?}", started.elapsed());
    assert!(started.elapsed() >= stop_grace && started.elapsed() < SOON, "{:?}", started.elapsed());
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
}

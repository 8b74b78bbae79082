//! A log whose subscriber panics (its file system is full, its reader has gone) costs a port nothing.
//!
//! A binary of its own: a subscriber is the process's.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diagport_codec::{ProcessInfoVersion, Reply, Request};
use diagport_transport::{Probe, probe};
use support::{TestServer, eventually};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static PANICS: AtomicUsize = AtomicUsize::new(0);

struct Broken;

impl Subscriber for Broken {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("diagport") && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        PANICS.fetch_add(1, Ordering::Relaxed);
        panic!("cannot log {:?}", event.metadata());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

// spec-test: SRV-PORT-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_survives_a_log_that_panics() {
    tracing::subscriber::set_global_default(Broken).unwrap();
    let server = TestServer::start_with_limits(|limits| limits.socket_file_check = Duration::from_millis(20));
    let path = server.path();
    let info = Request::ProcessInfo(ProcessInfoVersion::V1);
    // Each time it is made again the port says so, and fails in saying it.
    for round in 1..=3 {
        fs::remove_file(&path).unwrap();
        // The file is there a little before somebody listens.
        eventually("the file is back", || probe(&path) == Probe::Served).await;
        eventually("the log has panicked", || PANICS.load(Ordering::Relaxed) >= round).await;
        assert!(matches!(server.ask(&info).await, Reply::Ok { .. }));
    }
}

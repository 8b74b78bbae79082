//! Streaming sessions: start, stream, stop, and every way in which a client can misbehave.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::HashSet;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diagport_codec::{
    BufferingMode, CollectTracing, CollectTracingVersion, HResult, ProcessInfoVersion, ProviderRequest,
    Reply, Request, SessionOutput, StackWalk, StreamFormat, TracepointConfig,
};
use diagport_session::{EventDefinition, EventPipe, ProviderConfig, SessionConfig, SessionId, SessionType};
use diagport_transport::IpcStream;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use support::{
    SOON, TestServer, collect, encode, error_of, eventually, is_complete, is_kept, median, read_reply,
    read_stream, soon, start_session,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const INFO: Request = Request::ProcessInfo(ProcessInfoVersion::V1);

async fn stop(server: &TestServer, session_id: u64) -> Duration {
    let started = Instant::now();
    assert_eq!(server.ask(&Request::StopTracing { session_id }).await, Reply::session(session_id));
    started.elapsed()
}

/// A thread that emits as fast as it can, until told to stop.
struct Producer {
    stop: Arc<AtomicBool>,
    progress: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Producer {
    fn start(pipe: &EventPipe) -> Self {
        let event = pipe
            .provider("Test-Provider")
            .define::<(i64, String)>(EventDefinition::new(1, "Tick"), ["index", "text"])
            .unwrap();
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, progress) = (Arc::clone(&stop), Arc::clone(&progress));
            move || {
                let text = "x".repeat(200);
                for index in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let _ = event.write((index, &text));
                    progress.fetch_add(1, Ordering::Relaxed);
                    if index % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
        Self { stop, progress, thread: Some(thread) }
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// spec-test: SRV-SESSION-1, SRV-STOP-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_streams_from_its_reply_to_its_stop() {
    let server = TestServer::start();
    let event = server
        .pipe
        .provider("Test-Provider")
        .define::<(i64,)>(EventDefinition::new(1, "Tick"), ["index"])
        .unwrap();
    let mut sessions = 0;
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        is_kept("idle stop answered", Duration::from_secs(1), async || {
            sessions += 1;
            let mut stream = server.open().await;
            let id = start_session(&mut stream, &collect(mode, 4)).await;
            assert_ne!(id, 0);
            // The reply is there: enabled already, whatever the drain thread does.
            assert!(event.is_enabled(), "{mode:?}");
            for index in 0..100 {
                let _ = event.write((index,));
            }
            let reader = tokio::spawn(async move { read_stream(&mut stream).await });
            let took = stop(&server, id).await;
            // The stream has ended before the stop is answered.
            let bytes = soon(reader).await.unwrap();
            assert!(is_complete(&bytes), "{mode:?}: {} bytes", bytes.len());
            assert!(!event.is_enabled());
            took
        })
        .await;
    }
    let statistics = server.pipe.statistics();
    assert_eq!((statistics.emitted, statistics.dropped, statistics.live_sessions), (100 * sessions, 0, 0));
}

// spec-test: SRV-STOP-2
#[tokio::test]
async fn stopping_what_does_not_run_is_a_success() {
    let server = TestServer::start();
    for id in [0, 1, 77, u64::MAX] {
        stop(&server, id).await;
    }
    let mut stream = server.open().await;
    let id = start_session(&mut stream, &collect(BufferingMode::Drop, 1)).await;
    stop(&server, id).await;
    stop(&server, id).await;
}

// spec-test: SRV-SESSION-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_65_fails_and_disturbs_nobody() {
    let server = TestServer::start();
    let mut streams = Vec::new();
    let mut ids = HashSet::new();
    for _ in 0..64 {
        let mut stream = server.open().await;
        assert!(ids.insert(start_session(&mut stream, &collect(BufferingMode::Drop, 1)).await));
        streams.push(stream);
    }
    let started = Instant::now();
    let reply = server.ask(&collect(BufferingMode::Drop, 1)).await;
    println!("session 65 refused after {:?}", started.elapsed());
    assert_eq!(error_of(&reply), HResult::FAIL);

    drop(streams.remove(10));
    eventually("a slot is free", || server.pipe.statistics().live_sessions == 63).await;
    let mut stream = server.open().await;
    assert!(ids.insert(start_session(&mut stream, &collect(BufferingMode::Drop, 1)).await), "an id twice");
    streams.push(stream);
    for id in &ids {
        stop(&server, *id).await;
    }
    for stream in &mut streams {
        assert!(is_complete(&read_stream(stream).await));
    }
    assert_eq!(server.pipe.statistics().live_sessions, 0);
}

// spec-test: SRV-SESSION-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_session_whose_client_vanished_frees_its_slot() {
    let server = TestServer::start();
    is_kept("slot free after the client had gone", Duration::from_secs(1), async || {
        let mut stream = server.open().await;
        start_session(&mut stream, &collect(BufferingMode::Drop, 1)).await;
        assert_eq!(server.pipe.statistics().live_sessions, 1);
        let started = Instant::now();
        drop(stream);
        eventually("the slot is free", || server.pipe.statistics().live_sessions == 0).await;
        started.elapsed()
    })
    .await;
}

// spec-test: SRV-SESSION-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_closed_client_keeps_its_session() {
    let server = TestServer::start();
    let event = server
        .pipe
        .provider("Test-Provider")
        .define::<(i64,)>(EventDefinition::new(1, "Tick"), ["index"])
        .unwrap();
    let mut stream = server.open().await;
    let id = start_session(&mut stream, &collect(BufferingMode::Drop, 1)).await;
    stream.shutdown_write().unwrap();
    // Longer than the slot of a vanished client lives.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(server.pipe.statistics().live_sessions, 1);
    let _ = event.write((1,));
    stop(&server, id).await;
    assert!(is_complete(&read_stream(&mut stream).await));
    assert_eq!(server.pipe.statistics().dropped, 0);
}

// spec-test: SRV-CLOSE-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_on_a_session_connection_are_no_reset_at_its_end() {
    let server = TestServer::start();
    let mut stream = server.open().await;
    let id = start_session(&mut stream, &collect(BufferingMode::Drop, 1)).await;
    stream.write_all(&[7; 3000]).await.unwrap();
    stop(&server, id).await;
    assert!(is_complete(&read_stream(&mut stream).await));
}

// spec-test: SRV-STOP-1, SRV-FAIR-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_of_a_block_session_that_nobody_reads_is_answered() {
    let server = TestServer::start();
    let producer = Producer::start(&server.pipe);
    let mut latencies = Vec::new();
    is_kept("producer released (promised 100 ms)", Duration::from_secs(1), async || {
        let mut stream = server.open().await;
        let id = start_session(&mut stream, &collect(BufferingMode::Block, 1)).await;
        let session = SessionId::from_u64(id).and_then(|id| server.pipe.session(id)).expect("it runs");
        // The reader sleeps: the producer is parked sooner or later, and stays so.
        let mut last = u64::MAX;
        let mut slept = Instant::now();
        eventually("the producer is parked", || {
            if slept.elapsed() < Duration::from_millis(100) {
                return false;
            }
            slept = Instant::now();
            let now = producer.progress();
            session.waiting_count() == 1 && std::mem::replace(&mut last, now) == now
        })
        .await;
        let stopping = Instant::now();
        let infos = async {
            for _ in 0..20 {
                let started = Instant::now();
                assert!(matches!(server.ask(&INFO).await, Reply::Ok { .. }));
                latencies.push(started.elapsed());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let parked_at = producer.progress();
        let released = async {
            eventually("the producer is released", || producer.progress() > parked_at).await;
            stopping.elapsed()
        };
        let (took, (), released) = tokio::join!(stop(&server, id), infos, released);
        println!("stop answered after {took:?} (promised 5 s)");
        assert!(took < SOON / 2, "{took:?}");
        eventually("the session has ended", || server.pipe.statistics().live_sessions == 0).await;
        drop(stream);
        released
    })
    .await;
    let middle = median(&mut latencies);
    assert!(middle < Duration::from_millis(500), "ProcessInfo meanwhile: {middle:?}");
    let statistics = server.pipe.statistics();
    assert_eq!(statistics.emitted, statistics.written + statistics.dropped);
}

// spec-test: SRV-STOP-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_answered_even_if_the_session_does_not_end() {
    let server = TestServer::start_with_limits(|limits| {
        limits.stop_grace = 10 * SOON;
        limits.stop_reply = Duration::from_millis(200);
    });
    let producer = Producer::start(&server.pipe);
    let mut stream = server.open().await;
    let id = start_session(&mut stream, &collect(BufferingMode::Drop, 16)).await;
    eventually("dropped events", || server.pipe.statistics().dropped > 0).await;
    let took = stop(&server, id).await;
    println!("stop answered after {took:?}, limit 200 ms");
    assert!(took >= Duration::from_millis(200) && took < SOON, "{took:?}");
    drop((stream, producer));
}

// spec-test: SRV-SESSION-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_before_the_reply_leaves_no_session() {
    let server = TestServer::start();
    for _ in 0..50 {
        let mut stream = server.open().await;
        stream.write_all(&encode(&collect(BufferingMode::Block, 1))).await.unwrap();
        drop(stream);
    }
    eventually("all served", || {
        let statistics = server.handle.statistics();
        statistics.accepted_connections == 50 && statistics.connections_now == 0
    })
    .await;
    eventually("no session", || server.pipe.statistics().live_sessions == 0).await;
    // Nor one that holds a slot without being enabled.
    let free = || {
        let anything = vec![ProviderConfig::everything("Test-Provider")];
        server.pipe.create_session(SessionConfig::new(SessionType::IpcStream, anything)).expect("a free slot")
    };
    let all: Vec<_> = (0..64).map(|_| free()).collect();
    all.iter().for_each(|session| session.abort("not needed"));
}

// spec-test: SRV-SESSION-7
#[tokio::test]
async fn netperf_is_refused() {
    let server = TestServer::start();
    let request = Request::CollectTracing(CollectTracing {
        version: CollectTracingVersion::V2,
        output: SessionOutput::Streaming {
            circular_buffer_mb: 1,
            format: StreamFormat::NetPerf,
            stack_walk: StackWalk::On,
            buffering_mode: BufferingMode::Drop,
        },
        rundown_keyword: 0,
        providers: vec![ProviderRequest::new("Test-Provider", 1, 5)],
    });
    assert_eq!(error_of(&server.ask(&request).await), HResult::NOT_SUPPORTED);
    assert_eq!(server.pipe.statistics().live_sessions, 0);
}

// spec-test: SRV-SESSION-8
#[tokio::test]
async fn no_client_gets_more_memory_than_the_limit() {
    let server = TestServer::start();
    let check = async |circular_buffer_mb: u32, expected_bytes: u64| {
        let mut stream = server.open().await;
        let id = start_session(&mut stream, &collect(BufferingMode::Drop, circular_buffer_mb)).await;
        let session = SessionId::from_u64(id).and_then(|id| server.pipe.session(id)).expect("it runs");
        assert_eq!(session.config().budget_bytes, expected_bytes, "{circular_buffer_mb} MB");
    };
    check(1, 1 << 20).await;
    check(4096, 4 << 30).await;
    check(4097, 4 << 30).await;
    check(u32::MAX, 4 << 30).await;
}

fn user_events() -> Vec<u8> {
    let mut provider = ProviderRequest::new("Test-Provider", 1, 5);
    provider.tracepoints = Some(TracepointConfig { default_name: Some("all".to_owned()), sets: Vec::new() });
    encode(&Request::CollectTracing(CollectTracing {
        version: CollectTracingVersion::V5,
        output: SessionOutput::UserEvents,
        rundown_keyword: 0,
        providers: vec![provider],
    }))
}

fn send_descriptor(stream: &IpcStream, bytes: &[u8]) {
    let file = tempfile::tempfile().unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let passed = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

// spec-test: SRV-SESSION-6
#[tokio::test]
async fn user_events_takes_the_descriptor_closes_it_and_fails() {
    let limit = Duration::from_millis(200);
    let server = TestServer::start_with_limits(|limits| limits.request = limit);
    let finish = async |mut stream: IpcStream, expected: HResult, name: &str| {
        assert_eq!(error_of(&read_reply(&mut stream).await), expected, "{name}");
        assert_eq!(soon(stream.read(&mut [0])).await.unwrap(), 0, "{name}");
    };

    let mut stream = server.open().await;
    stream.write_all(&user_events()).await.unwrap();
    send_descriptor(&stream, &[0]);
    finish(stream, HResult::FAIL, "with the byte after the request").await;

    let stream = server.open().await;
    send_descriptor(&stream, &user_events());
    finish(stream, HResult::FAIL, "with the request itself").await;

    let mut stream = server.open().await;
    stream.write_all(&user_events()).await.unwrap();
    stream.shutdown_write().unwrap();
    finish(stream, HResult::BAD_ENCODING, "an end instead").await;

    let started = Instant::now();
    let mut stream = server.open().await;
    stream.write_all(&user_events()).await.unwrap();
    finish(stream, HResult::BAD_ENCODING, "nothing at all").await;
    assert!(started.elapsed() >= limit, "{:?}", started.elapsed());
}

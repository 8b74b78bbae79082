//! Requests in time, judged early; every connection ends; nobody delays anybody.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::{Duration, Instant};

use diagport_codec::{HResult, ProcessInfoVersion, Reply, Request};
use diagport_transport::IpcStream;
use support::{
    SOON, TestServer, code_of, encode, exchange, is_kept, median, message, read_reply, send_raw, soon,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const INFO: Request = Request::ProcessInfo(ProcessInfoVersion::V1);

fn is_ok(reply: &Reply) -> bool {
    matches!(reply, Reply::Ok { .. })
}

// spec-test: SRV-FAIR-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_sent_header_delays_nobody() {
    // The half-sent one is there for longer than all tries take.
    let server = TestServer::start_with_limits(|limits| limits.request = 10 * SOON);
    let mut half = server.open().await;
    half.write_all(&encode(&INFO)[..7]).await.unwrap();
    is_kept("answered beside a half-sent header", Duration::from_millis(500), async || {
        let started = Instant::now();
        assert!(is_ok(&server.ask(&INFO).await));
        started.elapsed()
    })
    .await;
    // And the half-sent one is still good for its request.
    half.write_all(&encode(&INFO)[7..]).await.unwrap();
    assert!(is_ok(&read_reply(&mut half).await));
}

// spec-test: SRV-REQ-1
#[tokio::test]
async fn an_incomplete_request_is_answered_at_its_deadline() {
    let limit = Duration::from_millis(150);
    let server = TestServer::start_with_limits(|limits| limits.request = limit);
    let check = async |name: &str, sent: &[u8]| {
        let mut stream = server.open().await;
        let started = Instant::now();
        stream.write_all(sent).await.unwrap();
        let mut received = Vec::new();
        soon(stream.read_to_end(&mut received)).await.unwrap();
        let waited = started.elapsed();
        println!("{name}: answered after {waited:?}, limit {limit:?}");
        assert_eq!(code_of(&received), HResult::BAD_ENCODING, "{name}");
        assert!(waited >= limit, "{name}: {waited:?}");
    };
    check("one byte", b"D").await;
    check("header, no payload", &message(2, 1, &7_u64.to_le_bytes())[..20]).await;
}

// spec-test: SRV-REQ-1
#[tokio::test]
async fn a_dripping_peer_does_not_extend_its_deadline() {
    let limit = Duration::from_millis(200);
    let server = TestServer::start_with_limits(|limits| limits.request = limit);
    let mut stream = server.open().await;
    let started = Instant::now();
    let bytes = message(4, 0, &[0; 400]);
    for byte in &bytes {
        if stream.write_all(&[*byte]).await.is_err() || started.elapsed() > limit * 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut received = Vec::new();
    soon(stream.read_to_end(&mut received)).await.unwrap();
    println!("dripping peer answered within {:?}", started.elapsed());
    assert_eq!(code_of(&received), HResult::BAD_ENCODING);
}

// spec-test: SRV-REQ-3
#[tokio::test]
async fn a_silent_peer_is_sent_away_in_the_end() {
    let limit = Duration::from_millis(150);
    let server = TestServer::start_with_limits(|limits| limits.silence = limit);
    let started = Instant::now();
    let mut stream = server.open().await;
    let mut received = Vec::new();
    soon(stream.read_to_end(&mut received)).await.unwrap();
    assert_eq!(code_of(&received), HResult::BAD_ENCODING);
    assert!(started.elapsed() >= limit, "{:?}", started.elapsed());
}

// spec-test: SRV-REQ-2
#[tokio::test]
async fn garbage_is_judged_at_byte_20() {
    let server = TestServer::start_with_limits(|limits| limits.request = 10 * SOON);
    let check = async |name: &str, header: &[u8], expected: HResult| {
        // The connection stays open behind the header, for longer than we wait: only an early judgement answers.
        let mut stream = server.open().await;
        stream.write_all(header).await.unwrap();
        let mut received = Vec::new();
        soon(stream.read_to_end(&mut received)).await.unwrap();
        assert_eq!(code_of(&received), expected, "{name}");
    };
    let mut header = message(4, 0, &[]);
    header[14..16].copy_from_slice(&60_000_u16.to_le_bytes());
    header[0] = b'X';
    check("bad magic, size 60000", &header, HResult::UNKNOWN_MAGIC).await;
    header[14..16].copy_from_slice(&19_u16.to_le_bytes());
    check("bad magic, size 19", &header, HResult::BAD_ENCODING).await;
    check("an HTTP client", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", HResult::UNKNOWN_MAGIC).await;
}

#[tokio::test]
async fn any_fragmentation_is_the_same_request() {
    let server = TestServer::start();
    let mut stream = server.open().await;
    for byte in encode(&Request::StopTracing { session_id: 99 }) {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(read_reply(&mut stream).await, Reply::session(99));
}

// spec-test: SRV-CLOSE-1
#[tokio::test]
async fn what_follows_the_request_is_not_a_reset() {
    let server = TestServer::start();
    let check = async |name: &str, first: Vec<u8>, expected: HResult| {
        let mut sent = first;
        sent.extend_from_slice(&encode(&INFO));
        sent.extend(std::iter::repeat_n(0xAA, 50_000));
        // `send_raw` fails on a reset.
        let received = send_raw(server.open().await, &sent).await;
        assert_eq!(code_of(&received), expected, "{name}");
    };
    check("good request", encode(&INFO), HResult::OK).await;
    check("unknown command", message(9, 9, &[]), HResult::UNKNOWN_COMMAND).await;
    check("unknown profiler command", message(3, 99, &[]), HResult::UNKNOWN_COMMAND).await;
}

// spec-test: SRV-CLOSE-1
#[tokio::test]
async fn every_bad_request_gets_its_code_and_an_end() {
    let server = TestServer::start();
    let check = async |name: &str, sent: Vec<u8>, expected: HResult| {
        let received = server.send_raw(&sent).await;
        assert_eq!(code_of(&received), expected, "{name}");
        assert_eq!(received.len(), 24, "{name}");
    };
    check("nothing at all", Vec::new(), HResult::BAD_ENCODING).await;
    check("half a header", encode(&INFO)[..10].to_vec(), HResult::BAD_ENCODING).await;
    check("half a payload", message(2, 1, &[1; 8])[..24].to_vec(), HResult::BAD_ENCODING).await;
    check("unknown set", message(0x7F, 0, &[]), HResult::UNKNOWN_COMMAND).await;
    check("unknown id", message(2, 0x63, &[1, 2, 3]), HResult::UNKNOWN_COMMAND).await;
    check("short StopTracing", message(2, 1, &[1; 4]), HResult::BAD_ENCODING).await;
    for (set, id) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 7), (3, 1), (3, 2), (4, 3), (4, 5), (4, 7)]
    {
        check(&format!("empty payload for {set:#x}/{id:#x}"), message(set, id, &[]), HResult::BAD_ENCODING)
            .await;
    }
    let statistics = server.handle.statistics();
    assert_eq!(statistics.refused_requests, 17, "{statistics:?}");
    assert!(is_ok(&server.ask(&INFO).await));
}

// A command is executed although its sender did not wait.
#[tokio::test]
async fn fire_and_forget_is_executed() {
    let server = TestServer::start();
    let mut stream = server.open().await;
    let request =
        Request::SetEnvironmentVariable { name: Some("LEFT".to_owned()), value: Some("behind".to_owned()) };
    stream.write_all(&encode(&request)).await.unwrap();
    drop(stream);
    support::eventually("the variable is set", || server.host.environment.value("LEFT").is_some()).await;
}

// spec-test: SRV-HALF-1
#[tokio::test]
async fn a_newcomer_gets_the_place_of_the_oldest_silent_peer() {
    let server = TestServer::start_with_limits(|limits| limits.half_open_connections = 3);
    let mut speaking = server.open().await;
    speaking.write_all(b"DOT").await.unwrap();
    support::eventually("one half-open", || server.handle.statistics().half_open_now == 1).await;
    let mut silent: Vec<IpcStream> = Vec::new();
    for count in 2..=3 {
        silent.push(server.open().await);
        support::eventually("half-open", || server.handle.statistics().half_open_now == count).await;
    }
    assert!(is_ok(&server.ask(&INFO).await), "the newcomer");
    let mut rest = Vec::new();
    soon(silent[0].read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty());
    assert_eq!(server.handle.statistics().evicted_connections, 1);
    speaking.write_all(&encode(&INFO)[3..]).await.unwrap();
    assert!(is_ok(&read_reply(&mut speaking).await));
    assert!(is_ok(&exchange(silent.remove(1), &encode(&INFO)).await));
}

// spec-test: SRV-FAIR-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_info_beside_255_silent_and_64_half_sent_peers() {
    let server = TestServer::start();
    let mut crowd = Vec::new();
    for _ in 0..255 {
        crowd.push(server.open().await);
    }
    for _ in 0..64 {
        let mut half = server.open().await;
        half.write_all(&encode(&INFO)[..13]).await.unwrap();
        crowd.push(half);
    }
    support::eventually("all are accepted", || server.handle.statistics().half_open_now == 319).await;
    let mut latencies = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        assert!(is_ok(&server.ask(&INFO).await));
        latencies.push(started.elapsed());
    }
    let middle = median(&mut latencies);
    println!(
        "ProcessInfo beside 319 half-open peers: p50 {middle:?}, p99 {:?}, worst {:?} (promised 50 ms)",
        latencies[197], latencies[199]
    );
    assert!(middle < Duration::from_millis(500), "{middle:?}");
    assert_eq!(server.handle.statistics().evicted_connections, 0);
}

// spec-test: SRV-FAIR-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_environment_delays_nobody() {
    let server = TestServer::start();
    server.host.environment.set("BIG", Some(&"x".repeat(4 << 20)));
    let mut unread = server.open().await;
    unread.write_all(&encode(&Request::ProcessEnvironment)).await.unwrap();
    assert!(is_ok(&read_reply(&mut unread).await), "the announcement; the block itself is left unread");
    is_kept("answered beside an unread environment", Duration::from_millis(500), async || {
        let started = Instant::now();
        assert!(is_ok(&server.ask(&INFO).await));
        started.elapsed()
    })
    .await;
}

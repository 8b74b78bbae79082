//! Peers that mean harm, or are broken in the way that looks like it: nobody else may notice them.
//!
//! Limits here are far above the promise, so that a busy machine does not fail them; each test prints what it measured.
#![forbid(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use support::load::Load;
use support::port::{Conversation, Ending, Port, Streaming};
use support::process_facts::{open_files, processor_time};
use support::requests::{Collect, FAIL, PROCESS_INFO, message};
use support::{HANG, say};

/// Tests of latency do not run beside each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ten times the promised 50 ms; one answer alone may be late for reasons of the machine.
const MEDIAN_LIMIT: Duration = Duration::from_millis(500);
const SLOWEST_LIMIT: Duration = Duration::from_secs(20);

/// Asks ProcessInfo `count` times, prints the median and the slowest, and holds them to their limits.
fn check_latency(what: &str, port: &Port, count: usize) -> anyhow::Result<()> {
    let mut times = (0..count).map(|_| port.info_latency()).collect::<anyhow::Result<Vec<_>>>()?;
    times.sort();
    let (median, slowest) = (times[count / 2], times[count - 1]);
    say(&format!("{what}: ProcessInfo median {median:?}, slowest {slowest:?} (promised 50 ms)"));
    ensure!(
        median <= MEDIAN_LIMIT && slowest <= SLOWEST_LIMIT,
        "{what}: ProcessInfo took {median:?} in the median, {slowest:?} at most"
    );
    Ok(())
}

/// A Block session that nobody reads, with two producers that wait for it.
fn stuck_block_session(load: &mut Load) -> anyhow::Result<Streaming> {
    let session = load.port()?.start_session(&Collect::block(1).message())?;
    load.send("burst 2 500000")?;
    // They are stuck once the process uses no more processor time.
    let pid = load.pid();
    let mut last = (Duration::MAX, Instant::now());
    support::await_condition("producers that wait", HANG, || {
        let used = processor_time(pid).unwrap_or_default();
        if used != last.0 {
            last = (used, Instant::now());
        }
        last.1.elapsed() > Duration::from_millis(300)
    })?;
    Ok(session)
}

// spec-test: SRV-FAIR-1, SRV-STOP-1
#[test]
fn a_crowd_of_silent_peers_disturbs_nobody() -> anyhow::Result<()> {
    let _alone = alone();
    let mut load = Load::ours()?;
    let port = load.port()?;
    let silent = (0..255).map(|_| port.connect()).collect::<anyhow::Result<Vec<_>>>()?;
    let half_sent = (0..64)
        .map(|index| {
            let mut conversation = port.connect()?;
            conversation.send(&message(PROCESS_INFO, &[])[..1 + index % 19])?;
            Ok(conversation)
        })
        .collect::<anyhow::Result<Vec<Conversation>>>()?;
    let session = stuck_block_session(&mut load)?;
    check_latency("255 silent, 64 half-sent, one stuck Block session", &port, 200)?;

    // Stop is answered although nobody reads, and the producers are free before it.
    let from = Instant::now();
    let stopping = {
        let (port, id) = (port.clone(), session.session_id);
        std::thread::spawn(move || port.stop(id))
    };
    let answer = load.next_line(HANG)?;
    let freed = from.elapsed();
    let Ok(stopped) = stopping.join() else { anyhow::bail!("the stopping thread panicked") };
    let stopped = stopped?;
    say(&format!(
        "stuck Block session: burst done {freed:?} after the stop, stop answered in {stopped:?} (promised 5 s): {answer}"
    ));
    ensure!(stopped <= Duration::from_secs(15), "stop took {stopped:?}");
    ensure!(freed <= Duration::from_secs(15), "producers were free after {freed:?}");
    load.await_live(0, Duration::from_secs(10))?;
    drop((silent, half_sent, session));
    check_latency("afterwards", &port, 50)
}

// spec-test: SRV-SESSION-4, SES-FAIL-1
#[test]
fn a_reader_that_leaves_frees_the_producers() -> anyhow::Result<()> {
    let _alone = alone();
    let mut load = Load::ours()?;
    let session = stuck_block_session(&mut load)?;
    let from = Instant::now();
    drop(session);
    let answer = load.next_line(HANG)?;
    let freed = from.elapsed();
    say(&format!(
        "reader gone: burst done after {freed:?} (producers promised free within 100 ms): {answer}"
    ));
    ensure!(freed <= Duration::from_secs(15), "producers were free after {freed:?}");
    let took = load.await_live(0, Duration::from_secs(10))?;
    say(&format!("reader gone: session ended after {:?} more (promised 1 s in all)", took));
    let counts = load.sessions()?;
    ensure!(counts.written + counts.dropped == counts.emitted, "{counts:?}");
    Ok(())
}

// spec-test: SRV-SHUTDOWN-1, SRV-FILE-4
#[test]
fn sigterm_ends_the_process_whatever_its_peers_do() -> anyhow::Result<()> {
    let _alone = alone();
    let mut load = Load::ours()?;
    let port = load.port()?;
    let silent = port.connect()?;
    let session = stuck_block_session(&mut load)?;
    let from = Instant::now();
    let finished = load.terminate(Duration::from_secs(20))?;
    let took = from.elapsed();
    say(&format!(
        "SIGTERM with a stuck Block session: ended after {took:?} (promised 5 s), code {:?}",
        finished.code
    ));
    ensure!(took <= Duration::from_secs(15), "it took {took:?}");
    ensure!(!port.path().exists(), "{} is still there", port.path().display());
    drop((silent, session));
    Ok(())
}

// spec-test: SRV-SESSION-3, SRV-SESSION-4
#[test]
fn session_65_is_refused_and_vanished_clients_free_their_slots() -> anyhow::Result<()> {
    let _alone = alone();
    let mut load = Load::ours()?;
    let port = load.port()?;
    let request = Collect::ticks(2, 1).message();
    port.info_latency()?;
    let files = open_files(load.pid())?;
    for round in 0..3 {
        let sessions = (0..64).map(|_| port.start_session(&request)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut refused = port.connect()?;
        refused.send(&request)?;
        let (bytes, ending) = refused.receive_until_closed(HANG)?;
        let reply = support::port::Reply::parse(&bytes).context("no reply")?.0;
        ensure!(
            reply.error_code() == Some(FAIL) && ending == Ending::Closed,
            "session 65: {reply}, then {ending:?}"
        );
        check_latency("64 sessions", &port, 50)?;
        drop(sessions);
        let took = load.await_live(0, Duration::from_secs(10))?;
        say(&format!("round {round}: 64 vanished clients freed their slots after {took:?} (promised 1 s)"));
    }
    let now = || open_files(load.pid()).unwrap_or(usize::MAX);
    support::await_condition("the open files of the start", HANG, || now() <= files)?;
    Ok(())
}

// spec-test: SRV-REQ-1
#[test]
fn half_sent_requests_run_out_of_time() -> anyhow::Result<()> {
    let load = Load::ours()?;
    let port = load.port()?;
    let whole = message((0x02, 0x03), &Collect::ticks(2, 1).payload());
    let from = Instant::now();
    let mut parts = [1, 19, 20, whole.len() - 1]
        .map(|count| -> anyhow::Result<Conversation> {
            let mut conversation = port.connect()?;
            conversation.send(&whole[..count])?;
            Ok(conversation)
        })
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    for conversation in &mut parts {
        let (bytes, ending) = conversation.receive_until_closed(HANG)?;
        let reply = support::port::Reply::parse(&bytes).context("no reply")?.0;
        ensure!(reply.error_code() == Some(support::requests::BAD_ENCODING), "{reply}");
        ensure!(ending == Ending::Closed, "then {ending:?}");
    }
    let took = from.elapsed();
    say(&format!(
        "half-sent requests: answered and closed after {took:?} (promised 10 s from the first byte)"
    ));
    ensure!(took >= Duration::from_secs(5) && took <= Duration::from_secs(20), "{took:?}");
    Ok(())
}

// spec-test: SRV-FAIR-1
#[test]
fn an_environment_that_nobody_reads_disturbs_nobody() -> anyhow::Result<()> {
    let _alone = alone();
    let load = support::load::LoadSetup::new(support::load::Target::Ours)
        .env("DIAGPORT_TEST_LONG", "x".repeat(100_000))
        .env("DIAGPORT_TEST_LONGER", "y".repeat(100_000))
        .start()?;
    let port = load.port()?;
    let unread = (0..20)
        .map(|_| {
            let mut conversation = port.connect()?;
            conversation.send(&message((0x04, 0x02), &[]))?;
            Ok(conversation)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    check_latency("20 unread environments", &port, 50)?;
    drop(unread);
    Ok(())
}

// spec-test: SRV-CLOSE-2
#[test]
fn connections_that_come_and_go_leave_nothing() -> anyhow::Result<()> {
    let load = Load::ours()?;
    let port = load.port()?;
    port.info_latency()?;
    let files = open_files(load.pid())?;
    for index in 0..2000 {
        let mut conversation = port.connect()?;
        // Some say nothing, some a part, some all; none waits for an answer.
        let whole = message(PROCESS_INFO, &[]);
        conversation.send(&whole[..index % 21]).ok();
    }
    let now = || open_files(load.pid()).unwrap_or(usize::MAX);
    support::await_condition("the open files of the start", HANG, || now() <= files)
        .with_context(|| format!("{files} before, {} after", now()))?;
    port.info_latency()?;
    Ok(())
}

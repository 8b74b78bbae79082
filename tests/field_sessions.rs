//! Cases that users of diagnostic ports reported, on sessions, loss and hostile bytes (T05 to T09 of our list).
//!
//! Random parts print their seed. Times are far above the reported bounds, for a busy machine: they catch what hangs, and are printed.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use support::background::Background;
use support::binary::diagport_command;
use support::load::{Load, LoadSetup, Target};
use support::port::{Draining, Ending, Port, Reply};
use support::process_facts::{memory_is_the_products, peak_resident_bytes, resident_bytes, threads};
use support::requests::{
    BAD_ENCODING, Collect, FAIL, PROCESS_INFO, UNKNOWN_COMMAND, UNKNOWN_MAGIC, message, message_with_size,
    utf16,
};
use support::stream_facts::StreamFacts;
use support::{HANG, say};

/// Bursts that are timed: one that is preempted says nothing, the fastest of a few does.
const TIMED_BURSTS: usize = 5;

/// Nanoseconds an event of one thread, as `burst` prints it.
fn pace(answer: &str) -> anyhow::Result<f64> {
    let word = answer.split(' ').find_map(|word| word.strip_prefix("ns_per_event_per_thread="));
    Ok(word.with_context(|| answer.to_owned())?.parse()?)
}

/// Nanoseconds an event while no session is there: the least of a few bursts.
fn untraced_pace(load: &mut Load) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..TIMED_BURSTS {
        let answer = load.command("burst 1 2000000")?;
        ensure!(answer.contains("enabled=False"), "{answer}");
        least = least.min(pace(&answer)?);
    }
    Ok(least)
}

/// T05: the reader sleeps, and somebody stops its session.
// spec-test: SRV-STOP-1, SRV-FAIR-1
#[test]
fn a_stop_while_the_reader_sleeps() -> anyhow::Result<()> {
    let mut load = Load::ours()?;
    let port = load.port()?;
    load.command("burst 1 200000")?;
    let untraced = untraced_pace(&mut load)?;
    let session = port.start_session(&Collect::ticks(2, 1).message())?;
    load.send("burst 1 2000000")?;
    let stopping = {
        let (port, id) = (port.clone(), session.session_id);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            port.stop(id)
        })
    };
    let mut answered = vec![port.info_latency()?];
    while !stopping.is_finished() {
        std::thread::sleep(Duration::from_millis(100));
        answered.push(port.info_latency()?);
    }
    answered.sort();
    let (median, slowest) = (answered[answered.len() / 2], answered[answered.len() - 1]);
    let Ok(stopped) = stopping.join() else { anyhow::bail!("the stopping thread panicked") };
    let stopped = stopped?;
    load.next_line(HANG)?;
    drop(session);
    load.await_live(0, HANG)?;
    // Its `enabled=False` says that nothing is left of the session.
    let after = untraced_pace(&mut load)?;
    say(&format!(
        "a_stop_while_the_reader_sleeps: stop {stopped:?}, ProcessInfo median {median:?}, slowest {slowest:?}, untraced {untraced} ns an event before, {after} after"
    ));
    ensure!(stopped <= Duration::from_secs(15), "stop took {stopped:?}");
    ensure!(
        median <= Duration::from_secs(1) && slowest <= Duration::from_secs(10),
        "ProcessInfo took {median:?} in the median, {slowest:?} at most"
    );
    // Promised is half the untraced speed, and ten times that is allowed here.
    ensure!(after <= 20.0 * untraced, "untraced speed went from {untraced} to {after} ns an event");
    Ok(())
}

/// T06: what a full buffer loses is counted exactly, a thread that lost everything included.
// spec-test: SES-LOSS-1, SES-LOSS-2, CLI-TRACE-3, CLI-TRACE-4
#[test]
fn lossy_accounting_is_exact() -> anyhow::Result<()> {
    let mut load = Load::ours()?;
    let port = load.port()?;
    let session = port.start_session(&Collect::ticks(2, 1).message())?;
    // 4 x 25,000 events do not fit into 1 MB and an unread socket; the threads after them find everything full.
    load.command("burst 4 25000")?;
    load.command("burst 1 10")?;
    load.command("burst 1 1")?;
    let full = load.sessions()?;
    ensure!(full.emitted == 100_011 && full.dropped >= 11, "{full:?}");
    let id = session.session_id;
    let draining = session.drain();
    // A reader that gets no processor for the grace of a stop would be cut, and rightly.
    StreamFacts::await_ticks(&draining, full.written)?;
    port.stop(id)?;
    let facts = StreamFacts::of_bytes(&draining.finish()?)?;
    load.await_live(0, HANG)?;
    let counts = load.sessions()?;
    ensure!(counts == support::load::SessionCounts { live: 0, ..full }, "{full:?}, then {counts:?}");
    ensure!(
        (facts.ticks(), facts.lost) == (counts.written, counts.dropped),
        "{} + {} lost, {counts:?}",
        facts.ticks(),
        facts.lost
    );
    the_client_tells_of_loss(&mut load)
}

fn the_client_tells_of_loss(load: &mut Load) -> anyhow::Result<()> {
    let before = load.sessions()?;
    let pid = load.pid_text();
    let arguments = [
        "trace",
        "-p",
        &pid,
        "--providers",
        "Peer-Load:1:4",
        "--buffersize",
        "1",
        "--fail-on-loss",
        // A client that still waits for this answer when it is stopped might give it up for late.
        "--resume-runtime",
        "false",
        "-o",
        "l.nettrace",
    ];
    let mut command = diagport_command(&arguments)?;
    command.current_dir(load.folder());
    let tool = Background::start_with_input(command)?;
    // The session is live before the client knows of it, and would give up one that was never answered.
    tool.expect_output("Session        : ", HANG)?;
    load.await_live(1, HANG)?;
    // A client that does not get to read loses for certain.
    tool.freeze()?;
    load.command("burst 2 100000")?;
    tool.signal(Signal::CONT)?;
    let after = load.sessions()?;
    // A client that gets no processor for the grace of a stop would be cut, and rightly.
    StreamFacts::await_ticks_in_file(&load.folder().join("l.nettrace"), after.written - before.written)?;
    tool.signal(Signal::INT)?;
    let finished = tool.finish(HANG)?.expect_code(8)?;
    let lost = after.dropped - before.dropped;
    let text = finished.text();
    // Wherever the client puts separators into numbers.
    let plain: String =
        text.lines().last().unwrap_or_default().chars().filter(|c| !matches!(c, ',' | '_' | '\'')).collect();
    ensure!(lost > 0 && plain.contains(&lost.to_string()), "{lost} were lost; the client said:\n{text}");
    Ok(())
}

/// Of T07, each with 65 sessions.
const ROUNDS: usize = 12;

/// T07: 64 sessions at once and one too many.
// spec-test: SRV-SESSION-3, SES-LIFE-1, SES-LIFE-2, SES-LIFE-6
#[test]
fn session_65() -> anyhow::Result<()> {
    // One arena: which threads share one of several is chance, and each newly used one costs megabytes.
    let mut load = LoadSetup::new(Target::Ours).env("MALLOC_ARENA_MAX", "1").start()?;
    let mut ids = std::collections::BTreeSet::new();
    // The thread that answers starts behind `ready`, and must be among the idle ones.
    load.sessions()?;
    let (cold, idle_threads) = (resident_bytes(load.pid())?, threads(load.pid())?);
    let mut after_round = Vec::new();
    for _ in 0..ROUNDS {
        sixty_four_and_one_more(&mut load, &mut ids)?;
        after_round.push(settled_memory(&mut load, idle_threads)?);
    }
    say(&format!("session_65: memory {cold} cold, after each round {after_round:?}"));
    // In the first rounds 64 threads and their heaps come to be, and the arena grows until its holes serve every round. Where the
    // holes are is still chance, so the least of three rounds is compared with the least of three later ones, and a tenth and
    // 1 MB are allowed for the allocator. A leak of 15 kB a session is more than that.
    let least = |rounds: std::ops::Range<usize>| after_round[rounds].iter().min().copied().unwrap_or(0);
    let (memory, after) = (least(4..7), least(ROUNDS - 3..ROUNDS));
    ensure!(
        !memory_is_the_products() || after <= memory + memory / 10 + (1 << 20),
        "memory grew from {memory} to {after} bytes"
    );
    ensure!(ids.len() == ROUNDS * 65 && !ids.contains(&0), "{} different ids", ids.len());
    Ok(())
}

/// Resident memory once the threads of the sessions are gone: the least of a few looks, for the allocator and the kernel's count settle late.
fn settled_memory(load: &mut Load, idle_threads: u64) -> anyhow::Result<u64> {
    let pid = load.pid();
    support::await_condition("the threads of 65 sessions end", HANG, || {
        threads(pid).is_ok_and(|now| now <= idle_threads)
    })?;
    let mut least = resident_bytes(pid)?;
    for _ in 0..8 {
        // An answer between two looks, so that the target has run.
        load.sessions()?;
        least = least.min(resident_bytes(pid)?);
    }
    Ok(least)
}

fn sixty_four_and_one_more(load: &mut Load, ids: &mut std::collections::BTreeSet<u64>) -> anyhow::Result<()> {
    let port = load.port()?;
    let request = Collect::ticks(2, 4).message();
    let mut sessions =
        (0..64).map(|_| Ok(port.start_session(&request)?.drain())).collect::<anyhow::Result<Vec<_>>>()?;
    let from = Instant::now();
    let mut refused = port.connect()?;
    refused.send(&request)?;
    let (bytes, ending) = refused.receive_until_closed(HANG)?;
    let reply = Reply::parse(&bytes).context("no reply")?.0;
    ensure!(
        reply.error_code() == Some(FAIL) && ending == Ending::Closed,
        "session 65: {reply}, then {ending:?}"
    );
    ensure!(from.elapsed() < Duration::from_secs(9), "session 65 waited {:?}", from.elapsed());

    load.command("burst 1 1000")?;
    let tenth = sessions.remove(9);
    port.stop(tenth.session_id)?;
    let another = port.start_session(&request)?.drain();
    ids.extend(sessions.iter().chain([&tenth, &another]).map(|session| session.session_id));
    check_stream(tenth, 1000)?;
    for session in sessions {
        port.stop(session.session_id)?;
        check_stream(session, 1000)?;
    }
    port.stop(another.session_id)?;
    check_stream(another, 0)?;
    load.await_live(0, HANG)?;
    Ok(())
}

fn check_stream(session: Draining, ticks: u64) -> anyhow::Result<()> {
    let id = session.session_id;
    let facts = StreamFacts::of_bytes(&session.finish()?)?;
    ensure!(
        (facts.ticks(), facts.lost) == (ticks, 0),
        "session {id:#x}: {} + {} lost",
        facts.ticks(),
        facts.lost
    );
    Ok(())
}

/// T08: malformed requests; each its code, the end of the connection, and a target that lives. `cargo xtask sanitize address` runs it too.
// spec-test: ERR-MAP-1, IPC-FIELD-2, SRV-CLOSE-1
#[test]
fn malformed_battery() -> anyhow::Result<()> {
    // One arena: which threads share one of several is chance, and each newly used one costs megabytes.
    let mut load = LoadSetup::new(Target::Ours).env("MALLOC_ARENA_MAX", "1").start()?;
    let port = load.port()?;
    let two = Collect::ticks(2, 1).payload();
    let at = |position: usize, value: u32| {
        let mut bytes = two.clone();
        bytes[position..position + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let magic = [b"DOTNET_IPC_V9\0".as_slice(), &[20, 0, 4, 0, 0, 0]].concat();
    let unterminated =
        [two[..25].to_vec(), [2u32.to_le_bytes().as_slice(), b"A\0B\0"].concat(), utf16(None)].concat();
    for (name, request, code) in [
        ("1 wrong magic", magic, UNKNOWN_MAGIC),
        ("2 size 19", message_with_size(PROCESS_INFO, 19, &[]), BAD_ENCODING),
        ("3 size 0", message_with_size(PROCESS_INFO, 0, &[]), BAD_ENCODING),
        ("4 unknown set", message((0x7F, 0x00), &[]), UNKNOWN_COMMAND),
        ("5 unknown id", message((0x02, 0x63), &[]), UNKNOWN_COMMAND),
        ("6 version 2 under the id of 3", message((0x02, 0x04), &two), BAD_ENCODING),
        ("7 provider count", message((0x02, 0x03), &at(9, 0xFFFF_FFFF)), BAD_ENCODING),
        ("8 string length", message((0x02, 0x03), &at(25, 0x4000_0000)), BAD_ENCODING),
        ("9 string without its zero", message((0x02, 0x03), &unterminated), BAD_ENCODING),
        ("10 more promised than sent", message_with_size((0x02, 0x03), 100, &two[..20]), BAD_ENCODING),
        ("11 short StopTracing", message((0x02, 0x01), &[1, 2, 3, 4]), BAD_ENCODING),
    ] {
        let found = refusal(&port, &request).context(name)?;
        ensure!(found == Some(code), "{name}: {found:x?}, not {code:x}");
        port.info_latency().context(name)?;
    }
    random_bodies(&port)?;
    load.await_live(0, HANG)?;
    let before = peak_resident_bytes(load.pid())?;
    random_bodies(&port)?;
    load.await_live(0, HANG)?;
    let grown = peak_resident_bytes(load.pid())? - before;
    ensure!(!memory_is_the_products() || grown <= 2 << 20, "random bodies took {grown} bytes more");
    for version in 2..=4 {
        // One, two and nine bytes of flags before the count: odd offsets are as good as even ones.
        let session = port.start_session(&Collect::ticks(version, 1).message())?;
        port.stop(session.session_id)?;
    }
    Ok(())
}

/// The code that answers a request which is sent whole and half-closed; the connection must end.
fn refusal(port: &Port, request: &[u8]) -> anyhow::Result<Option<u32>> {
    let mut conversation = port.connect()?;
    conversation.send(request)?;
    conversation.half_close()?;
    let from = Instant::now();
    let reply = conversation.receive_reply(HANG)?;
    if let Some(id) = reply.session_id().filter(|_| reply.payload.len() == 8) {
        // A random body that happens to be valid.
        port.stop(id)?;
        return Ok(None);
    }
    let (rest, ending) = conversation.receive_until_closed(HANG)?;
    ensure!(rest.is_empty() && ending == Ending::Closed, "{} bytes, then {ending:?}", rest.len());
    ensure!(from.elapsed() < Duration::from_secs(9), "it took {:?}", from.elapsed());
    Ok(reply.error_code())
}

fn random_bodies(port: &Port) -> anyhow::Result<()> {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64 | 1;
    say(&format!("malformed_battery: seed {seed}"));
    let mut state = seed;
    let mut random = move || {
        // xorshift64: reproducible from the seed, nothing more is wanted of it.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for index in 0..1000u64 {
        let length = usize::try_from(random() % 200)?;
        let body: Vec<u8> = (0..length).map(|_| (random() >> 32) as u8).collect();
        let id = 2 + u8::try_from(index % 6)?;
        refusal(port, &message((0x02, id), &body)).with_context(|| format!("seed {seed}, body {index}"))?;
    }
    Ok(())
}

/// T09, the live part: the target is killed; the recorder ends by itself, keeps what it has, and says what it is.
// spec-test: CLI-TRACE-3
#[test]
fn a_killed_target_leaves_a_readable_recording() -> anyhow::Result<()> {
    let mut load = Load::ours()?;
    let pid = load.pid_text();
    let mut command =
        diagport_command(&["trace", "-p", &pid, "--providers", "Peer-Load:1:4", "-o", "k.nettrace"])?;
    // A target that dies while it is asked to go on is another failure than a recording that is cut.
    command.args(["--resume-runtime", "false"]);
    let home = support::temp_folder()?;
    command.current_dir(home.path()).env("TMPDIR", load.folder());
    let tool = Background::start_with_input(command)?;
    load.await_live(1, HANG)?;
    load.command("burst 2 50000")?;
    let trace = home.path().join("k.nettrace");
    support::await_condition("a part of the recording", HANG, || {
        trace.metadata().is_ok_and(|m| m.len() > 1 << 20)
    })?;
    load.process().signal(Signal::KILL)?;
    let from = Instant::now();
    // A recorder that does not end by itself fails here.
    tool.finish(HANG)?.expect_code(7)?;
    let took = from.elapsed();
    let facts = StreamFacts::of_file(&trace)?;
    say(&format!(
        "a_killed_target_leaves_a_readable_recording: ended {took:?} after the kill, {} of 100000 events, {}",
        facts.ticks(),
        facts.completion
    ));
    ensure!(facts.ticks() > 0 && facts.lost == 0, "{} + {} lost", facts.ticks(), facts.lost);
    ensure!(
        facts.completion != diagport_nettrace::Completion::Complete,
        "a stream without its end passes for whole"
    );
    let again = support::background::run(
        diagport_command(&["convert", &trace.to_string_lossy(), "--to", "text"])?,
        HANG,
    )?;
    ensure!(again.code == Some(7), "convert exited with {:?}", again.code);
    Ok(())
}

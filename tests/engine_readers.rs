//! Whatever becomes of a reader, or of the target itself, at any moment: producers go on, nothing stays behind, the next session is exact.
//!
//! Readers are processes of their own (our client), so that a kill is a kill. Random parts print their seed; no figure of time is judged
//! here but by a limit that catches a hang (`cargo xtask bench` measures).
#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use diagport_nettrace::Completion;
use rustix::process::Signal;
use support::background::Background;
use support::binary::diagport_command;
use support::load::{Load, LoadSetup, Target};
use support::process_facts::{memory_is_the_products, open_files, processor_time, resident_bytes, threads};
use support::requests::Collect;
use support::stream_facts::StreamFacts;
use support::{HANG, await_condition, say};

/// xorshift64: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Our client, recording a Block session of 1 MB in the target's folder.
fn recorder(load: &Load, file: &str, more: &[&str]) -> anyhow::Result<Background> {
    let pid = load.pid_text();
    let mut command = diagport_command(&["trace", "-p", &pid, "--providers", "Peer-Load:1:4", "-o", file])?;
    command.args(["--buffersize", "1", "--buffering-mode", "block"]).args(more);
    command.current_dir(load.folder()).env("TMPDIR", load.folder());
    Background::start_with_input(command)
}

/// A session that is read to its end has all of two threads' 5,000 events each, in order.
fn next_session_is_exact(load: &mut Load) -> anyhow::Result<()> {
    let port = load.port()?;
    let before = load.sessions()?;
    let session = port.start_session(&Collect::block(1).message())?.drain();
    load.command("burst 2 5000")?;
    // A reader that gets no processor for the grace of a stop would be cut, and rightly.
    StreamFacts::await_ticks(&session, 10_000)?;
    port.stop(session.session_id)?;
    let facts = StreamFacts::of_bytes(&session.finish()?)?;
    ensure!(
        (facts.ticks(), facts.lost, facts.index_gaps, facts.completion)
            == (10_000, 0, 0, Completion::Complete),
        "the next session has {} ticks, {} lost, {} gaps, and is {}",
        facts.ticks(),
        facts.lost,
        facts.index_gaps,
        facts.completion
    );
    load.await_live(0, HANG)?;
    let after = load.sessions()?;
    ensure!(
        after.emitted == before.emitted + 10_000 && after.dropped == before.dropped,
        "{before:?}, then {after:?}"
    );
    ensure!(after.emitted == after.written + after.dropped, "{after:?}");
    Ok(())
}

/// Starts a reader, and kills it at a random moment of its life; sometimes it stands still before, with producers waiting.
fn killed_reader(load: &mut Load, random: &mut Random, round: u64) -> anyhow::Result<()> {
    let pause = |random: &mut Random, most_ms: u64| {
        std::thread::sleep(Duration::from_micros(random.below(1_000 * most_ms)));
    };
    let tool = recorder(load, "killed.nettrace", &[])?;
    let connects = round.is_multiple_of(4);
    if !connects {
        load.await_live(1, HANG)?;
    }
    if round % 4 == 1 {
        tool.signal(Signal::STOP)?;
    }
    load.send("burst 2 30000")?;
    pause(random, 60);
    tool.signal(Signal::KILL)?;
    // The answer comes once both producers are through.
    let line = load.next_line(HANG)?;
    ensure!(line.starts_with("burst threads=2 events=60000"), "{line}");
    tool.finish(HANG)?;
    load.await_live(0, HANG)?;
    if round % 10 == 9 {
        next_session_is_exact(load)?;
    }
    Ok(())
}

/// `kill -9` of the reader at 50 random moments: from before it has asked for a session to when producers wait for it.
// spec-test: SES-FAIL-1, SES-LIFE-6, SRV-SESSION-4
#[test]
fn invariant_5_fifty_killed_readers_leave_nothing_behind() -> anyhow::Result<()> {
    const ROUNDS: u64 = 50;
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64 | 1;
    say(&format!("fifty_killed_readers: seed {seed}"));
    let mut random = Random(seed);
    // One arena: which threads share one of several is chance, and each newly used one costs megabytes.
    let mut load = LoadSetup::new(Target::Ours).env("MALLOC_ARENA_MAX", "1").start()?;
    let port = load.port()?;
    port.info_latency()?;
    next_session_is_exact(&mut load)?;
    let (files, idle_threads) = (open_files(load.pid())?, threads(load.pid())?);
    let mut memory = Vec::new();
    for round in 0..ROUNDS {
        killed_reader(&mut load, &mut random, round)
            .with_context(|| format!("seed {seed}, round {round}"))?;
        memory.push(resident_bytes(load.pid())?);
    }
    let pid = load.pid();
    await_condition("threads and open files of the start", HANG, || {
        threads(pid).is_ok_and(|now| now <= idle_threads) && open_files(pid).is_ok_and(|now| now <= files)
    })?;
    next_session_is_exact(&mut load)?;
    // The least of each part, for the allocator's holes are chance. Fifty sessions of 1 MB that stay would be far more.
    let least = |part: &[u64]| part.iter().min().copied().unwrap_or(0);
    let (early, late) = (least(&memory[5..20]), least(&memory[35..]));
    say(&format!("fifty_killed_readers: memory {early} in rounds 5 to 20, {late} in the last 15"));
    ensure!(
        !memory_is_the_products() || late <= early + early / 10 + (1 << 20),
        "memory grew from {early} to {late} bytes"
    );
    Ok(())
}

/// A reader that stands still with producers waiting for it, and two connections that stop its session at the same time: both are answered.
// spec-test: SRV-STOP-1, SES-STOP-1, SES-STOP-3
#[test]
fn invariant_5_two_stops_at_once_free_the_producers_of_a_reader_that_stands_still() -> anyhow::Result<()> {
    let mut load = Load::ours()?;
    let port = load.port()?;
    // Answers on both ways, so that every thread of an idle target is there. Once: later a thread that ends might be counted.
    port.info_latency()?;
    load.sessions()?;
    let idle_threads = threads(load.pid())?;
    for _ in 0..2 {
        let unread = port.start_session(&Collect::block(1).message())?;
        load.send("burst 2 300000")?;
        let pid = load.pid();
        await_condition("the producers", HANG, || threads(pid).is_ok_and(|now| now >= idle_threads + 2))?;
        let (mut used, mut idle_looks) = (Duration::ZERO, 0);
        await_condition("that they wait", HANG, || {
            let now = processor_time(pid).unwrap_or_default();
            idle_looks = if now == used { idle_looks + 1 } else { 0 };
            used = now;
            idle_looks == 20
        })?;
        let (id, begin) = (unread.session_id, Barrier::new(2));
        let stops = std::thread::scope(|scope| {
            let stop = || {
                begin.wait();
                port.stop(id)
            };
            [scope.spawn(stop), scope.spawn(stop)].map(std::thread::ScopedJoinHandle::join)
        });
        for stop in stops {
            let took = stop.map_err(|_| anyhow::anyhow!("a stopping thread panicked"))??;
            say(&format!("two_stops_at_once: answered after {took:?}"));
        }
        let line = load.next_line(HANG)?;
        ensure!(line.starts_with("burst threads=2 events=600000"), "{line}");
        load.await_live(0, HANG)?;
        drop(unread);
        next_session_is_exact(&mut load)?;
    }
    Ok(())
}

/// W19: SIGTERM while producers are at it: the stream is read to its end mark, and what it does not hold it says.
// spec-test: SRV-SHUTDOWN-1, SES-STOP-2, SES-STOP-5
#[test]
fn invariant_5_sigterm_ends_the_stream_in_order() -> anyhow::Result<()> {
    for mode in ["drop", "block"] {
        let mut load = Load::ours()?;
        let port = load.port()?;
        let request = if mode == "drop" { Collect::ticks(2, 1) } else { Collect::block(1) };
        let session = port.start_session(&request.message())?.drain();
        load.command("burst 2 1000")?;
        let (pid, before) = (load.pid(), processor_time(load.pid())?);
        load.send("burst 2 100000000")?;
        // So much work is events by the ten thousand, also in a slow build.
        let work = Duration::from_millis(100);
        await_condition("the producers", HANG, || processor_time(pid).is_ok_and(|now| now >= before + work))?;
        load.terminate(HANG)?;
        let facts = StreamFacts::of_bytes(&session.finish()?)?;
        say(&format!("sigterm, {mode}: {} events, {} lost, {}", facts.ticks(), facts.lost, facts.completion));
        ensure!(facts.completion == Completion::Complete, "{mode}: {}", facts.completion);
        ensure!(facts.ticks() > 2_000, "{mode}: {} ticks", facts.ticks());
        ensure!(facts.out_of_order == 0 && facts.warnings.is_empty(), "{mode}: {facts:?}");
        ensure!(facts.index_gaps <= facts.lost, "{mode}: {} gaps and {} lost", facts.index_gaps, facts.lost);
        ensure!(!port.path().exists(), "{} is still there", port.path().display());
    }
    Ok(())
}

/// The target is killed at random moments while our client records: the file holds every block that came whole, and both the client
/// and the reader say where it stops.
// spec-test: CLI-TRACE-3
#[test]
fn w19_a_recording_of_a_killed_target_is_cut_cleanly() -> anyhow::Result<()> {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64 | 1;
    say(&format!("a_recording_of_a_killed_target: seed {seed}"));
    let mut random = Random(seed);
    for round in 0..8 {
        cut_recording(&mut random).with_context(|| format!("seed {seed}, round {round}"))?;
    }
    Ok(())
}

fn cut_recording(random: &mut Random) -> anyhow::Result<()> {
    let mut load = Load::ours()?;
    // A target that dies while it is asked to go on is another failure than a recording that is cut.
    let tool = recorder(&load, "cut.nettrace", &["--resume-runtime", "false"])?;
    load.await_live(1, HANG)?;
    load.send("burst 2 100000000")?;
    let trace = load.folder().join("cut.nettrace");
    let wanted = random.below(3 << 20);
    await_condition("a part of the recording", HANG, || {
        trace.metadata().is_ok_and(|file| file.len() > wanted)
    })?;
    load.process().signal(Signal::KILL)?;
    let finished = tool.finish(HANG)?.expect_code(7)?;
    let bytes = trace.metadata()?.len();
    finished.expect_text(&format!("truncated at byte {bytes}"))?;
    let facts = StreamFacts::of_file(&trace)?;
    ensure!(facts.completion == Completion::Truncated { at_byte: bytes }, "{}", facts.completion);
    ensure!(
        (facts.lost, facts.index_gaps, facts.out_of_order) == (0, 0, 0) && facts.warnings.is_empty(),
        "{facts:?}"
    );
    ensure!(facts.ticks() > 0 || bytes < 100_000, "no event in {bytes} bytes");
    // No block is that large: without the end of the file fewer events are found, so at most a part of a block was left out.
    let bytes = std::fs::read(&trace)?;
    let shorter = StreamFacts::of_bytes(&bytes[..bytes.len().saturating_sub(200_000).max(102)])?;
    ensure!(facts.ticks() == 0 || shorter.ticks() < facts.ticks(), "the last 200,000 bytes hold no event");
    Ok(())
}

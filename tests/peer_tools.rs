//! Microsoft's released tools on our scripted target: what they print, how they end, and what they recorded.
//!
//! Each check names its row of the acceptance table (connect, record, stop, count, refuse). Skips with one line a
//! test where the tools are absent.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use support::background::{Finished, run};
use support::binary::diagport_command;
use support::judge::Judgement;
use support::load::{Load, LoadSetup, Target};
use support::peers::Peers;
use support::port::Ending;
use support::process_facts::open_files;
use support::requests::{BAD_ENCODING, Collect, UNKNOWN_COMMAND, message};
use support::stream_facts::StreamFacts;
use support::{HANG, say};

const TRACE: &str = "dotnet-trace";
const OLDER_TRACE: &str = "dotnet-trace@9.0.661903";
/// The judges: TraceEvent of today and two that people still have.
const JUDGES: [&str; 3] = ["tracecheck", "tracecheck@3.1.21", "tracecheck@2.0.56"];
/// What the tool says when it asks once more with less, because the first request was not understood.
const FELL_BACK: &str = ", retrying with the ";
const TICKS: &str = "Peer-Load:1:4";
/// Events of a block and more: so many may not be in a tool's file yet, for a block counts whole and a tool writes in pieces.
const IN_FLIGHT: u64 = 2_500;

/// Who ends a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    /// The tool, by its `--duration`.
    Tool,
    /// A person's Ctrl+C, once the work is done.
    Interrupt,
    /// The target, whom SIGTERM ends.
    TargetTerminated,
}

/// A recording: the tool, its arguments behind `collect` ({pid} and {port} stand for the target's), the target's work.
#[derive(Debug, Clone, Copy)]
struct Recording<'a> {
    tool: &'a str,
    arguments: &'a str,
    work: &'a [&'a str],
    ended_by: EndedBy,
}

/// Records, and looks at what every recording must show: it ends by itself and in time, says so, leaves a whole file,
/// and leaves the port as it was. Gives the time from the end of the work, or from the signal, to the end of the tool.
fn record(peers: &Peers, load: &mut Load, case: Recording<'_>, trace: &Path) -> anyhow::Result<Duration> {
    let arguments =
        case.arguments.replace("{pid}", &load.pid_text()).replace("{port}", &load.port()?.path_text());
    let trace_text = trace.to_str().context("path")?;
    let mut words = vec!["collect"];
    words.extend(arguments.split(' '));
    words.extend(["-o", trace_text]);
    let before = load.sessions()?;
    let tool = peers.start(case.tool, &words, load.folder())?;
    tool.expect_output("Output File", HANG)?;
    // A recording that ends by the clock may be over by now.
    if case.ended_by != EndedBy::Tool {
        load.await_live(before.live + 1, HANG)?;
    }
    for command in case.work {
        load.command(command)?;
    }
    let recorded = load.sessions()?.written - before.written;
    // A tool that gets no processor for the grace of a stop would be cut, and rightly; what is in flight waits for it in the socket.
    if case.ended_by != EndedBy::Tool && recorded > IN_FLIGHT {
        StreamFacts::await_ticks_in_file(trace, recorded - IN_FLIGHT)?;
    }
    let from = Instant::now();
    match case.ended_by {
        EndedBy::Tool => {}
        EndedBy::Interrupt => tool.signal(Signal::INT)?,
        EndedBy::TargetTerminated => terminate(load)?,
    }
    let finished = tool.finish(HANG)?.expect_code(0)?.expect_text("Trace completed.")?;
    let took = from.elapsed();
    ensure!(!finished.text().contains(FELL_BACK), "the tool fell back:\n{}", finished.text());
    let bytes = std::fs::read(trace)?;
    ensure!(bytes.starts_with(b"Nettrace"), "the file begins with {:02x?}", bytes.get(..8));
    ensure!(bytes.last() == Some(&1), "the file ends with {:02x?}", bytes.last());
    if case.ended_by != EndedBy::TargetTerminated {
        load.await_live(before.live, HANG)?;
        load.port()?.info_latency()?;
    }
    Ok(took)
}

/// Sends SIGTERM, and leaves it to the caller to see what that brings to an end.
fn terminate(load: &Load) -> anyhow::Result<()> {
    let pid = Pid::from_raw(i32::try_from(load.pid())?).context("pid 0")?;
    kill_process(pid, Signal::TERM).context("SIGTERM to the target")
}

/// One recording on a fresh target.
fn check(
    name: &str,
    case: Recording<'_>,
    judge: impl FnOnce(&Peers, &mut Load, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip(name, &[case.tool, "tracecheck"]) else { return Ok(()) };
    let mut load = Load::ours()?;
    let trace = load.folder().join("a.nettrace");
    record(peers, &mut load, case, &trace).with_context(|| format!("{name}: {case:?}"))?;
    judge(peers, &mut load, &trace).with_context(|| format!("{name}: {case:?}"))
}

/// Our reader and all three generations of TraceEvent agree on what arrived and what was lost.
fn everybody_counts(peers: &Peers, trace: &Path, received: u64, lost: u64) -> anyhow::Result<()> {
    let facts = StreamFacts::of_file(trace)?;
    ensure!(
        (facts.ticks(), facts.lost) == (received, lost),
        "our reader: {} + {} lost",
        facts.ticks(),
        facts.lost
    );
    ensure!(facts.out_of_order == 0 && facts.warnings.is_empty(), "our reader: {facts:?}");
    for judge in JUDGES {
        let judgement = Judgement::of(peers, judge, trace, &[])?;
        let found = (judgement.count_id("Peer-Load", 1), judgement.lost());
        ensure!(judgement.error().is_none(), "{judge}: {}", judgement.summary);
        ensure!(
            found == (received, i64::try_from(lost)?),
            "{judge}: {found:?}, wanted {received} + {lost} lost"
        );
        ensure!(judgement.out_of_order() == 0, "{judge}: {} out of order", judgement.out_of_order());
    }
    Ok(())
}

/// Their `ps`, once more where a process that it had just found was gone before it had its name: it gives up then, whosever process that was.
fn their_ps(peers: &Peers, home: &Path) -> anyhow::Result<Finished> {
    let until = Instant::now() + HANG;
    loop {
        let finished = peers.run(TRACE, &["ps"], home)?;
        if Instant::now() >= until || !finished.text().contains("Process has exited") {
            return finished.expect_code(0);
        }
    }
}

// Rows 1 and 2.
#[test]
fn ps_lists_the_target_while_it_lives() -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip("ps_lists_the_target_while_it_lives", &[TRACE]) else { return Ok(()) };
    let load = Load::ours()?;
    let home = support::temp_folder()?;
    let row = |pid: &str| -> anyhow::Result<Option<String>> {
        let listed = their_ps(peers, home.path())?.out();
        Ok(listed.lines().find(|line| line.split_whitespace().next() == Some(pid)).map(str::to_owned))
    };
    let pid = load.pid_text();
    let found = row(&pid)?.context("no row of the target")?;
    ensure!(found.contains("diagport"), "the row does not name the program: {found}");
    load.exit(HANG)?.expect_code(0)?;
    let found = row(&pid)?;
    ensure!(found.is_none(), "still listed after its exit: {found:?}");
    Ok(())
}

// Rows 3, 4 and 8, with both generations of the tool.
#[test]
fn recordings_that_end_by_their_duration() -> anyhow::Result<()> {
    for (tool, arguments) in [
        (TRACE, "-p {pid} --duration 00:00:00:01"),
        (OLDER_TRACE, "-p {pid} --duration 00:00:00:01"),
        (TRACE, "--diagnostic-port {port},connect --duration 00:00:00:01"),
        (TRACE, "-p {pid} --profile gc-collect --duration 00:00:00:01"),
        (TRACE, "-p {pid} --providers Peer-Load:1:4 --rundown false --duration 00:00:00:01"),
    ] {
        let case = Recording { tool, arguments, work: &["tick 20 1"], ended_by: EndedBy::Tool };
        check("recordings_that_end_by_their_duration", case, |peers, _, trace| {
            let judgement = Judgement::of(peers, "tracecheck", trace, &[])?;
            ensure!(judgement.error().is_none() && judgement.lost() == 0, "{}", judgement.summary);
            Ok(())
        })?;
    }
    Ok(())
}

// Rows 5 and 6: exact counts, field names and values, and a quick end after Ctrl+C.
// spec-test: SES-FIELD-1, SES-STREAM-2
#[test]
fn ticks_arrive_with_their_payload() -> anyhow::Result<()> {
    let name = "ticks_arrive_with_their_payload";
    for tool in [TRACE, OLDER_TRACE] {
        let case = Recording {
            tool,
            arguments: "-p {pid} --providers Peer-Load:1:5",
            work: &["tick 100 3"],
            ended_by: EndedBy::Interrupt,
        };
        check(name, case, |peers, load, trace| {
            everybody_counts(peers, trace, 300, 0)?;
            let judgement = Judgement::of(peers, "tracecheck", trace, &["--payload", "Peer-Load"])?;
            ensure!(judgement.summary["pid"] == load.pid(), "pid: {}", judgement.summary["pid"]);
            ensure!(judgement.payloads.len() == 300, "{} payloads", judgement.payloads.len());
            for (index, event) in judgement.payloads.iter().enumerate() {
                let wanted = serde_json::json!({ "index": index.to_string(), "thread": "0", "text": "tick-tick-tick-t" });
                ensure!(event["name"] == "Tick" && event["fields"] == wanted, "event {index} is {event}");
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn nested_activities_arrive_in_order() -> anyhow::Result<()> {
    let case = Recording {
        tool: TRACE,
        arguments: "-p {pid} --providers Peer-Load:3:4",
        work: &["activity 50"],
        ended_by: EndedBy::Interrupt,
    };
    check("nested_activities_arrive_in_order", case, |peers, _, trace| {
        let judgement = Judgement::of(peers, "tracecheck", trace, &["--payload", "Peer-Load"])?;
        ensure!(judgement.payloads.len() == 250, "{}", judgement.summary);
        for (index, event) in judgement.payloads.iter().enumerate() {
            let wanted = [2, 4, 1, 5, 3][index % 5];
            ensure!(event["id"] == wanted, "event {index} should have id {wanted}: {event}");
        }
        Ok(())
    })
}

#[test]
fn control_c_ends_a_recording_soon() -> anyhow::Result<()> {
    let name = "control_c_ends_a_recording_soon";
    let Some(peers) = Peers::or_skip(name, &[TRACE]) else { return Ok(()) };
    let mut load = Load::ours()?;
    let trace = load.folder().join("a.nettrace");
    let case = Recording { tool: TRACE, arguments: "-p {pid}", work: &[], ended_by: EndedBy::Interrupt };
    let took = record(peers, &mut load, case, &trace)?;
    say(&format!("{name}: it ended {took:?} after the signal (promised 5 s)"));
    ensure!(took < Duration::from_secs(15), "it ended {took:?} after the signal");
    Ok(())
}

// Row 7.
// spec-test: SRV-SHUTDOWN-1, SES-STREAM-4
#[test]
fn a_recording_survives_the_end_of_its_target() -> anyhow::Result<()> {
    let case = Recording {
        tool: TRACE,
        arguments: "-p {pid} --providers Peer-Load:1:4",
        work: &["tick 100 1"],
        ended_by: EndedBy::TargetTerminated,
    };
    check("a_recording_survives_the_end_of_its_target", case, |peers, load, trace| {
        support::await_condition("no port of the target", HANG, || load.port_file().is_err())?;
        everybody_counts(peers, trace, 100, 0)
    })
}

// Row 9: nothing is lost in Block mode, however small the buffer.
// spec-test: SES-BLOCK-1
#[test]
fn block_mode_delivers_a_million_events() -> anyhow::Result<()> {
    let case = Recording {
        tool: TRACE,
        arguments: "-p {pid} --providers Peer-Load:1:4 --buffering-mode Block --buffersize 1",
        work: &["burst 2 500000"],
        ended_by: EndedBy::Interrupt,
    };
    check("block_mode_delivers_a_million_events", case, |peers, load, trace| {
        everybody_counts(peers, trace, 1_000_000, 0)?;
        let judgement = Judgement::of(peers, "tracecheck", trace, &["--contiguous", "Peer-Load", "index"])?;
        let figures =
            ["events", "threads", "gaps", "repeats", "back", "notFromZero"].map(|f| judgement.contiguous(f));
        ensure!(figures == [1_000_000, 2, 0, 0, 0, 0], "contiguous: {figures:?}");
        let counts = load.sessions()?;
        ensure!((counts.emitted, counts.written, counts.dropped) == (1_000_000, 1_000_000, 0), "{counts:?}");
        Ok(())
    })
}

// What Drop mode loses is counted to the event, by everybody.
// spec-test: SES-LOSS-1
#[test]
fn drop_mode_counts_its_loss_exactly() -> anyhow::Result<()> {
    for work in [["burst 2 500000"], ["churn 1000 1000"]] {
        let case = Recording {
            tool: TRACE,
            arguments: "-p {pid} --providers Peer-Load:1:4 --buffersize 1",
            work: &work,
            ended_by: EndedBy::Interrupt,
        };
        check("drop_mode_counts_its_loss_exactly", case, |peers, load, trace| {
            let counts = load.sessions()?;
            say(&format!("drop_mode_counts_its_loss_exactly: {work:?}: {counts:?}"));
            ensure!(counts.emitted == 1_000_000, "{counts:?}");
            ensure!(counts.written + counts.dropped == counts.emitted, "{counts:?}");
            everybody_counts(peers, trace, counts.written, counts.dropped)
        })?;
    }
    Ok(())
}

// Row 13.
#[test]
fn a_child_of_the_tool_is_recorded_from_its_start() -> anyhow::Result<()> {
    let name = "a_child_of_the_tool_is_recorded_from_its_start";
    let Some(peers) = Peers::or_skip(name, &[TRACE]) else { return Ok(()) };
    let home = support::temp_folder()?;
    let binary = support::binary::diagport()?.to_str().context("path")?;
    let arguments = ["collect", "--duration", "00:00:00:01", "-o", "c.nettrace", "--", binary, "load"];
    let finished = peers.run(TRACE, &arguments, home.path())?;
    ensure!(!finished.text().contains("failed to connect"), "{}", finished.text());
    let finished = finished.expect_text("Trace completed.")?;
    let facts = StreamFacts::of_file(&home.path().join("c.nettrace"))?;
    ensure!(facts.lost == 0, "{facts:?} {}", finished.text());
    Ok(())
}

// Row 14.
// spec-test: SRV-CONNECT-1
#[test]
fn a_tool_that_listens_is_served() -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip("a_tool_that_listens_is_served", &[TRACE, "tracecheck"]) else {
        return Ok(());
    };
    let home = support::temp_folder()?;
    let socket = home.path().join("tool.sock");
    let socket = socket.to_str().context("path")?;
    let trace = home.path().join("l.nettrace");
    let trace_text = trace.to_str().context("path")?;
    let arguments = ["collect", "--diagnostic-port", socket, "--providers", TICKS, "-o", trace_text];
    let tool = peers.start(TRACE, &arguments, home.path())?;
    tool.expect_output("Waiting for connection", HANG)?;
    let mut load =
        LoadSetup::new(Target::Ours).env("DOTNET_DiagnosticPorts", format!("{socket},nosuspend")).start()?;
    tool.expect_output("Output File", HANG)?;
    load.await_live(1, HANG)?;
    load.command("tick 100 1")?;
    tool.signal(Signal::INT)?;
    tool.finish(HANG)?.expect_code(0)?.expect_text("Trace completed.")?;
    everybody_counts(peers, &trace, 100, 0)
}

// Rows 15 and 16: many sessions, two at a time, leave nothing behind.
// spec-test: SES-LIFE-6
#[test]
fn fifty_sessions_leave_no_file_open() -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip("fifty_sessions_leave_no_file_open", &[TRACE]) else { return Ok(()) };
    let mut load = Load::ours()?;
    let port = load.port()?;
    port.info_latency()?;
    let before = open_files(load.pid())?;
    for round in 0..25 {
        let start = |name: &str| {
            let pid = load.pid_text();
            peers.start(TRACE, &["collect", "-p", &pid, "--providers", TICKS, "-o", name], load.folder())
        };
        let tools = [start("a.nettrace")?, start("b.nettrace")?];
        for tool in &tools {
            tool.expect_output("Output File", HANG)?;
        }
        load.await_live(2, HANG)?;
        load.command("burst 1 50")?;
        for tool in &tools {
            tool.signal(Signal::INT)?;
        }
        for tool in tools {
            tool.finish(HANG)?
                .expect_code(0)?
                .expect_text("Trace completed.")
                .with_context(|| format!("round {round}"))?;
        }
        load.await_live(0, HANG)?;
        for name in ["a.nettrace", "b.nettrace"] {
            let facts = StreamFacts::of_file(&load.folder().join(name))?;
            ensure!((facts.ticks(), facts.lost) == (50, 0), "round {round}, {name}: {facts:?}");
        }
    }
    let after = || open_files(load.pid()).unwrap_or(usize::MAX);
    support::await_condition("the open files of the start", HANG, || after() <= before)
        .with_context(|| format!("{before} before, {} after", after()))?;
    Ok(())
}

// Row 17.
#[test]
fn a_killed_tool_is_forgotten() -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip("a_killed_tool_is_forgotten", &[TRACE]) else { return Ok(()) };
    let mut load = Load::ours()?;
    let pid = load.pid_text();
    let tool = peers.start(
        TRACE,
        &["collect", "-p", &pid, "--providers", TICKS, "-o", "k.nettrace"],
        load.folder(),
    )?;
    load.await_live(1, HANG)?;
    tool.signal(Signal::KILL)?;
    let took = load.await_live(0, Duration::from_secs(10))?;
    say(&format!("a_killed_tool_is_forgotten: its session ended after {took:?} (promised 1 s)"));
    drop(tool);
    let trace = load.folder().join("a.nettrace");
    let case = Recording {
        tool: TRACE,
        arguments: "-p {pid} --duration 00:00:00:01",
        work: &[],
        ended_by: EndedBy::Tool,
    };
    record(peers, &mut load, case, &trace)?;
    Ok(())
}

/// A tool whose feature the target lacks: it ends by itself, and the port is as healthy as before.
fn check_refused(
    name: &str,
    tool: &str,
    arguments: &[&str],
    limit: Duration,
    judge: impl FnOnce(&Finished, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip(name, &[tool]) else { return Ok(()) };
    let mut load = Load::ours()?;
    let pid = load.pid_text();
    let words: Vec<&str> =
        arguments.iter().map(|word| if *word == "{pid}" { pid.as_str() } else { word }).collect();
    let finished = peers.start(tool, &words, load.folder())?.finish(limit)?;
    say(&format!("{name}: {tool} ended after {:?} with {:?}", finished.elapsed, finished.code));
    judge(&finished, load.folder()).with_context(|| finished.text())?;
    load.await_live(0, HANG)?;
    load.port()?.info_latency()?;
    Ok(())
}

// Row 30.
#[test]
fn gcdump_without_a_heap_fails_and_does_not_hang() -> anyhow::Result<()> {
    check_refused(
        "gcdump_without_a_heap_fails_and_does_not_hang",
        "dotnet-gcdump",
        &["collect", "-p", "{pid}"],
        2 * HANG,
        |finished, _| {
            ensure!(finished.text().contains("Failed to collect gcdump"), "no word of failure");
            Ok(())
        },
    )
}

// Row 32.
// spec-test: SRV-DUMP-2
#[test]
fn dump_is_refused_with_our_words() -> anyhow::Result<()> {
    check_refused(
        "dump_is_refused_with_our_words",
        "dotnet-dump",
        &["collect", "-p", "{pid}"],
        HANG,
        |finished, _| {
            let text = finished.text();
            ensure!(finished.code != Some(0), "it exited with 0");
            ensure!(text.contains("not supported"), "our reason is not shown");
            ensure!(!text.contains("Unhandled exception"), "it crashed");
            Ok(())
        },
    )
}

#[test]
fn stack_ends_by_itself() -> anyhow::Result<()> {
    check_refused("stack_ends_by_itself", "dotnet-stack", &["report", "-p", "{pid}"], HANG, |finished, _| {
        ensure!(finished.code == Some(0), "exit code {:?}", finished.code);
        Ok(())
    })
}

#[test]
fn counters_end_by_themselves() -> anyhow::Result<()> {
    let arguments =
        ["collect", "-p", "{pid}", "--duration", "00:00:00:02", "--counters", "Peer.Meter", "-o", "c.csv"];
    check_refused("counters_end_by_themselves", "dotnet-counters", &arguments, HANG, |finished, folder| {
        ensure!(finished.code == Some(0), "exit code {:?}", finished.code);
        ensure!(finished.text().contains("File saved to"), "no file was saved");
        let csv = std::fs::read_to_string(folder.join("c.csv"))?;
        ensure!(csv.starts_with("Timestamp,Provider"), "the file begins with {csv:?}");
        Ok(())
    })
}

// Rows 43 and 44: 24 bytes, the code, and the end.
#[test]
fn bad_requests_get_a_code_and_the_end() -> anyhow::Result<()> {
    let load = Load::ours()?;
    let port = load.port()?;
    let whole = Collect::ticks(2, 16).payload();
    for (request, code) in [
        (message((0x02, 0x03), &whole[..whole.len() / 2]), BAD_ENCODING),
        (message((0x04, 0x7F), &[]), UNKNOWN_COMMAND),
    ] {
        let mut conversation = port.connect()?;
        conversation.send(&request)?;
        let (bytes, ending) = conversation.receive_until_closed(HANG)?;
        let reply = support::port::Reply::parse(&bytes).context("no reply")?.0;
        ensure!(bytes.len() == 24 && ending == Ending::Closed, "{} bytes, then {ending:?}", bytes.len());
        ensure!(reply.error_code() == Some(code), "{reply} instead of {code:08x}");
        port.info_latency()?;
    }
    Ok(())
}

/// The recording that a newcomer opens first: TraceEvent finds every event of it.
// spec-test: SES-BLOCK-1
#[test]
fn the_demonstrations_recording_is_whole() -> anyhow::Result<()> {
    let name = "the_demonstrations_recording_is_whole";
    let Some(peers) = Peers::or_skip(name, &["tracecheck"]) else { return Ok(()) };
    let home = support::temp_folder()?;
    let mut command = diagport_command(&["demo"])?;
    command.current_dir(home.path()).env("TMPDIR", home.path());
    let finished = run(command, 2 * HANG)?.expect_code(0)?;
    let judgement = Judgement::of(peers, "tracecheck", &home.path().join("demo.nettrace"), &[])?;
    let found = ["Demo-Web", "Demo-Store"].map(|provider| [1, 2].map(|id| judgement.count_id(provider, id)));
    ensure!(
        judgement.error().is_none() && judgement.lost() == 0 && found == [[500_000; 2]; 2],
        "{found:?} in {}\n{}",
        judgement.summary,
        finished.text()
    );
    Ok(())
}

/// A trace that a person opens later: kept out of the way of other tests by its own folder.
#[test]
fn a_trace_converts_without_a_broken_notice() -> anyhow::Result<()> {
    let case = Recording {
        tool: TRACE,
        arguments: "-p {pid} --providers Peer-Load:1:4",
        work: &["burst 2 1000"],
        ended_by: EndedBy::Interrupt,
    };
    check("a_trace_converts_without_a_broken_notice", case, |peers, load, trace| {
        let file: PathBuf = trace.to_path_buf();
        let file = file.to_str().context("path")?;
        let finished =
            peers.run(TRACE, &["convert", file, "--format", "Speedscope"], load.folder())?.expect_code(0)?;
        ensure!(!finished.text().contains("broken trace"), "{}", finished.text());
        finished.expect_text("Conversion complete")?;
        Ok(())
    })
}

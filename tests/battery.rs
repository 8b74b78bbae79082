//! `vectors/ipc/battery.jsonl`: 190 requests, valid and not, each with the answer of real .NET 11.0.0, held against our target.
//!
//! Every line must get the same code, except those of [`EXCEPTIONS`], each with its reason. Where a real runtime leaves a
//! connection open after an error, ours must close it. Then the whole battery again and again: nothing may stay behind.
#![forbid(unsafe_code)]

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use support::load::{Load, LoadSetup, Target};
use support::port::{Ending, Port, Reply};
use support::process_facts::{memory_is_the_products, open_files, resident_bytes};
use support::requests::{bytes_from_hex, hex};
use support::{HANG, say, workspace_root};

const REFERENCE: &str = "11.0.0";
/// The 102 bytes that begin every stream, as far as they are the same for all.
const STREAM_HEAD: &[u8] =
    b"Nettrace\x14\0\0\0!FastSerialization.1\x05\x05\x01\x04\0\0\0\x04\0\0\0\x05\0\0\0Trace\x06";

/// What an answer comes down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Success without a session.
    Ok,
    /// A session and its stream.
    Session,
    /// An error with its code.
    Error(u32),
    /// No answer at all.
    Nothing,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Session => f.write_str("a session"),
            Self::Error(code) => write!(f, "error {code:08x}"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

const BAD_ENCODING: Outcome = Outcome::Error(support::requests::BAD_ENCODING);
const UNKNOWN_MAGIC: Outcome = Outcome::Error(support::requests::UNKNOWN_MAGIC);
const INVALID_ARGUMENT: Outcome = Outcome::Error(0x8007_0057);
const NOT_SUPPORTED: Outcome = Outcome::Error(0x8013_1515);

/// Lines of these names get another answer than 11.0.0's: that answer, and why.
const EXCEPTIONS: &[(&str, Outcome, &str)] = &[
    (
        "header-http",
        UNKNOWN_MAGIC,
        "magic is judged as soon as the header is in, not after a payload that never comes",
    ),
    ("info-0404-with-payload", Outcome::Ok, "a payload that no one asked for is ignored, not echoed"),
    ("setenv-name-with-equals", INVALID_ARGUMENT, "a name with = cannot be read back"),
    ("perfmap-4294967295", INVALID_ARGUMENT, "as any other kind beyond 3"),
    ("perfmap-1", NOT_SUPPORTED, "the target writes no perf map"),
    ("perfmap-off-payload", NOT_SUPPORTED, "the target writes no perf map"),
    ("perfmap-off", NOT_SUPPORTED, "the target writes no perf map"),
    ("hook-missing-file", NOT_SUPPORTED, "the target loads no startup hook"),
    ("hook-relative", NOT_SUPPORTED, "the target loads no startup hook"),
    ("dump1-null-name", BAD_ENCODING, "11.0.0 dies of it"),
    ("dump2-null-name", BAD_ENCODING, "11.0.0 dies of it"),
    ("dump3-null-name", BAD_ENCODING, "11.0.0 dies of it"),
    ("dump1-unwritable", NOT_SUPPORTED, "the target writes no dumps"),
    ("dump2-unwritable", NOT_SUPPORTED, "the target writes no dumps"),
    ("dump3-mini-ok", NOT_SUPPORTED, "the target writes no dumps"),
    ("profiler-attach-missing-library", NOT_SUPPORTED, "the target takes no profiler"),
    ("profiler-attach-data-shorter", NOT_SUPPORTED, "the target takes no profiler"),
    ("profiler-startup", NOT_SUPPORTED, "the target takes no profiler"),
    ("collect1-format-netperf", NOT_SUPPORTED, "NetPerf is understood and refused"),
    ("collect2-format-netperf", NOT_SUPPORTED, "NetPerf is understood and refused"),
    ("collect3-format-netperf", NOT_SUPPORTED, "NetPerf is understood and refused"),
    ("collect5-format-netperf", NOT_SUPPORTED, "NetPerf is understood and refused"),
    ("collect6-format-netperf", NOT_SUPPORTED, "NetPerf is understood and refused"),
];

#[derive(Debug)]
struct Line {
    name: String,
    request: Vec<u8>,
    half_close: bool,
    wanted: Outcome,
}

fn battery() -> anyhow::Result<Vec<Line>> {
    let path = workspace_root().join("tests/vectors/ipc/battery.jsonl");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    text.lines()
        .map(|line| Line::parse(line).with_context(|| line.chars().take(80).collect::<String>()))
        .collect()
}

impl Line {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let name = value["name"].as_str().context("name")?.to_owned();
        let request = bytes_from_hex(value["request"].as_str().context("request")?)?;
        let reference = &value["replies"][REFERENCE];
        let exception = EXCEPTIONS.iter().find(|(other, ..)| name == *other);
        let wanted = match exception {
            Some((_, outcome, _)) => *outcome,
            None => recorded(reference["reply"].as_str().unwrap_or_default())?,
        };
        Ok(Self { name, request, half_close: value["half_close"] == true, wanted })
    }
}

/// The outcome that a recorded reply stands for. Session ids are blanked out in the recording.
fn recorded(reply: &str) -> anyhow::Result<Outcome> {
    if reply.contains("<session id>") {
        return Ok(Outcome::Session);
    }
    // Process names and the like are blanked out too, behind the header.
    let digits: String = reply.chars().take_while(char::is_ascii_hexdigit).collect();
    let bytes = bytes_from_hex(&digits[..digits.len() / 2 * 2])?;
    match (bytes.get(16), bytes.get(17), bytes.get(20..24).and_then(|code| code.first_chunk::<4>())) {
        (Some(0xFF), Some(0xFF), Some(code)) => Ok(Outcome::Error(u32::from_le_bytes(*code))),
        (Some(0xFF), Some(0x00), _) => Ok(Outcome::Ok),
        (None, ..) => Ok(Outcome::Nothing),
        _ => bail!("the recording holds {reply}"),
    }
}

/// Sends one line and says what came. Anything but a session must be followed by a clean end; a session is stopped.
fn ask(port: &Port, line: &Line) -> anyhow::Result<Outcome> {
    let mut conversation = port.connect()?;
    conversation.send(&line.request)?;
    if line.half_close {
        conversation.half_close()?;
    }
    let reply: Reply = conversation.receive_reply(HANG)?;
    let is_collect =
        line.request.get(16) == Some(&2) && line.request.get(17).is_some_and(|id| (2..=7).contains(id));
    if let Some(id) = reply.session_id().filter(|_| is_collect) {
        let head = conversation.receive_exact(STREAM_HEAD.len(), HANG)?;
        ensure!(head == STREAM_HEAD, "the stream begins with {}", hex(&head));
        port.stop(id)?;
        let (rest, ending) = conversation.receive_until_closed(HANG)?;
        ensure!(ending == Ending::Closed && rest.last() == Some(&1), "the stream ended with {ending:?}");
        return Ok(Outcome::Session);
    }
    let (rest, ending) = conversation.receive_until_closed(HANG)?;
    // ProcessEnvironment alone sends more than its reply.
    let has_more = reply.is_ok() && line.request.get(16..18) == Some(&[4, 2]);
    ensure!(rest.is_empty() || has_more, "{reply} was followed by {}", hex(&rest));
    ensure!(ending == Ending::Closed, "after {reply} the connection was {ending:?}");
    Ok(reply.error_code().map_or(Outcome::Ok, Outcome::Error))
}

// spec-test: ERR-MAP-1, SRV-CLOSE-1, SRV-SESSION-7, SRV-PERF-1, SRV-SETENV-1
#[test]
fn every_line_is_answered_as_promised() -> anyhow::Result<()> {
    let load = Load::ours()?;
    let port = load.port()?;
    let lines = battery()?;
    ensure!(lines.len() >= 190, "only {} lines", lines.len());
    let mut differences = Vec::new();
    for line in &lines {
        match ask(&port, line) {
            Ok(found) if found == line.wanted => {}
            Ok(found) => differences.push(format!("{}: {found}, wanted {}", line.name, line.wanted)),
            Err(error) => differences.push(format!("{}: {error:#}, wanted {}", line.name, line.wanted)),
        }
        port.info_latency().with_context(|| format!("the port after {}", line.name))?;
    }
    ensure!(differences.is_empty(), "{} of {}:\n{}", differences.len(), lines.len(), differences.join("\n"));
    Ok(())
}

#[test]
fn every_exception_names_a_line() -> anyhow::Result<()> {
    let lines = battery()?;
    for (name, _, reason) in EXCEPTIONS {
        ensure!(lines.iter().any(|line| line.name == *name), "{name} ({reason}) is no line of the battery");
    }
    Ok(())
}

// spec-test: SRV-CLOSE-2
#[test]
fn a_hundred_batteries_leave_nothing_behind() -> anyhow::Result<()> {
    const ROUNDS: usize = 100;
    // One arena: which threads share one of several is chance, and each newly used one costs megabytes.
    let mut load = LoadSetup::new(Target::Ours).env("MALLOC_ARENA_MAX", "1").start()?;
    let port = load.port()?;
    let lines = battery()?;
    let round = || -> anyhow::Result<()> {
        for line in &lines {
            ask(&port, line).with_context(|| line.name.clone())?;
        }
        Ok(())
    };
    // The first rounds fill caches of the allocator and of the thread pool; from then on nothing may grow.
    for _ in 0..5 {
        round()?;
    }
    let (files, memory) = (open_files(load.pid())?, resident_bytes(load.pid())?);
    let from = std::time::Instant::now();
    for _ in 0..ROUNDS {
        round()?;
    }
    let took = from.elapsed();
    let now = || open_files(load.pid()).unwrap_or(usize::MAX);
    support::await_condition("the open files of the start", HANG, || now() <= files)
        .with_context(|| format!("{files} files before, {} after", now()))?;
    let after = resident_bytes(load.pid())?;
    say(&format!(
        "a_hundred_batteries_leave_nothing_behind: {} requests in {took:?}, memory {memory} -> {after} bytes, {files} files",
        ROUNDS * lines.len()
    ));
    ensure!(
        !memory_is_the_products() || after < memory + memory / 10 + (4 << 20),
        "memory grew from {memory} to {after} bytes"
    );
    load.await_live(0, HANG).context("sessions stayed")?;
    Ok(())
}

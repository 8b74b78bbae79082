//! The same option line makes the same request: what `diagport trace` sends, beside what the released tool sends.
#![forbid(unsafe_code)]

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail, ensure};
use support::HANG;
use support::background::{Finished, run};
use support::binary::diagport_command;
use support::peers::Peers;
use support::port::{Conversation, Port};
use support::requests::{FAIL, hex, message};

const TRACE: &str = "dotnet-trace";
/// Lines at a time: most of a tool's run is its start.
const AT_ONCE: usize = 3;
/// The command set of everything that starts or ends a recording.
const EVENT_PIPE: u8 = 0x02;
const ERROR: (u8, u8) = (0xFF, 0xFF);
/// No command of anybody: it tells the recording port that all is said.
const FAREWELL: (u8, u8) = (0xEE, 0xEE);

/// Words that both tools understand and that end in a request. `''` is the empty word.
const ACCEPTED: &[&str] = &[
    "--duration 00:00:00:01",
    "--providers Peer-Load:1:4",
    "--providers Peer-Load",
    "--providers Peer-Load:1:Verbose",
    "--providers A:0x10:5:k=v;k2=v2",
    "--providers A:10::k=v,B:FF",
    r#"--providers A:1:4:F="a=b;c";x=y"#,
    r#"--providers Microsoft-Diagnostics-DiagnosticSource:0x3:5:FilterAndPayloadSpecs="x/y:-a=b;c""#,
    "--profile gc-verbose",
    "--profile gc-collect",
    "--profile database",
    "--profile dotnet-common",
    "--profile dotnet-sampled-thread-time",
    "--profile gc-collect,gc-verbose",
    "--profile gc-verbose,database",
    "--profile gc-collect --providers Peer-Load:1:4",
    "--profile gc-verbose --providers Microsoft-Windows-DotNETRuntime:1:1",
    "--clrevents gc+jit --clreventlevel 5",
    "--clrevents gc",
    "--clrevents gc+loader+exception --clreventlevel Verbose",
    "--clrevents gc --profile gc-verbose",
    "--clrevents gc --providers A:1:1",
    "--clrevents gcsampledobjectallocationhigh+allocationsampling+waithandle",
    "--buffersize 1 --providers A",
    "--buffersize 512 --rundown false --providers A",
    "--rundown true --providers A",
    "--rundown true --profile gc-collect",
    "--rundown false",
    "--rundown false --profile gc-collect",
    "--buffering-mode Block --providers A",
    "--buffering-mode Block --profile gc-collect",
    "--buffering-mode 1 --providers A",
    "--buffering-mode drop --providers A",
    "--buffering-mode Block --rundown false --providers A:1:4",
    "--providers A:1:4,B:2:3",
    "--providers A:1:4,A:2:5",
    "--providers A:1:9",
    "--providers A:1:0",
    "--providers A:FFFFFFFFFFFFFFFF:5",
    "--providers '' --clrevents gc",
    "--profile dotnet-common,dotnet-sampled-thread-time --clrevents gc",
];

/// Answers every request with a failure that no tool takes for a reason to ask in another way, and keeps the requests.
fn serve(listener: &UnixListener) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut requests = Vec::new();
    loop {
        let mut conversation = Conversation::from(listener.accept()?.0);
        // A tool that only looks whether somebody listens says nothing.
        let Ok(mut request) = conversation.receive_exact(20, HANG) else { continue };
        let size = usize::from(u16::from_le_bytes([request[14], request[15]]));
        ensure!(size >= 20, "a request of size {size}");
        request.extend(conversation.receive_exact(size - 20, HANG)?);
        if (request[16], request[17]) == FAREWELL {
            return Ok(requests);
        }
        conversation.send(&message(ERROR, &FAIL.to_le_bytes()))?;
        requests.push(request);
    }
}

/// The first request to record that a tool sends, and how the tool ended.
fn first_request(
    line: &str,
    tool: impl FnOnce(&[&str], &std::path::Path) -> anyhow::Result<Command>,
) -> anyhow::Result<(Option<Vec<u8>>, Finished)> {
    let home = support::temp_folder()?;
    let socket = home.path().join("r.sock");
    let listener = UnixListener::bind(&socket)?;
    let port = format!("{},connect", socket.to_str().context("path")?);
    let mut words = vec!["--diagnostic-port", &port, "-o", "a.nettrace"];
    words.extend(line.split(' ').map(|word| if word == "''" { "" } else { word }));
    let command = tool(&words, home.path())?;
    let server = std::thread::spawn(move || serve(&listener));
    let finished = run(command, HANG);
    Port::new(socket).connect()?.send(&message(FAREWELL, &[]))?;
    let Ok(requests) = server.join() else { bail!("the recording port panicked") };
    let request = requests?.into_iter().find(|request| request[16] == EVENT_PIPE);
    Ok((request, finished?))
}

fn check(peers: &Peers, line: &str) -> anyhow::Result<()> {
    let (theirs, said) =
        first_request(line, |words, home| Ok(peers.command(TRACE, &[&["collect"], words].concat(), home)))?;
    let theirs = theirs.with_context(|| format!("{TRACE} sent nothing: {}", said.text()))?;
    let (ours, said) = first_request(line, |words, home| {
        let mut command = diagport_command(&[&["trace"], words].concat())?;
        command.current_dir(home).env("TMPDIR", home);
        Ok(command)
    })?;
    let ours = ours.with_context(|| format!("we sent nothing: {}", said.text()))?;
    ensure!(ours == theirs, "\n  theirs {}\n  ours   {}", hex(&theirs), hex(&ours));
    Ok(())
}

// spec-test: CLI-COLLECT-1
#[test]
fn the_same_options_make_the_same_request() -> anyhow::Result<()> {
    let Some(peers) = Peers::or_skip("the_same_options_make_the_same_request", &[TRACE]) else {
        return Ok(());
    };
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(line) = ACCEPTED.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = check(peers, line) {
                        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        failures.push(format!("{line}: {error:#}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failures.is_empty(), "{} of {} lines:\n{}", failures.len(), ACCEPTED.len(), failures.join("\n"));
    Ok(())
}

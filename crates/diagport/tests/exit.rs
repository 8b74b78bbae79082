//! A program that exits without a word to its diagnostics: its startup session leaves a whole file. The program is this test, started again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::process::{Command, exit};
use std::time::{Duration, Instant};

use diagport::{Diagnostics, EventDefinition, WriteOutcome};
use diagport_nettrace::Completion;
use support::facts;

/// What the program is to do, where this is the program.
const PROGRAM: &str = "DIAGPORT_EXIT_TEST";
const EVENTS: i64 = 50_000;
const CODE: i32 = 42;

fn program(way: &str) {
    // Kept, whichever way the program ends.
    let diagnostics = Box::leak(Box::new(Diagnostics::builder().start_blocking().unwrap()));
    let tick = diagnostics
        .pipe()
        .provider("Test")
        .define::<(i64,)>(EventDefinition::new(1, "Tick").keywords(1), ["index"])
        .unwrap();
    let write = || (0..EVENTS).for_each(|index| assert_eq!(tick.write((index,)), WriteOutcome::Written));
    match way {
        "this thread" => {
            write();
            exit(CODE);
        }
        "another thread" => {
            write();
            std::thread::spawn(|| exit(CODE)).join().unwrap();
        }
        "inside a runtime" => {
            write();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async { exit(CODE) });
        }
        _ => unreachable!("{way}"),
    }
}

fn check(way: &str, streaming: &str, buffering_mode: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nettrace");
    let begin = Instant::now();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_that_exits_leaves_a_whole_file"])
        .env(PROGRAM, way)
        .env("TMPDIR", folder.path())
        .envs([("DOTNET_EnableEventPipe", "1"), ("DOTNET_EventPipeConfig", "Test:1:4")])
        .envs([
            ("DOTNET_EventPipeOutputStreaming", streaming),
            ("DOTNET_EventPipeBufferingMode", buffering_mode),
        ])
        .env("DOTNET_EventPipeOutputPath", &file)
        .output()
        .unwrap();
    let case = format!("{way}, streaming {streaming}, mode {buffering_mode}");
    assert_eq!(status.status.code(), Some(CODE), "{case}: {status:?}");
    assert_eq!(facts(&file), (EVENTS as usize, 0, Completion::Complete), "{case}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{case}: {:?}", begin.elapsed());
}

// spec-test: START-END-1
#[test]
fn a_program_that_exits_leaves_a_whole_file() {
    if let Ok(way) = std::env::var(PROGRAM) {
        return program(&way);
    }
    for (streaming, buffering_mode) in [("1", "0"), ("1", "1"), ("0", "0")] {
        for way in ["this thread", "another thread", "inside a runtime"] {
            check(way, streaming, buffering_mode);
        }
    }
}

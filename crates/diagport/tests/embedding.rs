//! A program with diagnostics: what its startup session leaves behind, however the program ends.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diagport::{Diagnostics, DiagnosticsBuilder, EventDefinition, EventPipe, Shutdown};
use diagport_nettrace::Completion;
use support::facts;
use tempfile::TempDir;

/// Far beyond every promise.
const SOON: Duration = Duration::from_secs(60);
const EVENTS: i64 = 20_000;

/// A program in a folder of its own.
struct Program {
    folder: TempDir,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Program {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), lines: Arc::default() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("a.nettrace")
    }

    /// With a startup session in Block mode at 1 MB, and `more` or other variables.
    fn builder(&self, more: &[(&str, &str)]) -> DiagnosticsBuilder {
        let path = self.file();
        let mut variables: Vec<(String, OsString)> =
            more.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        let usual = [
            ("DOTNET_EnableEventPipe", OsString::from("1")),
            ("DOTNET_EventPipeConfig", "Test:1:4".into()),
            ("DOTNET_EventPipeCircularMB", "1".into()),
            ("DOTNET_EventPipeBufferingMode", "1".into()),
            ("DOTNET_EventPipeOutputPath", path.into()),
        ];
        // The first of a name is found.
        variables.extend(usual.map(|(name, value)| (name.to_owned(), value)));
        let folder = self.folder.path().to_owned();
        let lines = Arc::clone(&self.lines);
        Diagnostics::builder()
            .environment(move |name| {
                variables.iter().find(|(variable, _)| variable == name).map(|(_, value)| value.clone())
            })
            .configure_server(move |server| server.folder(folder))
            .startup_notice(move |line| lines.lock().unwrap().push(line.to_owned()))
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Sockets that the server made and has not removed.
    fn sockets(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with("-socket"))
            .count()
    }

    #[track_caller]
    fn check_file(&self) {
        assert_eq!(facts(&self.file()), (EVENTS as usize, 0, Completion::Complete));
        assert_eq!(self.lines(), Vec::<String>::new());
    }

    /// After a drop, which waits only a little: what it began comes to its end nevertheless.
    fn wait_for_file(&self) {
        until("the file is complete", || facts(&self.file()).2 == Completion::Complete);
    }
}

fn until(what: &str, reached: impl Fn() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < SOON, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn write_events(pipe: &EventPipe) {
    let event = pipe
        .provider("Test")
        .define::<(i64, String)>(EventDefinition::new(1, "Tick").keywords(1), ["index", "text"])
        .unwrap();
    let text = "x".repeat(100);
    for index in 0..EVENTS {
        let _ = event.write((index, &text));
    }
}

// spec-test: START-END-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_the_file() {
    let program = Program::new();
    let diagnostics = program.builder(&[]).start().unwrap();
    write_events(diagnostics.pipe());
    assert_eq!(diagnostics.startup_session().unwrap().path(), program.file());
    assert_eq!(program.sockets(), 1);
    assert_eq!(diagnostics.shutdown(SOON).await, Shutdown::Complete);
    program.check_file();
    assert_eq!(program.sockets(), 0);
    // Once more does no harm.
    assert_eq!(diagnostics.shutdown(SOON).await, Shutdown::Complete);
}

// spec-test: START-END-1
#[tokio::test]
async fn a_drop_ends_the_file() {
    let program = Program::new();
    let diagnostics = program.builder(&[]).start().unwrap();
    write_events(diagnostics.pipe());
    drop(diagnostics);
    program.wait_for_file();
    program.check_file();
}

// spec-test: START-END-1
#[test]
fn a_program_without_a_runtime() {
    let program = Program::new();
    let diagnostics = program.builder(&[]).start_blocking().unwrap();
    diagnostics.wait_resumed();
    write_events(diagnostics.pipe());
    assert!(diagnostics.server().default_port_path().is_some());
    assert_eq!(diagnostics.shutdown(SOON), Shutdown::Complete);
    program.check_file();

    let program = Program::new();
    let diagnostics = program.builder(&[]).start_blocking().unwrap();
    write_events(diagnostics.pipe());
    drop(diagnostics);
    program.wait_for_file();
    program.check_file();
    until("the socket is gone", || program.sockets() == 0);
}

#[test]
fn an_async_start_needs_a_runtime() {
    let program = Program::new();
    let error = program.builder(&[]).start().unwrap_err();
    assert_eq!(error.to_string(), "no tokio runtime is running here");
    // What had begun ends in order.
    program.wait_for_file();
    assert_eq!(facts(&program.file()), (0, 0, Completion::Complete));
}

// spec-test: START-TIME-1
#[test]
fn it_records_before_startup_is_resumed() {
    let program = Program::new();
    let diagnostics =
        program.builder(&[("DOTNET_DefaultDiagnosticPortSuspend", "1")]).start_blocking().unwrap();
    assert!(diagnostics.server().is_suspended());
    write_events(diagnostics.pipe());
    diagnostics.shutdown(SOON);
    program.check_file();
}

// spec-test: START-MODE-2, START-PATH-2
#[test]
fn what_cannot_be_started_leaves_nothing() {
    let check = |name: &str, value: &str, reason: &str| {
        let program = Program::new();
        let diagnostics = program.builder(&[(name, value)]).start_blocking().unwrap();
        assert!(diagnostics.startup_session().is_none(), "{name}={value}");
        assert_eq!(diagnostics.pipe().statistics().live_sessions, 0);
        assert_eq!(diagnostics.shutdown(SOON), Shutdown::Complete);
        let lines = program.lines();
        assert!(lines.len() == 1 && lines[0].contains(reason), "{name}={value}: {lines:?}");
        assert!(!program.file().exists());
    };
    check("DOTNET_EventPipeOutputStreaming", "0", "(Block) needs EventPipeOutputStreaming 1");
    check("DOTNET_EventPipeBufferingMode", "3", "EventPipeBufferingMode is 3");
    check("DOTNET_EventPipeOutputPath", "no/such/folder/a", "cannot write \"no/such/folder/a\"");
    check("DOTNET_EventPipeConfig", ":1:4", "names no provider");
}

/// A reader of a named pipe that has stopped reading costs the deadline and no more.
// spec-test: START-END-1, START-FAIL-1
#[test]
fn a_file_that_takes_nothing_is_cut() {
    let program = Program::new();
    let pipe = program.folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let variables =
        [("DOTNET_EventPipeOutputPath", pipe.to_str().unwrap()), ("DOTNET_EventPipeBufferingMode", "0")];
    let diagnostics = program.builder(&variables).start_blocking().unwrap();
    write_events(diagnostics.pipe());
    let begin = Instant::now();
    assert_eq!(diagnostics.shutdown(Duration::from_millis(300)), Shutdown::Cut);
    drop(diagnostics);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    drop(reader);
}

//! A scripted target for the binary: a socket that answers as it is told, and the binary's way there.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::Command as Binary;
use diagport_codec::{Command, HResult, IpcMessage, Prefix, Reply, decode_prefix};
use diagport_nettrace::{EventMetadata, EventRow, Field, FieldType, TraceInfo, UtcTime, Writer};

/// The id of every session of a [`FakeTarget`].
pub(crate) const SESSION_ID: u64 = 77;

/// How a session goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionScript {
    /// What is sent at once behind the reply.
    pub(crate) first: Vec<u8>,
    /// What is sent when the session is stopped; the stream ends behind it.
    pub(crate) at_stop: Vec<u8>,
    pub(crate) course: Course,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Course {
    /// Runs until it is stopped.
    #[default]
    UntilStop,
    /// The stream ends behind the first bytes.
    EndsAtOnce,
    /// A stop is answered, the stream goes on.
    NeverEnds,
    /// A stop is not answered.
    IgnoresStop,
    /// CollectTracing is answered with this code.
    Refused(HResult),
    /// A stop is answered with this code.
    StopRefused(HResult),
    /// As until stopped, but a resume is answered with this code.
    ResumeRefused(HResult),
    /// CollectTracing is never answered.
    Silent,
}

/// A target at a path. Its threads end with the test process.
pub(crate) struct FakeTarget {
    pub(crate) folder: tempfile::TempDir,
    shared: Arc<Shared>,
}

struct Shared {
    script: SessionScript,
    commands: Mutex<Vec<Command>>,
    stream: Mutex<Option<UnixStream>>,
    /// Connections that shall stay open without a word.
    silent: Mutex<Vec<UnixStream>>,
}

impl FakeTarget {
    pub(crate) fn start(script: SessionScript) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("port.sock")).unwrap();
        let shared = Arc::new(Shared {
            script,
            commands: Mutex::default(),
            stream: Mutex::default(),
            silent: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                serving.serve(stream.unwrap());
            }
        });
        Self { folder, shared }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("port.sock")
    }

    /// The option value that connects to it.
    pub(crate) fn option(&self) -> String {
        format!("{},connect", self.path().display())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("x.nettrace")
    }

    /// `trace` of this target into [`Self::file`], with more arguments.
    pub(crate) fn trace(&self, more: &[&str]) -> Binary {
        let mut binary = diagport(&["trace", "--providers", "P:1", "--dport", &self.option()]);
        binary.args(["-o", &self.file().display().to_string()]).args(more);
        binary
    }

    pub(crate) fn commands(&self) -> Vec<Command> {
        self.shared.commands.lock().unwrap().clone()
    }
}

impl Shared {
    fn serve(&self, mut stream: UnixStream) {
        let Some(request) = read_message(&mut stream) else { return };
        self.commands.lock().unwrap().push(request.command);
        let starts = (Command::COLLECT_TRACING..=Command::COLLECT_TRACING_6).contains(&request.command);
        match (request.command, self.script.course) {
            (_, Course::Refused(code)) if starts => send(&mut stream, &Reply::error(code)),
            (_, Course::Silent) if starts => self.silent.lock().unwrap().push(stream),
            _ if starts => self.start_session(stream),
            (Command::RESUME_RUNTIME, Course::ResumeRefused(code)) => send(&mut stream, &Reply::error(code)),
            (Command::STOP_TRACING, Course::StopRefused(code)) => send(&mut stream, &Reply::error(code)),
            (Command::STOP_TRACING, Course::IgnoresStop) => self.silent.lock().unwrap().push(stream),
            (Command::STOP_TRACING, course) => {
                if matches!(course, Course::UntilStop | Course::ResumeRefused(_))
                    && let Some(mut session) = self.stream.lock().unwrap().take()
                {
                    drop(session.write_all(&self.script.at_stop));
                }
                send(&mut stream, &Reply::session(SESSION_ID));
            }
            _ => send(&mut stream, &Reply::success()),
        }
    }

    fn start_session(&self, mut stream: UnixStream) {
        send(&mut stream, &Reply::session(SESSION_ID));
        drop(stream.write_all(&self.script.first));
        if self.script.course != Course::EndsAtOnce {
            *self.stream.lock().unwrap() = Some(stream);
        }
    }
}

fn send(stream: &mut UnixStream, reply: &Reply) {
    drop(stream.write_all(&reply.encode().encode().unwrap()));
}

fn read_message(stream: &mut UnixStream) -> Option<IpcMessage> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    loop {
        match decode_prefix(&bytes).unwrap() {
            Prefix::Complete { message, .. } => return Some(message),
            Prefix::Incomplete { needed_bytes } => {
                let mut piece = vec![0; needed_bytes];
                let count = stream.read(&mut piece).unwrap();
                if count == 0 {
                    return None;
                }
                bytes.extend_from_slice(&piece[..count]);
            }
        }
    }
}

/// The binary under test, without input and without a chance to hang.
pub(crate) fn diagport(arguments: &[&str]) -> Binary {
    let mut binary = Binary::cargo_bin("diagport").unwrap();
    binary.args(arguments).timeout(Duration::from_secs(120));
    binary
}

/// The binary as a process that the test talks to while it runs.
pub(crate) fn diagport_process(arguments: &[&str]) -> std::process::Command {
    let mut process = std::process::Command::new(assert_cmd::cargo::cargo_bin("diagport"));
    process.args(arguments).stdin(std::process::Stdio::null());
    process
}

/// Waits for something that other threads or processes bring about.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let from = Instant::now();
    while !condition() {
        assert!(from.elapsed() < Duration::from_secs(60), "{what} did not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A NetTrace stream of events numbered as given, all on one thread, without its end mark.
pub(crate) fn stream_of(numbers: &[u32]) -> Vec<u8> {
    let mut writer = writer_of(numbers);
    writer.flush();
    writer.output().to_vec()
}

/// The same with its end mark.
pub(crate) fn whole_stream_of(numbers: &[u32]) -> Vec<u8> {
    let mut writer = writer_of(numbers);
    writer.finish();
    writer.output().to_vec()
}

fn writer_of(numbers: &[u32]) -> Writer {
    let info = TraceInfo {
        start_utc: UtcTime::from_unix_millis(0),
        sync_ticks: 0,
        tick_frequency: 1_000_000_000,
        pointer_size: 8,
        process_id: 4711,
        processor_count: 1,
        sampling_period_ns: 1_000_000,
    };
    let mut writer = Writer::new(&info);
    let definition = EventMetadata {
        provider: "P".to_owned(),
        event_id: 1,
        event_name: "E".to_owned(),
        keywords: 1,
        version: 0,
        level: 4,
        opcode: 0,
        fields: vec![Field { name: "n".to_owned(), field_type: FieldType::UInt32 }],
    };
    let metadata_id = writer.define(&definition, 0, 9);
    for number in numbers {
        writer.event(&EventRow {
            metadata_id,
            sequence: *number,
            capture_thread: 1,
            thread_id: 9,
            processor: 0,
            stack_id: 0,
            ticks: i64::from(*number),
            activity_id: [0; 16],
            related_activity_id: [0; 16],
            sorted: true,
            payload: &number.to_le_bytes(),
        });
    }
    writer
}

/// Runs to the end and checks the exit code; the text is there for the failure message.
pub(crate) fn run(binary: &mut Binary, expected_code: i32) -> Finished {
    let from = Instant::now();
    let output = binary.output().unwrap();
    let finished = Finished { elapsed: from.elapsed(), output };
    assert_eq!(finished.output.status.code(), Some(expected_code), "{}", finished.text());
    finished
}

pub(crate) struct Finished {
    pub(crate) elapsed: Duration,
    output: Output,
}

impl Finished {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        format!("--- standard output\n{}--- standard error\n{}", self.stdout(), self.stderr())
    }

    pub(crate) fn last_line(&self) -> String {
        self.stdout().lines().last().unwrap_or_default().to_owned()
    }

    /// The one error line.
    pub(crate) fn error(&self) -> String {
        let stderr = self.stderr();
        let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{}", self.text());
        errors[0].to_owned()
    }

    /// The JSON object of the last line.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.last_line()).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

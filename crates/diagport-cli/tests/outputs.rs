//! Where recordings and results go, and what happens where they cannot.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod fake;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use diagport_codec::Command;
use fake::{
    Course, FakeTarget, SessionScript, diagport, diagport_process, run, stream_of, until, whole_stream_of,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

/// A session whose stream is whole at once.
fn whole(numbers: &[u32]) -> FakeTarget {
    let course = Course::EndsAtOnce;
    FakeTarget::start(SessionScript { first: whole_stream_of(numbers), course, ..SessionScript::default() })
}

/// A session that runs until it is stopped, and whose stream is whole then.
fn running() -> FakeTarget {
    let (first, whole) = (stream_of(&[1]), whole_stream_of(&[1]));
    FakeTarget::start(SessionScript {
        at_stop: whole[first.len()..].to_vec(),
        first,
        course: Course::UntilStop,
    })
}

/// Opens a pipe for reading before anybody writes into it.
fn reader_of(pipe: &Path) -> File {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(nonblocking).open(pipe).unwrap()
}

// spec-test: CLI-OUT-2
#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let target = whole(&[1]);
    let path = target.path().display().to_string();
    let option = target.option();
    for arguments in [
        &["ps"][..],
        &["ps", "--json"],
        &["stop", "--port", &path, "--session-id", "77"],
        &["resume", "--port", &path],
        &["trace", "--dport", &option, "--providers", "P", "-o", "/dev/null"],
    ] {
        let outcome = |stdout: Stdio| {
            let output = diagport_process(arguments).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
            let output = output.wait_with_output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, text) = outcome(full.into());
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        assert!(
            text.contains("cannot write standard output: No space left on device"),
            "{arguments:?}: {text}"
        );
        // A reader who has seen enough is no failure.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(outcome(writer.into()), (Some(0), String::new()), "{arguments:?}");
    }
}

// spec-test: CLI-OUTPUT-4
#[test]
fn a_recording_on_standard_output_is_alone_there() {
    for more in [&[][..], &["--json"]] {
        let target = whole(&[1, 2]);
        let mut process = diagport_process(&[
            "trace",
            "--dport",
            &target.option(),
            "--providers",
            "P",
            "-o",
            "/dev/stdout",
        ]);
        let output = process.args(more).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(output.stdout, whole_stream_of(&[1, 2]), "{more:?}");
        let last = text.lines().last().unwrap();
        assert!(last.contains("events") && last.contains("lost"), "{text}");
    }
}

// spec-test: CLI-OUTPUT-3
#[test]
fn a_named_pipe_is_waited_for_and_its_reader_watched() {
    let target = running();
    let pipe = target.folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let trace = |more: &[&str]| {
        let mut binary = diagport(&["trace", "--dport", &target.option(), "--providers", "P", "-o"]);
        binary.arg(&pipe).args(more);
        binary
    };
    let finished = run(&mut trace(&["--timeout", "200ms"]), 6);
    assert!(finished.error().contains("nobody has opened this pipe for reading"), "{}", finished.text());
    assert!(target.commands().is_empty(), "nobody was bothered");

    let (path, expected) = (pipe.clone(), whole_stream_of(&[1]));
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    });
    run(&mut trace(&["--duration", "100ms"]), 0);
    assert_eq!(reading.join().unwrap(), expected);

    // A reader who leaves: the session is stopped at the next bytes.
    let reader = reader_of(&pipe);
    let mut process = diagport_process(&["trace", "--dport", &target.option(), "--providers", "P", "-o"])
        .arg(&pipe)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the first bytes", || matches!((&reader).read(&mut [0; 10]), Ok(10)));
    drop(reader);
    process.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Broken pipe"), "{text}");
    assert_eq!(target.commands().last(), Some(&Command::STOP_TRACING));
}

/// A pipe whose reader does not read: our own limits hold.
// spec-test: CLI-STOPPING-4
#[test]
fn a_file_that_takes_nothing_does_not_hold_us() {
    let course = Course::EndsAtOnce;
    let first = whole_stream_of(&(1..=200_000).collect::<Vec<_>>());
    let target = FakeTarget::start(SessionScript { first, course, ..SessionScript::default() });
    let pipe = target.folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let reader = reader_of(&pipe);
    let mut binary = diagport(&["trace", "--dport", &target.option(), "--providers", "P"]);
    let finished = run(binary.arg("-o").arg(&pipe).args(["--duration", "300ms", "--timeout", "5s"]), 6);
    drop(reader);
    assert!(
        finished.error().contains("took nothing")
            || finished.error().contains("did not take what had arrived"),
        "{}",
        finished.text()
    );
    assert!(finished.elapsed < Duration::from_secs(60), "{:?}", finished.elapsed);
}

// spec-test: CLI-OUTPUT-2
#[test]
fn two_recordings_never_share_a_file() {
    let target = running();
    let mut first = diagport_process(&["trace", "--dport", &target.option(), "--providers", "P", "-o"])
        .arg(target.file())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("a recording", || target.commands().contains(&Command::RESUME_RUNTIME));
    let finished = run(&mut target.trace(&[]), 1);
    assert!(finished.error().contains("another process is recording into it"), "{}", finished.text());
    first.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read(target.file()).unwrap(), whole_stream_of(&[1]));
}

/// Recordings of one program that start in one second get names of their own.
// spec-test: CLI-TRACE-2, CLI-OUTPUT-2
#[test]
fn default_names_are_never_taken_twice() {
    let target = whole(&[1]);
    let home = tempfile::tempdir().unwrap();
    let count = 8;
    for _ in 0..count {
        let mut binary = diagport(&["trace", "--dport", &target.option(), "--providers", "P"]);
        run(binary.current_dir(home.path()), 0);
    }
    let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), count, "{names:?}");
    for name in names {
        assert_eq!(std::fs::read(&name).unwrap(), whole_stream_of(&[1]), "{name:?}");
    }
}

/// A failure before the first byte leaves the folder as it was, whatever stood there.
// spec-test: CLI-OUTPUT-1
#[test]
fn nothing_is_made_or_lost_for_a_session_that_never_was() {
    let home = tempfile::tempdir().unwrap();
    let there = |name: &str| home.path().join(name);
    std::os::unix::fs::symlink(there("nowhere"), there("link")).unwrap();
    std::fs::write(there("mine"), "mine").unwrap();
    for name in ["new", "link", "mine"] {
        let mut binary = diagport(&["trace", "-p", "4194305", "--providers", "P", "-o"]);
        run(binary.arg(there(name)), 4);
    }
    assert!(!there("new").exists());
    assert!(there("link").symlink_metadata().is_ok(), "the link is not ours to remove");
    assert_eq!(std::fs::read_to_string(there("mine")).unwrap(), "mine");
}

// spec-test: CLI-CONVERT-2
#[test]
fn convert_never_destroys_what_it_reads() {
    let home = tempfile::tempdir().unwrap();
    let there = |name: &str| home.path().join(name).display().to_string();
    let bytes = whole_stream_of(&[1, 2]);
    std::fs::write(there("a"), &bytes).unwrap();
    std::fs::hard_link(there("a"), there("hard")).unwrap();
    std::os::unix::fs::symlink(there("a"), there("soft")).unwrap();
    for output in ["a", "hard", "soft"] {
        let finished = run(&mut diagport(&["convert", &there("a"), "--to", "text", "-o", &there(output)]), 2);
        assert!(finished.error().contains("is the recording itself"), "{output}: {}", finished.text());
        assert_eq!(std::fs::read(there("a")).unwrap(), bytes, "{output}");
    }
    std::fs::write(there("old"), "x".repeat(100_000)).unwrap();
    run(&mut diagport(&["convert", &there("a"), "--to", "text", "-o", &there("old")]), 0);
    assert!(std::fs::read_to_string(there("old")).unwrap().ends_with("lost=0\n"));
}

/// What is set for other programs does not keep the demonstration from its end.
#[test]
fn the_demonstration_minds_nobodys_settings() {
    let home = tempfile::tempdir().unwrap();
    let suspending = home.path().join("nobody.sock").display().to_string();
    let mut demo = diagport(&["demo", "--json"]);
    demo.current_dir(home.path())
        .env("TMPDIR", home.path())
        .env("DOTNET_DiagnosticPorts", suspending)
        .env("DOTNET_EnableDiagnostics", "0");
    let finished = run(&mut demo, 0);
    assert_eq!(finished.json()["lost"], 0, "{}", finished.text());
    assert!(home.path().join("demo.nettrace").exists());
}

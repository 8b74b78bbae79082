//! `trace` against a target that does as it is told.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod fake;

use std::process::Stdio;
use std::time::Duration;

use diagport_codec::{Command, HResult};
use fake::{
    Course, FakeTarget, SessionScript, diagport, diagport_process, exists, run, stream_of, until,
    whole_stream_of,
};
use rustix::process::{Pid, Signal, kill_process};

/// A session whose stream is whole once it is stopped.
fn stopped(numbers: &[u32]) -> SessionScript {
    let whole = whole_stream_of(numbers);
    let first = stream_of(numbers);
    SessionScript { at_stop: whole[first.len()..].to_vec(), first, course: Course::UntilStop }
}

// spec-test: CLI-TRACE-1
// spec-test: CLI-TRACE-4
#[test]
fn a_recording_is_stopped_after_its_duration() {
    let target = FakeTarget::start(stopped(&[1, 2, 3]));
    let finished = run(&mut target.trace(&["--duration", "300ms"]), 0);
    let bytes = whole_stream_of(&[1, 2, 3]);
    let expected =
        format!("Trace completed. events=3 bytes={} lost=0 file={}", bytes.len(), target.file().display());
    assert_eq!(finished.last_line(), expected, "{}", finished.text());
    assert_eq!(finished.stderr(), "");
    assert_eq!(std::fs::read(target.file()).unwrap(), bytes);
    assert_eq!(
        target.commands(),
        [Command::COLLECT_TRACING_2, Command::RESUME_RUNTIME, Command::STOP_TRACING]
    );
}

#[test]
fn a_recording_ends_with_its_stream() {
    let target = FakeTarget::start(SessionScript {
        first: whole_stream_of(&[1, 2]),
        course: Course::EndsAtOnce,
        ..SessionScript::default()
    });
    let finished = run(&mut target.trace(&["--json", "--resume-runtime:false"]), 0);
    let json = finished.json();
    assert_eq!((json["status"].as_str(), json["events"].as_u64()), (Some("ok"), Some(2)), "{json}");
    assert_eq!(
        (json["lost"].as_u64(), json["session_id"].as_u64()),
        (Some(0), Some(fake::SESSION_ID)),
        "{json}"
    );
    assert_eq!(finished.stdout().lines().count(), 1, "{}", finished.text());
    assert_eq!(target.commands(), [Command::COLLECT_TRACING_2], "neither resumed nor stopped");
}

#[test]
fn loss_is_told_and_fails_where_asked() {
    for (more, code) in [(&[][..], 0), (&["--fail-on-loss"][..], 8)] {
        let target = FakeTarget::start(stopped(&[1, 2, 6]));
        let finished = run(target.trace(&["--duration", "100ms"]).args(more), code);
        assert!(
            finished.last_line().contains("events=3") && finished.last_line().contains("lost=3"),
            "{}",
            finished.text()
        );
        if code != 0 {
            assert!(finished.error().contains("lost 3 events"), "{}", finished.text());
        }
    }
}

/// Each way for a recording to go wrong: exit code, words of the error, bytes that are kept.
// spec-test: CLI-TRACE-3
// spec-test: CLI-STOPPING-3
#[test]
fn what_arrived_is_kept_and_the_verdict_is_clear() {
    let part = stream_of(&[1, 2]);
    let script = |first: &[u8], course| SessionScript { first: first.to_vec(), at_stop: Vec::new(), course };
    let cut = format!("truncated at byte {}", part.len());
    let cases = [
        (script(&part, Course::EndsAtOnce), 7, cut.as_str()),
        (script(b"", Course::EndsAtOnce), 7, "truncated at byte 0"),
        (
            script(b"Not a trace, and long enough to be judged as what it is", Course::EndsAtOnce),
            1,
            "cannot be read",
        ),
        (script(&part, Course::UntilStop), 7, cut.as_str()),
        (script(&part, Course::NeverEnds), 6, "the stop was answered, the stream did not end"),
        (script(&part, Course::IgnoresStop), 6, "the stop was not answered"),
        (script(&part, Course::StopRefused(HResult::FAIL)), 5, "StopTracing was refused"),
    ];
    for (script, code, words) in cases {
        let first = script.first.clone();
        let course = script.course;
        let target = FakeTarget::start(script);
        // A limit of our own only where it is what ends the recording: a busy machine needs its time for the rest.
        let limit: &[_] = match course {
            Course::NeverEnds | Course::IgnoresStop => &["--timeout", "5s"],
            _ => &[],
        };
        let finished = run(target.trace(&["--duration", "200ms"]).args(limit), code);
        assert!(finished.error().contains(words), "{course:?}: {}", finished.text());
        assert!(finished.last_line().contains("lost=0"), "{course:?}: {}", finished.text());
        assert_eq!(std::fs::read(target.file()).unwrap(), first, "{course:?}");
        assert!(finished.elapsed < Duration::from_secs(60), "{course:?}: {:?}", finished.elapsed);
    }
}

#[test]
fn a_session_that_does_not_start_leaves_no_file() {
    for (code, more, words) in [
        (HResult::FAIL, &[][..], "CollectTracing2 was refused by the target: 0x80004005"),
        (HResult::UNKNOWN_COMMAND, &["--buffering-mode", "Block"], "needs .NET 11"),
    ] {
        let target =
            FakeTarget::start(SessionScript { course: Course::Refused(code), ..SessionScript::default() });
        let finished = run(&mut target.trace(more), 5);
        assert!(finished.error().contains(words), "{}", finished.text());
        assert!(!exists(&target.file()));
        // What was there before stays.
        std::fs::write(target.file(), "mine").unwrap();
        run(&mut target.trace(more), 5);
        assert_eq!(std::fs::read_to_string(target.file()).unwrap(), "mine");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_one_clear_error() {
    let target = FakeTarget::start(stopped(&[1]));
    let finished = run(target.trace(&[]).args(["-o", "/nonexistent/x.nettrace"]), 2);
    assert!(finished.stderr().contains("--output"), "{}", finished.text());
    let option = target.option();
    let trace = |file: &str| diagport(&["trace", "--providers", "P", "--dport", &option, "-o", file]);
    let finished = run(&mut trace("/nonexistent/x.nettrace"), 1);
    assert!(finished.error().contains("cannot write /nonexistent/x.nettrace"), "{}", finished.text());
    assert!(target.commands().is_empty(), "nobody was bothered");
    // The disk fills up: the session is stopped, not abandoned.
    let finished = run(&mut trace("/dev/full"), 1);
    assert!(
        finished.error().contains("cannot write /dev/full: No space left on device"),
        "{}",
        finished.text()
    );
    assert_eq!(target.commands().last(), Some(&Command::STOP_TRACING));
}

/// A target that is not let go on gets its session ended, and the file says so.
#[test]
fn a_refused_resume_ends_the_session_properly() {
    let course = Course::ResumeRefused(HResult::FAIL);
    let target = FakeTarget::start(SessionScript { course, ..stopped(&[1, 2]) });
    let finished = run(&mut target.trace(&[]), 5);
    assert!(finished.error().contains("ResumeRuntime was refused"), "{}", finished.text());
    assert!(
        finished.last_line().starts_with("Trace completed. events=2")
            && finished.last_line().contains("lost=0"),
        "{}",
        finished.text()
    );
    assert_eq!(target.commands().last(), Some(&Command::STOP_TRACING));
    assert_eq!(std::fs::read(target.file()).unwrap(), whole_stream_of(&[1, 2]));
}

/// Ctrl-C is heard while a target does not answer, too.
// spec-test: CLI-STOPPING-1
#[test]
fn an_interrupt_is_heard_before_the_session_has_started() {
    let target = FakeTarget::start(SessionScript { course: Course::Silent, ..SessionScript::default() });
    let mut process = diagport_process(&["trace", "--providers", "P", "--dport", &target.option(), "-o"])
        .arg(target.file())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a request", || !target.commands().is_empty());
    let from = std::time::Instant::now();
    kill_process(Pid::from_raw(process.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let code = process.wait().unwrap().code();
    let text = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text, "error: interrupted before the target had started the session\n");
    assert!(from.elapsed() < Duration::from_secs(60), "{:?}", from.elapsed());
    assert!(!exists(&target.file()), "an empty file stays");
}

/// Standard input that says nothing does not end a recording; a line on a pipe does.
// spec-test: CLI-STOPPING-2
#[test]
fn enter_ends_a_recording_and_the_end_of_input_does_not() {
    let target = FakeTarget::start(stopped(&[1]));
    let finished = run(&mut target.trace(&["--duration", "400ms"]), 0);
    assert!(finished.elapsed >= Duration::from_millis(400), "{:?}", finished.elapsed);
    let target = FakeTarget::start(stopped(&[1]));
    let finished = run(target.trace(&["--duration", "1000s"]).write_stdin("\n"), 0);
    assert!(finished.elapsed < Duration::from_secs(60), "{:?}", finished.elapsed);
}

/// One signal ends cleanly, two leave at once.
// spec-test: CLI-STOPPING-1
#[test]
fn signals_end_a_recording() {
    for (signals, course, code) in [
        (&[Signal::INT][..], Course::UntilStop, 0),
        (&[Signal::TERM], Course::UntilStop, 0),
        (&[Signal::HUP], Course::UntilStop, 0),
        (&[Signal::INT, Signal::INT], Course::NeverEnds, 7),
    ] {
        let target = FakeTarget::start(SessionScript { course, ..stopped(&[1]) });
        let mut process = diagport_process(&["trace", "--providers", "P", "--dport", &target.option(), "-o"])
            .arg(target.file())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(process.id().cast_signed()).unwrap();
        let seen = |command: Command| move |target: &FakeTarget| target.commands().contains(&command);
        until("a resume", || seen(Command::RESUME_RUNTIME)(&target));
        for signal in signals {
            kill_process(pid, *signal).unwrap();
            until("a stop", || seen(Command::STOP_TRACING)(&target));
        }
        assert_eq!(process.wait().unwrap().code(), Some(code), "{signals:?}");
    }
}

// spec-test: CLI-CHILD-1
#[test]
fn a_launched_command_that_is_no_target_explains_itself() {
    let folder = tempfile::tempdir().unwrap();
    let launch = |command: &[&str]| {
        let mut binary = diagport(&["trace", "--providers", "P", "--"]);
        binary.args(command).current_dir(folder.path()).env("TMPDIR", folder.path());
        binary
    };
    let finished =
        run(&mut launch(&["sh", "-c", "echo \"$0|$1|$DOTNET_DiagnosticPorts\"; exit 7", "a b", ""]), 7);
    assert!(finished.stdout().starts_with("a b||"), "{}", finished.text());
    assert!(finished.stdout().trim_end().ends_with(".socket,suspend"), "{}", finished.text());
    assert!(finished.error().contains("`sh` ended"), "{}", finished.text());
    run(&mut launch(&["true"]), 1);
    let finished = run(&mut launch(&["/nonexistent/program"]), 4);
    assert!(finished.error().contains("cannot launch `/nonexistent/program`"), "{}", finished.text());
    // Killed by signal 9, as a shell says it.
    run(&mut launch(&["sh", "-c", "kill -9 $$"]), 137);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn nobody_connects_to_a_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.sock");
    let path = path.to_str().unwrap();
    let finished =
        run(&mut diagport(&["trace", "--providers", "P", "--dport", path, "--timeout", "300ms"]), 6);
    assert!(finished.error().contains("waiting for the process to connect"), "{}", finished.text());
    let finished =
        run(&mut diagport(&["info", "--port", &format!("{path},listen"), "--timeout", "300ms"]), 6);
    assert!(finished.error().contains(path), "{}", finished.text());
    assert!(!exists(path.as_ref()), "the socket is removed");
}

// spec-test: CLI-CONVERT-1
#[test]
fn convert_prints_what_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nettrace");
    let path = file.to_str().unwrap();
    std::fs::write(&file, whole_stream_of(&[1, 2])).unwrap();
    let finished = run(&mut diagport(&["convert", path, "--to", "text"]), 0);
    assert!(finished.last_line().starts_with("end complete: events=2"), "{}", finished.text());
    let finished = run(&mut diagport(&["convert", path, "--to", "json"]), 0);
    assert_eq!(finished.json()["complete"], true, "{}", finished.text());

    let mut cut = whole_stream_of(&[1, 2]);
    cut.pop();
    std::fs::write(&file, &cut).unwrap();
    let finished = run(&mut diagport(&["convert", path, "--to", "text"]), 7);
    assert!(finished.last_line().contains("events=2"), "{}", finished.text());
    assert!(finished.error().contains(&format!("truncated at byte {}", cut.len())), "{}", finished.text());
    std::fs::write(&file, "no trace at all, but some text").unwrap();
    run(&mut diagport(&["convert", path, "--to", "text"]), 1);
    run(&mut diagport(&["convert", "/nonexistent", "--to", "text"]), 4);
}

/// Whoever is interrupted while he waits for a target takes his socket with him.
// spec-test: CLI-STOPPING-5
#[test]
fn an_interrupted_listener_leaves_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.sock");
    let listening = format!("{},listen", path.display());
    for (arguments, signal) in [
        (&["info", "--port", &listening][..], Signal::INT),
        (&["env", "--port", &listening], Signal::TERM),
        (&["resume", "--port", &listening], Signal::HUP),
        (&["trace", "--providers", "P", "--dport", &listening, "-o", "/dev/null"], Signal::INT),
    ] {
        let mut process =
            diagport_process(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("a listener", || exists(&path));
        kill_process(Pid::from_raw(process.id().cast_signed()).unwrap(), signal).unwrap();
        let code = process.wait().unwrap().code();
        let text = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        assert!(text.lines().last().unwrap().starts_with("error: interrupted"), "{arguments:?}: {text}");
        assert!(!exists(&path), "{arguments:?}");
    }
}

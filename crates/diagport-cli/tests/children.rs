//! Commands that `trace` launches: what is recorded of them, and whose exit code it is.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod fake;

use std::path::Path;
use std::time::Duration;

use fake::{Finished, diagport, run};
use rustix::process::{Pid, Signal, kill_process};

/// `trace -- sh -c SCRIPT`, where `$LOAD` is our scripted target, and standard input is for it.
fn trace(home: &Path, more: &[&str], script: &str, input: &str, expected_code: i32) -> Finished {
    let mut binary = diagport(&["trace", "--providers", "Peer-Load:1:4", "-o", "t.nettrace"]);
    binary.args(more).args(["--", "sh", "-c", script]);
    binary.env("LOAD", assert_cmd::cargo::cargo_bin("diagport")).env("TMPDIR", home).current_dir(home);
    run(binary.write_stdin(input), expected_code)
}

fn completed(finished: &Finished, events: u64) {
    let wanted = format!("Trace completed. events={events} ");
    assert!(finished.last_line().starts_with(&wanted), "{}", finished.text());
}

/// A script that is no runtime itself: what it starts first is recorded, and the script's own code is ours.
// spec-test: CLI-CHILD-1, CLI-CHILD-2
#[test]
fn what_a_script_starts_is_recorded() {
    let home = tempfile::tempdir().unwrap();
    // 10 Tick events and ProcessInfo. The second one is let go on, unrecorded.
    let finished = trace(
        home.path(),
        &[],
        "\"$LOAD\" load; echo exit | \"$LOAD\" load; exit 7",
        "burst 1 10\nexit\n",
        7,
    );
    completed(&finished, 11);
    assert_eq!(finished.stdout().matches("ready ").count(), 2, "{}", finished.text());
    assert!(!finished.stderr().contains("error"), "{}", finished.text());
}

/// Somebody who stays behind and holds the session open does not hold us.
// spec-test: CLI-CHILD-3
#[test]
fn the_end_of_the_command_ends_the_recording() {
    let home = tempfile::tempdir().unwrap();
    let script = "\"$LOAD\" load > ready 2> /dev/null & until test -s ready; do sleep 0.05; done; exit 3";
    let finished = trace(home.path(), &[], script, "", 3);
    let ready = std::fs::read_to_string(home.path().join("ready")).unwrap();
    let pid = ready.trim().strip_prefix("ready ").and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    kill_process(pid.unwrap(), Signal::TERM).unwrap();
    completed(&finished, 1);
    assert!(finished.elapsed < Duration::from_secs(60), "{:?}", finished.elapsed);
}

/// A recording that ends early because the command died is told by the command's own code.
// spec-test: CLI-CHILD-1
#[test]
fn a_command_that_dies_is_told_by_its_own_code() {
    let die = |signal: &str| {
        format!("(until test -s ready; do sleep 0.05; done; kill -{signal} $$) & exec \"$LOAD\" load > ready")
    };
    for (signal, code) in [("KILL", 137), ("ABRT", 134)] {
        let home = tempfile::tempdir().unwrap();
        let finished = trace(home.path(), &["--json"], &die(signal), "", code);
        let json = finished.json();
        assert_eq!(
            (json["status"].as_str(), json["exit_code"].as_i64(), json["child_exit_code"].as_i64()),
            (Some("truncated"), Some(i64::from(code)), Some(i64::from(code))),
            "{json}"
        );
        assert!(finished.error().contains("is truncated at byte"), "{}", finished.text());
    }
}

/// What we cannot do is found out before anything is launched.
#[test]
fn nothing_is_launched_for_a_recording_that_cannot_be() {
    let home = tempfile::tempdir().unwrap();
    let many = (0..1001).map(|n| format!("P{n}")).collect::<Vec<_>>().join(",");
    for (more, code) in [(&["--providers", &many][..], 2), (&["-o", "/nonexistent/x"], 1), (&["-o", "."], 1)]
    {
        let mut binary = diagport(&["trace"]);
        binary.args(more).args(["--", "touch", "launched"]).env("TMPDIR", home.path());
        let finished = run(binary.current_dir(home.path()), code);
        assert!(!home.path().join("launched").exists(), "{more:?}: {}", finished.text());
    }
}

// spec-test: CLI-CHILD-1
#[test]
fn a_command_has_as_long_as_it_was_given() {
    let home = tempfile::tempdir().unwrap();
    let finished = trace(home.path(), &["--timeout", "300ms"], "exec sleep 100", "", 6);
    assert!(finished.error().contains("within 0.3 s"), "{}", finished.text());
    assert!(finished.elapsed < Duration::from_secs(60), "{:?}", finished.elapsed);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_command_that_cannot_run_is_told_apart_from_one_that_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let script = home.path().join("script");
    std::fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
    let launch = |command: &str, code| {
        let mut binary = diagport(&["trace", "--providers", "P", "--", command]);
        run(binary.current_dir(home.path()).env("TMPDIR", home.path()), code).error()
    };
    let path = script.display().to_string();
    assert!(launch(&path, 1).contains("Permission denied"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    assert!(launch(&path, 1).contains("the file is there, what is to run it is not"));
    assert!(launch("no-such-command", 4).contains("No such file"));
}

/// A temp folder that is not there, or that a port text cannot name, does not keep a command from its port.
#[test]
fn the_port_of_a_command_is_somewhere_whatever_the_temp_folder_is() {
    let home = tempfile::tempdir().unwrap();
    let comma = home.path().join("a,b");
    std::fs::create_dir(&comma).unwrap();
    for folder in [home.path().join("nowhere"), comma, home.path().join("y".repeat(90))] {
        let mut binary = diagport(&["trace", "--providers", "P", "-o", "t.nettrace", "--", "sh", "-c"]);
        binary.arg("exec \"$LOAD\" load").env("LOAD", assert_cmd::cargo::cargo_bin("diagport"));
        let finished = run(binary.env("TMPDIR", &folder).current_dir(home.path()).write_stdin("exit\n"), 0);
        completed(&finished, 1);
    }
}

//! Command lines that make no sense, and what the short commands say to whom they cannot reach.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod fake;

use fake::{FakeTarget, SessionScript, diagport, run};

// spec-test: CLI-EXIT-1
#[test]
fn senseless_command_lines_are_refused_in_one_line() {
    let long = format!("/tmp/{}", "x".repeat(145));
    let many = (0..1001).map(|n| format!("P{n}")).collect::<Vec<_>>().join(",");
    let wide = "P".repeat(33_000);
    let cases: &[(&[&str], &str)] = &[
        (&["info"], "--process-id"),
        (&["info", "-p", "1", "-n", "x"], "cannot be used with"),
        (&["info", "-p", "one"], "one"),
        (&["info", "--port", &long], "150 bytes long, the limit is 107"),
        (&["info", "--port", "a,b"], "`b` is neither connect nor listen"),
        (&["info", "--port", "a,connect,listen"], "more than an address"),
        (&["info", "-p", "1", "--timeout", "0"], "limit of nothing"),
        (&["stop", "-p", "1"], "--session-id"),
        (&["stop", "-p", "1", "--session-id", "x"], "invalid digit"),
        (&["nonsense"], "nonsense"),
        (&["trace", "--providers", "A"], "--process-id"),
        (&["trace", "-p", "1", "--providers", "A:xyz"], "keywords `xyz` of provider `A`"),
        (&["trace", "-p", "1", "--providers", "A,:1"], "provider 2 of the list has no name"),
        (&["trace", "-p", "1", "--providers", &many], "1001 providers, allowed are 1 to 1000"),
        (&["trace", "-p", "1", "--providers", &wide], "above 65535"),
        (
            &["trace", "-p", "1", "--profile", "cpu-sampling"],
            "`cpu-sampling` is not a profile; known: dotnet-common",
        ),
        (&["trace", "-p", "1", "--clrevents", "gc+nonsense"], "`nonsense` is not a CLR event keyword"),
        (
            &["trace", "-p", "1", "--clrevents", "gc", "--clreventlevel", "loud"],
            "`loud` is not an event level",
        ),
        (&["trace", "-p", "1", "--duration", "bad"], "`bad` is not a duration"),
        (&["trace", "-p", "1", "--duration", "-5s"], "-5"),
        (&["trace", "-p", "1", "--duration", "-5"], "`-5` is not a duration"),
        (&["trace", "-p", "1", "--duration", "99999999999"], "more than 100 years"),
        (&["info", "-p", "-1"], "-1 is not in"),
        (&["info", "-p:x"], "invalid digit"),
        (&["trace", "-p", "1", "--dsrouter", "ios"], "unexpected argument '--dsrouter' found (diagport"),
        (&["trace", "-p", "1", "--buffersize", "0"], "0"),
        (&["trace", "-p", "1", "--buffering-mode", "Sometimes"], "Sometimes"),
        (&["trace", "-p", "1", "--rundown", "perhaps"], "perhaps"),
        (&["trace", "-p", "1", "--format", "Speedscope"], "Speedscope"),
        (&["trace", "-p", "1", "--", "cmd"], "cannot be used with"),
        (&["trace", "--dport", &long], "150 bytes long, the limit is 107"),
        (&["convert", "x"], "--to"),
    ];
    for (arguments, words) in cases {
        let finished = run(&mut diagport(arguments), 2);
        assert!(finished.error().contains(words), "{arguments:?}: {}", finished.text());
        assert_eq!(finished.stderr().lines().count(), 1, "{arguments:?}: {}", finished.text());
    }
}

/// Whoever asked for JSON gets it, however wrong the rest is; a launched command's arguments ask for nothing.
// spec-test: CLI-EXIT-1
#[test]
fn senseless_command_lines_have_their_json() {
    for (arguments, status) in [
        (&["info", "--json"][..], "usage"),
        (&["trace", "--json", "-p", "1", "--duration", "bad"], "usage"),
        (&["nonsense", "--json"], "usage"),
        (&["ps", "--json"], "configuration"),
    ] {
        let code = if status == "usage" { 2 } else { 3 };
        let mut binary = diagport(arguments);
        if status == "configuration" {
            binary.env("DIAGPORT_LOG", "a=b=c");
        }
        let finished = run(&mut binary, code);
        assert_eq!(finished.stdout().lines().count(), 1, "{arguments:?}: {}", finished.text());
        assert_eq!(
            (finished.json()["status"].as_str(), finished.json()["exit_code"].as_i64()),
            (Some(status), Some(i64::from(code)))
        );
    }
    let finished = run(&mut diagport(&["trace", "--duration", "bad", "--", "x", "--json"]), 2);
    assert_eq!(finished.stdout(), "");
}

// spec-test: CLI-LOG-1
#[test]
fn a_senseless_log_filter_is_a_configuration_error() {
    let finished = run(diagport(&["ps"]).env("DIAGPORT_LOG", "a=b=c"), 3);
    assert!(finished.error().contains("DIAGPORT_LOG=a=b=c"), "{}", finished.text());
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in
        [&["--help"][..], &["trace", "--help"], &["trace", "-?"], &["--version"], &["help", "stop"]]
    {
        let finished = run(&mut diagport(arguments), 0);
        assert!(finished.stdout().contains("diagport"), "{arguments:?}: {}", finished.text());
    }
}

#[test]
fn targets_that_are_not_there_are_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let dead = folder.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let own = std::process::id().to_string();
    let cases = [
        (vec!["-p", "4194305"], "process 4194305 does not exist"),
        (vec!["-p", &own], "has no diagnostic port: searched"),
        (vec!["-n", "no-such-program"], "no process named `no-such-program`"),
        (vec!["--port", dead.to_str().unwrap()], "nobody listens there"),
        (vec!["--port", "/nonexistent/port.sock"], "no such socket"),
        (vec!["--port", plain.to_str().unwrap()], "this is no socket"),
        (vec!["--port", folder.path().to_str().unwrap()], "this is no socket"),
    ];
    for (target, words) in cases {
        for command in [&["info"][..], &["env"], &["resume"], &["stop", "--session-id", "1"]] {
            let finished = run(diagport(command).args(&target), 4);
            assert!(finished.error().contains(words), "{command:?} {target:?}: {}", finished.text());
        }
        let finished = run(diagport(&["info", "--json"]).args(&target), 4);
        assert_eq!(finished.json()["status"], "not_found");
        assert!(finished.json()["error"].as_str().unwrap().contains(words), "{}", finished.text());
    }
}

#[test]
fn a_stop_names_its_sessions() {
    let target = FakeTarget::start(SessionScript::default());
    let path = target.path().display().to_string();
    let finished = run(&mut diagport(&["stop", "--port", &path, "--session-id", "77", "0x4D"]), 0);
    assert_eq!(finished.stdout().lines().count(), 2, "{}", finished.text());
    // The fake answers every stop with its own session's id.
    let finished = run(&mut diagport(&["stop", "--port", &path, "--session-id", "5"]), 1);
    assert!(finished.error().contains("session 77 was stopped instead of 5"), "{}", finished.text());
}

// spec-test: CLI-PS-1
#[test]
fn a_list_ends_whatever_is_there() {
    let finished = run(&mut diagport(&["ps", "--json"]), 0);
    assert!(finished.json().is_array(), "{}", finished.text());
    assert!(finished.elapsed.as_secs() < 60, "{:?}", finished.elapsed);
}

/// Whatever a process calls itself, it has one line of the list.
// spec-test: CLI-PS-1, CLI-OUT-1
#[test]
fn a_strange_name_stays_in_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("a\n99999 evil \u{1b}[2J");
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let mut process =
        std::process::Command::new(&program).arg("100").env("TMPDIR", folder.path()).spawn().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let key = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    let port = folder.path().join(format!("dotnet-diagnostic-{}-{key}-socket", process.id()));
    let _listener = std::os::unix::net::UnixListener::bind(port).unwrap();
    let listed = run(diagport(&["ps"]).env("TMPDIR", folder.path()), 0);
    let as_json = run(diagport(&["ps", "--json"]).env("TMPDIR", folder.path()), 0);
    process.kill().unwrap();
    process.wait().unwrap();
    let row = format!("\n{} ", process.id());
    assert!(format!("\n{}", listed.stdout()).contains(&row), "{}", listed.text());
    assert!(!listed.stdout().contains("\n99999") && !listed.stdout().contains('\u{1b}'), "{}", listed.text());
    assert_eq!(as_json.stdout().lines().count(), 1, "{}", as_json.text());
}

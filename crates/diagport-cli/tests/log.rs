//! What the log must never do.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A command that nobody knows: its refusal leaves a line in the log.
const UNKNOWN: &[u8] = b"DOTNET_IPC_V1\0\x14\x00\x04\x7F\x00\x00";
/// Only catches a hang.
const HANG: Duration = Duration::from_secs(60);

/// A standard error that nobody reads holds up nobody, however much there is to say.
// spec-test: CLI-LOG-2
#[test]
fn a_full_standard_error_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (_unread, full) = std::io::pipe().unwrap();
    let mut load = Command::new(env!("CARGO_BIN_EXE_diagport"))
        .arg("load")
        .env("DIAGPORT_LOG", "debug")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(load.stdout.take().unwrap());
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready "), "{line}");
    let port = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    // A pipe holds 64 KB.
    for request in 0..3_000 {
        let mut stream = UnixStream::connect(&port).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.write_all(UNKNOWN).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap_or_else(|error| panic!("request {request}: {error}"));
        assert_eq!(reply[16..18], [0xFF, 0xFF], "request {request}");
    }
    writeln!(load.stdin.take().unwrap(), "exit").unwrap();
    assert!(load.wait().unwrap().success());
}

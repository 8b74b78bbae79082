//! Cases that users of diagnostic ports reported, on finding a port, rights, and starting (T01 to T04 of our list).
//!
//! Times are far above the reported bounds, for a busy machine: they catch what hangs. `field_sessions.rs` and `field_children.rs` hold the others.
#![forbid(unsafe_code)]

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use support::background::{Background, Finished, run};
use support::binary::{diagport, diagport_command};
use support::load::{Load, LoadSetup, Target};
use support::port::{Conversation, Port};
use support::requests::{PROCESS_INFO, RESUME_RUNTIME, message};
use support::script::Advertised;
use support::{HANG, say};

/// Runs our client with `TMPDIR` as its folder of ports.
fn client(folder: &Path, arguments: &[&str]) -> anyhow::Result<Finished> {
    let mut command = diagport_command(arguments)?;
    command.env("TMPDIR", folder).current_dir(folder);
    run(command, HANG)
}

/// T01: stale sockets and a plain file beside the live port, all newer than it.
// spec-test: CLI-FIND-1, CLI-FIND-3, CLI-PS-1
#[test]
fn stale_ports_beside_a_live_one() -> anyhow::Result<()> {
    let (home, dead) = (support::temp_folder()?, dead_pid()?);
    let folder = home.path();
    // A server that starts sweeps its folder of such leftovers, beside its other work. What comes once this one is gone, it does not sweep.
    let leftover = folder.join(format!("dotnet-diagnostic-{dead}-76-socket"));
    drop(UnixListener::bind(&leftover)?);
    let load = LoadSetup::new(Target::Ours).folder(folder).start()?;
    support::await_condition("the end of the sweep", HANG, || leftover.symlink_metadata().is_err())?;
    let decoys = [
        folder.join(format!("dotnet-diagnostic-{}-1-socket", load.pid())),
        folder.join(format!("dotnet-diagnostic-{dead}-77-socket")),
        folder.join(format!("dotnet-diagnostic-{}-2-socket", load.pid())),
    ];
    drop(UnixListener::bind(&decoys[0])?);
    drop(UnixListener::bind(&decoys[1])?);
    std::fs::write(&decoys[2], "")?;
    let mut touch = Command::new("touch");
    touch.args(["-d", "+1 hour"]).args(&decoys);
    run(touch, HANG)?.expect_code(0)?;

    let listed = client(folder, &["ps"])?.expect_code(0)?;
    ensure!(listed.elapsed < Duration::from_secs(20), "ps took {:?}", listed.elapsed);
    let rows = |pid: u32| {
        listed.out().lines().filter(|line| line.split_whitespace().any(|w| w == pid.to_string())).count()
    };
    ensure!((rows(load.pid()), rows(dead)) == (1, 0), "ps shows:\n{}", listed.text());

    let cookie = cookie_of(&port_beside(folder, load.pid(), &decoys)?)?;
    client(folder, &["info", "-p", &load.pid_text()])?.expect_code(0)?.expect_text(&cookie)?;
    let long = format!("/tmp/{}", "x".repeat(145));
    let refused = client(folder, &["info", "--port", &long])?.expect_code(2)?;
    refused.expect_text("150")?.expect_text("107")?;
    for decoy in &decoys {
        ensure!(decoy.symlink_metadata().is_ok(), "{} is gone", decoy.display());
    }
    Ok(())
}

fn dead_pid() -> anyhow::Result<u32> {
    let mut child = Command::new("true").spawn()?;
    child.wait()?;
    Ok(child.id())
}

fn port_beside(folder: &Path, pid: u32, decoys: &[PathBuf]) -> anyhow::Result<Port> {
    let prefix = format!("dotnet-diagnostic-{pid}-");
    let mut paths = std::fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let is_port = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
    Ok(Port::new(paths.find(|path| is_port(path) && !decoys.contains(path)).context("no port")?))
}

/// The runtime cookie as text, from the bytes of a ProcessInfo reply: three little-endian numbers, then eight bytes.
fn cookie_of(port: &Port) -> anyhow::Result<String> {
    let reply = port.ask(PROCESS_INFO, &[])?;
    let b = reply.payload.get(8..24).context("a short ProcessInfo")?;
    let hex = |range: &[u8]| support::requests::hex(range);
    let reversed = |range: &[u8]| hex(&range.iter().rev().copied().collect::<Vec<_>>());
    let parts = [reversed(&b[0..4]), reversed(&b[4..6]), reversed(&b[6..8]), hex(&b[8..10]), hex(&b[10..16])];
    Ok(parts.join("-"))
}

/// T02: nobody else may use the port, from the first instant it is there.
// spec-test: SRV-FILE-1, SRV-FILE-4
#[test]
fn rights_from_the_first_instant() -> anyhow::Result<()> {
    let folder = support::temp_folder()?;
    let binary = diagport()?;
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| -> anyhow::Result<Vec<u32>> {
        let watcher = scope.spawn(|| {
            let mut modes = Vec::new();
            while !done.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                    let meta = entry.metadata();
                    modes.extend(
                        meta.ok()
                            .filter(|m| m.file_type().is_socket())
                            .map(|m| m.permissions().mode() & 0o7777),
                    );
                }
            }
            modes
        });
        let outcome = (0..50).try_for_each(|_| -> anyhow::Result<()> {
            let mut command = Command::new("sh");
            command.args(["-c", "umask 000; exec \"$0\" load"]).arg(binary).env("TMPDIR", folder.path());
            let mut load = Background::start_with_input(command)?;
            load.expect_output("ready", HANG)?;
            load.write_input(b"exit\n")?;
            load.finish(HANG)?.expect_code(0)?;
            Ok(())
        });
        done.store(true, Ordering::Relaxed);
        outcome?;
        watcher.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))
    })?;
    ensure!(!seen.is_empty(), "the watcher saw no socket");
    let open: Vec<&u32> = seen.iter().filter(|mode| **mode & 0o077 != 0).collect();
    ensure!(
        open.is_empty(),
        "{} of {} sightings were open to others, such as {:o}",
        open.len(),
        seen.len(),
        open[0]
    );
    ensure!(std::fs::read_dir(folder.path())?.next().is_none(), "a port file stayed after exit");
    another_user_is_refused()
}

fn another_user_is_refused() -> anyhow::Result<()> {
    if !rustix::process::getuid().is_root() {
        say("skipped: rights_from_the_first_instant, another user: only root can become somebody else");
        return Ok(());
    }
    let load = Load::ours()?;
    std::fs::set_permissions(load.folder(), std::fs::Permissions::from_mode(0o755))?;
    // A copy that the other user can reach, wherever the build is.
    let copy = support::temp_folder()?;
    std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o755))?;
    let binary = copy.path().join("diagport");
    std::fs::copy(diagport()?, &binary)?;
    let as_nobody = |arguments: &[&str]| -> anyhow::Result<Finished> {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary).args(arguments);
        command.env("TMPDIR", load.folder()).current_dir("/");
        run(command, HANG)
    };
    let path = load.port()?.path_text();
    let refused = as_nobody(&["info", "--port", &path])?;
    ensure!(
        refused.code != Some(0) && refused.elapsed < Duration::from_secs(20),
        "{:?} {}",
        refused.code,
        refused.text()
    );
    let text = refused.text();
    for word in [path.as_str(), "65534"] {
        ensure!(text.contains(word), "the message does not name {word}: {text}");
    }
    let by_pid = as_nobody(&["info", "-p", &load.pid_text()])?;
    ensure!(
        by_pid.code != Some(0) && by_pid.elapsed < Duration::from_secs(20),
        "{:?} {}",
        by_pid.code,
        by_pid.text()
    );
    as_nobody(&["ps"])?.expect_code(0)?;
    Ok(())
}

/// How a pause message ends.
const LAST_LINE: &str = "DOTNET_DefaultDiagnosticPortSuspend=0\n";

/// T03: two suspended ports and one that is not; each must be resumed on itself.
// spec-test: SRV-SUSPEND-1, SRV-SUSPEND-3, SRV-CONNECT-1, ADV-1
#[test]
fn two_suspended_ports_and_one_not() -> anyhow::Result<()> {
    let folder = support::temp_folder()?;
    let path = |name: &str| folder.path().join(name);
    let (a, b, c) = (path("A.sock"), path("B.sock"), path("C.sock"));
    let mut listeners = [Advertised::bind(&a)?, Advertised::bind(&b)?, Advertised::bind(&c)?];
    let ports = format!("{};{},suspend;{},nosuspend", a.display(), b.display(), c.display());
    let mut load =
        LoadSetup::new(Target::Ours).folder(folder.path()).env("DOTNET_DiagnosticPorts", ports).launch()?;
    let mut first =
        listeners.each_mut().map(Advertised::accept).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let told = listeners.each_ref().map(|listener| (listener.cookie(), listener.process_id()));
    ensure!(
        told.iter().all(|t| *t == told[0]) && told[0].1 == Some(u64::from(load.pid())),
        "Advertise: {told:?}"
    );

    load.process().expect_error_output("A.sock", Duration::from_secs(15))?;
    load.process().expect_error_output(LAST_LINE, HANG)?;
    let message = load.process().stderr();
    ensure!(names(&message) == [true, true, false], "the pause message: {message}");
    let resume = |conversation: &mut Conversation| -> anyhow::Result<()> {
        conversation.send(&message_of(RESUME_RUNTIME))?;
        let reply = conversation.receive_reply(HANG)?;
        ensure!(reply.is_ok(), "resume: {reply}");
        Ok(())
    };
    resume(&mut first[0])?;
    let before = message.len();
    support::await_condition("a second pause message", Duration::from_secs(15), || {
        load.process().stderr().get(before..).is_some_and(|more| more.contains(LAST_LINE))
    })?;
    let second = load.process().stderr().split_off(before);
    ensure!(names(&second) == [false, true, false], "the second pause message: {second}");

    let own = load.port()?;
    ensure!(own.ask(RESUME_RUNTIME, &[])?.is_ok(), "resume on the default port");
    resume(&mut listeners[0].accept()?)?;
    std::thread::sleep(Duration::from_secs(1));
    ensure!(!load.process().stdout().contains("ready"), "it started before B was resumed");
    resume(&mut first[1])?;
    load.await_ready(HANG)
}

/// Which of the three ports the first line of a pause message names; below it stands the whole setting.
fn names(message: &str) -> [bool; 3] {
    let line = message.lines().next().unwrap_or_default();
    ["A.sock", "B.sock", "C.sock"].map(|name| line.contains(name))
}

fn message_of(command: (u8, u8)) -> Vec<u8> {
    message(command, &[])
}

/// T04: one target of four is frozen; the others are listed at once, and it answers again when it runs.
// spec-test: CLI-PS-1
#[test]
fn a_frozen_target_holds_up_nobody() -> anyhow::Result<()> {
    let folder = support::temp_folder()?;
    let start = || LoadSetup::new(Target::Ours).folder(folder.path()).start();
    let targets = [start()?, start()?, start()?, start()?];
    let frozen = targets[2].pid_text();
    targets[2].process().freeze()?;
    let until = Instant::now() + HANG;
    // All targets together get one second to answer, which a busy machine may keep from a healthy one: then once more.
    while !others_are_ok(folder.path(), &targets, &frozen)? {
        ensure!(Instant::now() < until, "ps never showed all the others as ok");
    }
    let asked = client(folder.path(), &["info", "-p", &frozen, "--timeout", "1s"])?.expect_code(6)?;
    ensure!(asked.elapsed < Duration::from_secs(15), "info took {:?}", asked.elapsed);
    targets[2].process().signal(Signal::CONT)?;
    client(folder.path(), &["info", "-p", &frozen, "--timeout", "60s"])?.expect_code(0)?;
    Ok(())
}

/// One `ps`: a row of each target, the frozen one shown as what it is. Are all the others ok?
fn others_are_ok(folder: &Path, targets: &[Load], frozen: &str) -> anyhow::Result<bool> {
    let listed = client(folder, &["ps"])?.expect_code(0)?;
    ensure!(listed.elapsed < Duration::from_secs(20), "ps took {:?}", listed.elapsed);
    let text = listed.out();
    let mut all = true;
    for target in targets {
        let pid = target.pid_text();
        let rows: Vec<&str> =
            text.lines().filter(|line| line.split_whitespace().next() == Some(pid.as_str())).collect();
        ensure!(rows.len() == 1, "{} rows of {pid}:\n{text}", rows.len());
        if pid == frozen {
            ensure!(rows[0].contains("not responding"), "the row of {pid}: {}", rows[0]);
        } else {
            all &= rows[0].split_whitespace().any(|word| word == "ok");
        }
    }
    Ok(all)
}

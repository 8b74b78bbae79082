//! A command that is launched suspended, so that its first event is recorded.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use diagport_client::{AdvertisedRuntime, Client, Deadline, ReverseServer, Target};
use diagport_transport::{check_path, discover};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::stop_trigger::StopTriggers;
use crate::console;
use crate::exit::{Exit, Failure};

/// How long a launched command may take to connect, unless told otherwise.
pub(crate) const ADVERTISE_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to end by itself behind the recording: Ctrl-C reaches it as well.
const OWN_END_LIMIT: Duration = Duration::from_millis(200);
/// How long it may take to end once asked to.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How long a foreign runtime may take to answer a resume.
const RESUME_LIMIT: Duration = Duration::from_secs(10);

/// The launched command.
#[derive(Debug)]
pub(crate) struct LaunchedChild {
    process: Child,
}

/// Why there is no recording of a launched command.
#[derive(Debug)]
pub(crate) enum LaunchFailure {
    /// For a reason of ours; the command has been ended.
    Failed(Failure),
    /// The command ended by itself without ever connecting.
    ChildEnded {
        /// Its own exit code.
        code: u8,
        /// What to say about it.
        message: String,
    },
}

impl From<Failure> for LaunchFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Launches `command` and waits, for `limit` at most, until it has connected. It inherits our standard streams, and its arguments are
/// exactly those given.
// spec: CLI-CHILD-1
pub(crate) async fn launch(
    command: &[OsString],
    limit: Duration,
    triggers: &mut StopTriggers,
) -> Result<(LaunchedChild, ReverseServer, AdvertisedRuntime), LaunchFailure> {
    let path = socket_path();
    let server = ReverseServer::bind(&path).map_err(Failure::from)?;
    let mut child = LaunchedChild::spawn(command, &path)?;
    let arrival = tokio::select! {
        // The first one. A command that is a runtime itself connects before it can start others; one that is not (a script, a
        // build tool) has what is meant below it.
        runtime = server.accept() => Ok(runtime),
        status = child.process.wait() => Err(Some(status)),
        () = tokio::time::sleep(limit) => Err(None),
        _ = triggers.next() => {
            child.end().await;
            return Err(Failure::new(Exit::Failed, "interrupted before the command had connected").into());
        }
    };
    let program = command[0].to_string_lossy();
    match arrival {
        Ok(runtime) => Ok((child, server, runtime)),
        Err(Some(status)) => {
            let status = status.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
            let message =
                format!("`{program}` ended ({status}) without connecting to the diagnostic port: not traced");
            Err(LaunchFailure::ChildEnded { code: exit_code(status), message })
        }
        Err(None) => {
            child.end().await;
            let message = format!(
                "`{program}` did not connect to {} within {} s, see --timeout (no diagnostic port, or switched off by \
                 DOTNET_EnableDiagnostics=0): ended",
                path.display(),
                limit.as_secs_f64()
            );
            Err(Failure::new(Exit::TimedOut, message).into())
        }
    }
}

impl LaunchedChild {
    fn spawn(command: &[OsString], socket: &Path) -> Result<Self, Failure> {
        let (program, arguments) =
            command.split_first().expect("the argument parser wants one word at least");
        let mut ports = socket.as_os_str().to_owned();
        ports.push(",suspend");
        let spawned = Command::new(program).args(arguments).env("DOTNET_DiagnosticPorts", ports).spawn();
        let process = spawned.map_err(|error| cannot_launch(program, &error))?;
        Ok(Self { process })
    }

    /// Completes once it has ended. Safe to drop half-way.
    pub(crate) async fn ended(&mut self) {
        // Its code is asked for again at the end.
        let _ = self.process.wait().await;
    }

    /// Waits for it to end by itself, or for a trigger: then it is ended.
    pub(crate) async fn wait(&mut self, triggers: &mut StopTriggers) -> Option<u8> {
        tokio::select! {
            status = self.process.wait() => status.ok().map(exit_code),
            _ = triggers.next() => self.end().await,
        }
    }

    /// Asks it to end, and after a while makes it. Its own exit code, if it had ended before it was asked.
    pub(crate) async fn end(&mut self) -> Option<u8> {
        if let Ok(Ok(status)) = tokio::time::timeout(OWN_END_LIMIT, self.process.wait()).await {
            return Some(exit_code(status));
        }
        // Not yet waited for, so the id is still its own.
        if let Some(pid) = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // It may have ended this moment, which is what we want.
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(END_LIMIT, self.process.wait()).await.is_err() {
            console::note("the command does not end when asked to, killing it");
            // The same: it may have ended meanwhile.
            let _ = self.process.kill().await;
        }
        None
    }
}

fn cannot_launch(program: &OsStr, error: &std::io::Error) -> Failure {
    let name = program.to_string_lossy();
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    if is_missing && name.contains('/') && Path::new(program).exists() {
        let message = format!("cannot launch `{name}`: {error}: the file is there, what is to run it is not");
        return Failure::new(Exit::Failed, message);
    }
    let exit = if is_missing { Exit::NotFound } else { Exit::Failed };
    Failure::new(exit, format!("cannot launch `{name}`: {error}"))
}

/// As a shell says it: the code, or 128 and the signal's number.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code & 0xFF).expect("eight bits")
}

/// A path that a port text can hold and that peers can open: in our temp folder if possible.
fn socket_path() -> PathBuf {
    let millis = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis());
    let name = format!("diagport-trace-{}-{millis}.socket", std::process::id());
    let own = std::path::absolute(discover::temp_dir()).unwrap_or_default().join(&name);
    let speakable = own.to_str().is_some_and(|text| !text.contains([',', ';']));
    let is_folder = own.parent().is_some_and(Path::is_dir);
    if speakable && is_folder && check_path(&own).is_ok() { own } else { Path::new("/tmp").join(name) }
}

/// Lets every further runtime that arrives go on: descendants inherit the port, and nobody else resumes them.
// spec: CLI-CHILD-2
pub(crate) fn let_others_go(server: ReverseServer) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let_go(server.accept().await);
        }
    })
}

fn let_go(runtime: AdvertisedRuntime) {
    tokio::spawn(async move {
        let process_id = runtime.process_id();
        let client = Client::new(Target::Advertised(runtime));
        if let Err(error) = client.resume(Deadline::after(RESUME_LIMIT)).await {
            tracing::debug!(process_id, %error, "a further process could not be resumed");
        }
    });
}

//! The scripted target: `diagport load`, or the real .NET `epload` with the same commands and answers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;

use crate::background::{Background, Finished};
use crate::binary::diagport_command;
use crate::peers::Peers;
use crate::port::Port;
use crate::{HANG, temp_folder};

/// Who is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `diagport load`.
    Ours,
    /// `epload` on a real runtime of this version.
    Dotnet(&'static str),
}

/// The server's own count, as the command `sessions` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionCounts {
    /// Sessions that have not ended.
    pub live: u64,
    /// Attempts that an enabled session saw, over the life of the process.
    pub emitted: u64,
    /// Of these, written into a buffer.
    pub written: u64,
    /// Of these, dropped.
    pub dropped: u64,
}

/// How a target is started.
#[derive(Debug)]
pub struct LoadSetup {
    target: Target,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

impl LoadSetup {
    /// A target in a fresh folder of its own (its TMPDIR and working folder).
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, environment: Vec::new(), folder: None }
    }

    /// One environment variable of the target.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Its TMPDIR and working folder, shared with others.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    /// Starts it and waits for `ready`.
    ///
    /// # Errors
    /// When it cannot be started or does not get ready.
    pub fn start(self) -> anyhow::Result<Load> {
        let mut load = self.launch()?;
        load.await_ready(HANG)?;
        Ok(load)
    }

    /// Starts it; a suspended target gets ready only after its resume.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn launch(self) -> anyhow::Result<Load> {
        let own = match self.folder {
            Some(_) => None,
            None => Some(temp_folder()?),
        };
        let folder = match (&self.folder, &own) {
            (Some(folder), _) => folder.clone(),
            (None, Some(own)) => own.path().to_path_buf(),
            (None, None) => bail!("a target needs a folder"),
        };
        let mut command = self.target.command()?;
        command.current_dir(&folder).env("TMPDIR", &folder).env_remove("DOTNET_DiagnosticPorts");
        command.envs(self.environment);
        let process = Background::start_with_input(command)?;
        Ok(Load { target: self.target, process, folder, _own: own })
    }
}

impl Target {
    fn command(self) -> anyhow::Result<Command> {
        match self {
            Self::Ours => diagport_command(&["load"]),
            Self::Dotnet(version) => {
                Peers::find().and_then(|peers| peers.epload(version)).context("no real .NET runtime here")
            }
        }
    }
}

/// A running target; killed with the value.
#[derive(Debug)]
pub struct Load {
    target: Target,
    process: Background,
    folder: PathBuf,
    _own: Option<tempfile::TempDir>,
}

impl Load {
    /// Our own target, ready.
    ///
    /// # Errors
    /// As [`LoadSetup::start`].
    pub fn ours() -> anyhow::Result<Self> {
        LoadSetup::new(Target::Ours).start()
    }

    /// Which target this is.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its process id as tools want it.
    #[must_use]
    pub fn pid_text(&self) -> String {
        self.pid().to_string()
    }

    /// Its TMPDIR.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process behind it.
    #[must_use]
    pub fn process(&self) -> &Background {
        &self.process
    }

    /// Waits for the line `ready PID`.
    ///
    /// # Errors
    /// When another line comes, or none within `limit`.
    pub fn await_ready(&mut self, limit: Duration) -> anyhow::Result<()> {
        let line = self.next_line(limit)?;
        ensure!(line == format!("ready {}", self.pid()), "the target began with {line:?}");
        Ok(())
    }

    /// The file of its default port.
    ///
    /// # Errors
    /// When the folder holds no socket of its pid.
    pub fn port_file(&self) -> anyhow::Result<PathBuf> {
        let prefix = format!("dotnet-diagnostic-{}-", self.pid());
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&prefix) && name.ends_with("-socket")) {
                return Ok(entry.path());
            }
        }
        bail!("{} holds no port of {}", self.folder.display(), self.pid())
    }

    /// Its default port.
    ///
    /// # Errors
    /// As [`Load::port_file`].
    pub fn port(&self) -> anyhow::Result<Port> {
        Ok(Port::new(self.port_file()?))
    }

    /// Sends a command line without waiting for its answer.
    ///
    /// # Errors
    /// When the target has closed its input.
    pub fn send(&mut self, command: &str) -> anyhow::Result<()> {
        self.process.write_input(format!("{command}\n").as_bytes())
    }

    /// The next answer line.
    ///
    /// # Errors
    /// When none comes within `limit`.
    pub fn next_line(&mut self, limit: Duration) -> anyhow::Result<String> {
        self.process.next_line(limit)
    }

    /// Sends a command and waits for its answer line, which must begin with the command's own word.
    ///
    /// # Errors
    /// When another line comes, or none within three minutes.
    pub fn command(&mut self, command: &str) -> anyhow::Result<String> {
        self.send(command)?;
        let word = command.split(' ').next().unwrap_or(command);
        let line = self.next_line(Duration::from_secs(180))?;
        ensure!(line.starts_with(word), "`{command}` was answered with {line:?}");
        Ok(line)
    }

    /// The server's own count (ours only).
    ///
    /// # Errors
    /// When the answer has another form.
    pub fn sessions(&mut self) -> anyhow::Result<SessionCounts> {
        let line = self.command("sessions")?;
        let field = |name: &str| -> anyhow::Result<u64> {
            let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            word.with_context(|| format!("no {name}= in {line:?}"))?.parse().with_context(|| line.clone())
        };
        Ok(SessionCounts {
            live: field("live")?,
            emitted: field("emitted")?,
            written: field("written")?,
            dropped: field("dropped")?,
        })
    }

    /// Waits until the server counts `live` sessions.
    ///
    /// # Errors
    /// When that is not so within `limit`.
    pub fn await_live(&mut self, live: u64, limit: Duration) -> anyhow::Result<Duration> {
        let from = Instant::now();
        loop {
            let counts = self.sessions()?;
            if counts.live == live {
                return Ok(from.elapsed());
            }
            ensure!(from.elapsed() < limit, "{} sessions live after {limit:?}, not {live}", counts.live);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// When it still runs after `limit`.
    pub fn terminate(self, limit: Duration) -> anyhow::Result<Finished> {
        self.process.signal(Signal::TERM)?;
        self.process.finish(limit)
    }

    /// Sends `exit` and waits for the end.
    ///
    /// # Errors
    /// When it still runs after `limit`.
    pub fn exit(mut self, limit: Duration) -> anyhow::Result<Finished> {
        self.send("exit")?;
        self.process.finish(limit)
    }
}

//! The real .NET tools and runtimes, where this machine has them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::background::{Background, Finished, run};
use crate::{HANG, say, workspace_root};

/// Tools that a person may have on PATH without the bundle.
const ON_PATH: [&str; 5] =
    ["dotnet-trace", "dotnet-counters", "dotnet-gcdump", "dotnet-stack", "dotnet-dump"];

/// Real peers: a runner script (`DIAGPORT_PEERS`, or beside the workspace), else the tools on PATH.
#[derive(Debug)]
pub struct Peers {
    runner: Option<PathBuf>,
}

impl Peers {
    /// The peers of this machine.
    #[must_use]
    pub fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Peers>> = OnceLock::new();
        FOUND.get_or_init(Self::look).as_ref()
    }

    fn look() -> Option<Self> {
        let named = std::env::var_os("DIAGPORT_PEERS").map(PathBuf::from);
        let beside = || workspace_root().join("../shared/peers/run");
        let runner = named.unwrap_or_else(beside);
        if runner.is_file() {
            // The first use may unpack a bundle; later uses must not wait for it under their own limit.
            let mut command = Command::new(&runner);
            command.arg("--where");
            if let Err(error) = run(command, Duration::from_secs(300)) {
                say(&format!("{}: {error:#}", runner.display()));
                return None;
            }
            return Some(Self { runner: Some(runner) });
        }
        on_path("dotnet-trace").then_some(Self { runner: None })
    }

    /// The peers if they have all of `programs`; else one line that says what `test` did not do and how to get them.
    #[must_use]
    pub fn or_skip(test: &str, programs: &[&str]) -> Option<&'static Self> {
        static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let found = Self::find().filter(|peers| programs.iter().all(|program| peers.has(program)));
        // Once a test, however many cases it has.
        if found.is_none() && SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(test.to_owned()) {
            say(&format!(
                "skipped: {test}: no real .NET peers ({}) (dotnet tool install -g dotnet-trace, or DIAGPORT_PEERS=path/to/run)",
                programs.join(", ")
            ));
        }
        found
    }

    fn has(&self, program: &str) -> bool {
        self.runner.is_some() || (ON_PATH.contains(&program) && on_path(program))
    }

    /// A command line of `program` (`dotnet-trace`, `tracecheck@2.0.56`, …) that works in the folder `home`.
    #[must_use]
    pub fn command(&self, program: &str, arguments: &[&str], home: &Path) -> Command {
        let mut command = match &self.runner {
            Some(runner) => {
                let mut command = Command::new(runner);
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(arguments).current_dir(home).env("TMPDIR", home).env("DOTNET_NOLOGO", "1");
        command
    }

    /// A command line of the real target `epload` on runtime `version`. `None` where only the tools are here.
    #[must_use]
    pub fn epload(&self, version: &str) -> Option<Command> {
        let mut command = Command::new(self.runner.as_ref()?);
        command.args(["--runtime", version, "epload"]);
        Some(command)
    }

    /// Runs a tool to its end.
    ///
    /// # Errors
    /// When it cannot be started, or hangs.
    pub fn run(&self, program: &str, arguments: &[&str], home: &Path) -> anyhow::Result<Finished> {
        run(self.command(program, arguments, home), HANG)
    }

    /// Starts a tool.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, program: &str, arguments: &[&str], home: &Path) -> anyhow::Result<Background> {
        Background::start(self.command(program, arguments, home))
    }
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

//! LTTng-UST as a peer: Debian's packages, a session daemon and a program of its own, none of which outlives the value.
//!
//! ```text
//!   Lttng::start ──▶ gcc lttng/emitter.c          lttng-sessiond (user space only)
//!   record(channel, burst) ──▶ lttng create … start ──▶ emitter ──▶ lttng stop ──▶ lost? ──▶ lttng destroy, the trace removed
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use support::await_condition;
use support::background::{Background, Finished, run};

use crate::native_producers::Burst;
use crate::native_report::Emitted;

const INSTALL_WITHIN: Duration = Duration::from_secs(300);
const COMMAND_WITHIN: Duration = Duration::from_secs(30);
const DAEMON_WITHIN: Duration = Duration::from_secs(20);
const EMITTER_WITHIN: Duration = Duration::from_secs(180);
const SESSION: &str = "bench";
const CHANNEL: &str = "ticks";
const EVENT: &str = "bench:tick";
const SOURCES: [(&str, &str); 2] = [
    ("emitter.c", include_str!("lttng/emitter.c")),
    ("emitter_events.h", include_str!("lttng/emitter_events.h")),
];
/// Memory, where the system has such a folder: a disk is not what is compared.
const MEMORY_FOLDER: &str = "/dev/shm";
/// What a daemon and the programs that talk to it leave behind. Removed if it was not there before.
const LEFT_BEHIND: [&str; 3] = ["/var/run/lttng", "/dev/shm/lttng-ust-wait-8", "/dev/shm/lttng-ust-wait-8-0"];
/// Ends the daemon at the end of its own standard input: that comes even where the benchmark is killed.
const WATCHED_DAEMON: &str = r#"
lttng-sessiond --no-kernel < /dev/null &
daemon=$!
cat > /dev/null
kill $daemon
for try in 1 2 3 4 5 6 7 8 9 10; do kill -0 $daemon 2> /dev/null || break; sleep 0.5; done
kill -9 $daemon 2> /dev/null
rm -rf "$@"
"#;

/// What to do about packages that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Install them, if this is Debian and we are root.
    Install,
    /// Name them.
    Look,
}

/// Is all there that [`Lttng::start`] needs?
///
/// # Errors
/// What is missing, in words that follow the peer's name.
pub(crate) fn look(setup: Setup) -> Result<(), String> {
    let mut missing = missing_packages();
    if !missing.is_empty() && setup == Setup::Install && rustix::process::geteuid().is_root() {
        install(&missing).map_err(|error| format!("could not be installed: {error:#}"))?;
        missing = missing_packages();
    }
    if !missing.is_empty() {
        return Err(format!("is not here: install {}, as `--peer lttng` does for root", missing.join(" ")));
    }
    if cfg!(not(target_arch = "x86_64")) {
        return Err("is driven on x86-64 only".to_owned());
    }
    match daemon_answers() {
        true => Err("is in use: a session daemon runs already, and it is not ours to stop".to_owned()),
        false => Ok(()),
    }
}

fn missing_packages() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let mut missing = Vec::new();
    if !(program("lttng") && program("lttng-sessiond")) {
        missing.push("lttng-tools");
    }
    let of_machine = format!("{}-linux-gnu/lttng/tracepoint.h", std::env::consts::ARCH);
    if !["lttng/tracepoint.h", &of_machine].iter().any(|name| Path::new("/usr/include").join(name).is_file())
    {
        missing.push("liblttng-ust-dev");
    }
    if !program("gcc") {
        missing.extend(["gcc", "libc6-dev"]);
    }
    missing
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        // The package starts a system-wide daemon otherwise, which would be in the way of ours.
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        run(command, INSTALL_WITHIN)?.expect_code(0)
    };
    eprintln!("installing {}", packages.join(" "));
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())?;
    Ok(())
}

fn daemon_answers() -> bool {
    lttng(&["--no-sessiond", "list"], None).is_ok()
}

fn lttng(words: &[&str], home: Option<&Path>) -> anyhow::Result<Finished> {
    let mut command = Command::new("lttng");
    command.args(words);
    if let Some(home) = home {
        command.env("LTTNG_HOME", home);
    }
    run(command, COMMAND_WITHIN)?.expect_code(0)
}

/// What becomes of an event that finds its buffer full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    Discard,
    /// For ever.
    Block,
}

/// Buffers per user, a set for each processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel {
    pub(crate) when_full: WhenFull,
    /// Of each processor.
    pub(crate) subbuffers: u32,
    pub(crate) subbuffer_kb: u32,
}

/// A recorded burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded {
    pub(crate) emitted: Emitted,
    /// By LTTng's own count, those of the warm-up included.
    pub(crate) lost: u64,
}

/// A session daemon without kernel tracing, and the compiled emitter.
#[derive(Debug)]
pub(crate) struct Lttng {
    daemon: Option<Background>,
    home: tempfile::TempDir,
    /// Traces, in memory where that is possible.
    traces: tempfile::TempDir,
    emitter: PathBuf,
    /// Last: goes when the daemon has gone.
    _left_behind: LeftBehind,
}

impl Lttng {
    pub(crate) fn start() -> anyhow::Result<Self> {
        ensure!(!daemon_answers(), "an LTTng session daemon runs here already");
        let home = support::temp_folder()?;
        let memory = Path::new(MEMORY_FOLDER);
        let traces = match memory.is_dir() {
            true => tempfile::Builder::new().prefix("dpt-").tempdir_in(memory)?,
            false => support::temp_folder()?,
        };
        let emitter = compile(home.path())?;
        let left_behind = LeftBehind::watch();
        let mut command = Command::new("sh");
        command.args(["-c", WATCHED_DAEMON, "sh"]).arg(home.path()).arg(traces.path()).args(&left_behind.new);
        command.env("LTTNG_HOME", home.path());
        let daemon = Some(Background::start_with_input(command)?);
        let this = Self { daemon, home, traces, emitter, _left_behind: left_behind };
        let what = "an LTTng session daemon that answers";
        await_condition(what, DAEMON_WITHIN, || this.lttng(&["--no-sessiond", "list"]).is_ok())?;
        Ok(this)
    }

    /// Runs `burst` in a session of its own.
    pub(crate) fn record(&self, channel: Channel, burst: &Burst) -> anyhow::Result<Recorded> {
        let output = self.traces.path().join("trace");
        self.begin(channel, &output)?;
        let mut emitter = Command::new(&self.emitter);
        emitter.args(burst.words()).env("LTTNG_HOME", self.home.path());
        emitter.env("LTTNG_UST_REGISTER_TIMEOUT", "5000");
        if channel.when_full == WhenFull::Block {
            emitter.env("LTTNG_UST_ALLOW_BLOCKING", "1");
        }
        let finished = run(emitter, EMITTER_WITHIN)?.expect_code(0)?;
        self.lttng(&["stop", SESSION])?;
        let lost = lost_events(&self.lttng(&["list", SESSION])?.out())?;
        self.lttng(&["destroy", SESSION])?;
        std::fs::remove_dir_all(&output).with_context(|| output.display().to_string())?;
        Ok(Recorded { emitted: finished.out().trim().parse()?, lost })
    }

    fn begin(&self, channel: Channel, output: &Path) -> anyhow::Result<()> {
        let in_session = format!("--session={SESSION}");
        let subbuffers = format!("--num-subbuf={}", channel.subbuffers);
        let size = format!("--subbuf-size={}K", channel.subbuffer_kb);
        self.lttng(&["create", SESSION, &format!("--output={}", output.display())])?;
        let mut enable =
            vec!["enable-channel", "--userspace", &in_session, CHANNEL, "--buffers-uid", "--discard"];
        enable.extend([subbuffers.as_str(), size.as_str()]);
        if channel.when_full == WhenFull::Block {
            enable.push("--blocking-timeout=inf");
        }
        self.lttng(&enable)?;
        let in_channel = format!("--channel={CHANNEL}");
        self.lttng(&["enable-event", "--userspace", &in_session, &in_channel, EVENT])?;
        self.lttng(&["start", SESSION])?;
        Ok(())
    }

    fn lttng(&self, words: &[&str]) -> anyhow::Result<Finished> {
        lttng(words, Some(self.home.path()))
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.close_input();
            // One that does not end is killed with its group; there is nobody to tell.
            daemon.finish(COMMAND_WITHIN).ok();
        }
    }
}

/// Removes on drop what was not there at its beginning.
#[derive(Debug)]
struct LeftBehind {
    new: Vec<&'static str>,
}

impl LeftBehind {
    fn watch() -> Self {
        Self { new: LEFT_BEHIND.into_iter().filter(|path| !Path::new(path).exists()).collect() }
    }
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        for path in self.new.iter().map(Path::new) {
            // What never came need not go.
            if path.is_dir() {
                std::fs::remove_dir_all(path).ok();
            } else {
                std::fs::remove_file(path).ok();
            }
        }
    }
}

/// The price of a call of the tracepoint where no daemon runs.
pub(crate) fn disabled_ns(events: u64) -> anyhow::Result<f64> {
    let folder = support::temp_folder()?;
    let _left_behind = LeftBehind::watch();
    let mut emitter = Command::new(compile(folder.path())?);
    emitter.args(["1", &events.to_string(), "0", "disabled", "0"]).env("LTTNG_HOME", folder.path());
    let line = run(emitter, EMITTER_WITHIN)?.expect_code(0)?.out();
    Ok(line.trim().parse::<Emitted>()?.cpu_ns)
}

fn compile(folder: &Path) -> anyhow::Result<PathBuf> {
    for (name, text) in SOURCES {
        std::fs::write(folder.join(name), text)?;
    }
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-I.", "emitter.c", "-o", "emitter", "-llttng-ust", "-ldl", "-lpthread"]);
    gcc.current_dir(folder);
    run(gcc, COMMAND_WITHIN)?.expect_code(0)?;
    Ok(folder.join("emitter"))
}

/// `lttng list` 2.13 adds 2^63 to the count in many runs that lost events; the low 63 bits are right.
fn lost_events(list: &str) -> anyhow::Result<u64> {
    let count = list.lines().find_map(|line| line.trim().strip_prefix("Discarded events:"));
    let count = count.with_context(|| format!("no count of discarded events in:\n{list}"))?.trim();
    let count: u64 = count.parse().with_context(|| count.to_owned())?;
    Ok(count & (u64::MAX >> 1))
}

//! A target inside this program, for what the scripted one cannot do: a rundown, and the time of every single emit.
//!
//! One command a line, one answer a line: `timed THREADS EVENTS`, `rundown COUNT`, `counts`.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use diagport_server::{OwnProcess, ServerBuilder};
use diagport_session::{Event, EventDefinition, EventLevel, EventPipe, ProcessDescription};
use support::background::Background;
use support::{HANG, temp_folder};

use crate::emit_times::EmitTimes;

/// Name of the provider of `timed`, whose event 1 has the shape of a Tick.
pub(crate) const PROVIDER: &str = "Peer-Load";
/// Name of the provider of the rundown, event 1.
pub(crate) const RUNDOWN_PROVIDER: &str = "Peer-Load-Rundown";
/// Payload of an event of the rundown.
pub(crate) const RUNDOWN_BYTES: usize = 200;
const TICKS: u64 = 1;

/// The target, running; it ends with the value.
#[derive(Debug)]
pub(crate) struct Embedded {
    process: Background,
    folder: tempfile::TempDir,
}

impl Embedded {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let folder = temp_folder()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--target").env("TMPDIR", folder.path()).current_dir(folder.path());
        let process = Background::start_with_input(command)?;
        let mut target = Self { process, folder };
        ensure!(target.process.next_line(HANG)? == "ready", "the target is not ready");
        Ok(target)
    }

    /// The file of its port.
    pub(crate) fn port_file(&self) -> anyhow::Result<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path())?.collect::<std::io::Result<Vec<_>>>()?;
        let mut sockets = entries.iter().map(std::fs::DirEntry::path).filter(|path| is_port(path));
        sockets.next().context("the target has no port")
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn command(&mut self, command: &str) -> anyhow::Result<String> {
        self.process.write_input(format!("{command}\n").as_bytes())?;
        self.process.next_line(HANG)
    }
}

fn is_port(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with("-socket"))
}

/// The target itself.
///
/// # Errors
/// Where it gets no port, or its input makes no sense.
pub(crate) fn serve() -> anyhow::Result<()> {
    let pipe = EventPipe::new(ProcessDescription::of_this_process());
    let definition = EventDefinition::new(1, "Tick").keywords(TICKS).level(EventLevel::Informational);
    let tick =
        pipe.provider(PROVIDER).define::<(i64, i64, String)>(definition, ["index", "thread", "text"])?;
    let definition = EventDefinition::new(1, "Method").level(EventLevel::Informational);
    let method = pipe.provider(RUNDOWN_PROVIDER).define::<(i64, String)>(definition, ["address", "name"])?;
    let methods = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&methods);
    // Two bytes a character and the terminator.
    let name = "n".repeat((RUNDOWN_BYTES - 8) / 2 - 1);
    pipe.on_rundown(move |out| {
        for address in 0..count.load(Ordering::Relaxed) {
            out.write(&method, (address as i64, &name));
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let environment = |name: &str| std::env::var(name).ok();
    let server = {
        let _entered = runtime.enter();
        ServerBuilder::from_environment(pipe.clone(), Arc::new(OwnProcess::new()), environment).start()?
    };
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["timed", threads, events] => println!("{}", timed(&tick, threads.parse()?, events.parse()?)?),
            ["rundown", count] => {
                methods.store(count.parse()?, Ordering::Relaxed);
                println!("rundown {count}");
            }
            ["counts"] => println!("counts {}", pipe.statistics()),
            _ => anyhow::bail!("{line:?} is no command"),
        }
        std::io::stdout().flush()?;
    }
    drop(server);
    Ok(())
}

fn timed(tick: &Event<(i64, i64, String)>, threads: u64, events: u64) -> anyhow::Result<String> {
    let enabled = tick.is_enabled();
    let from = Instant::now();
    let times = std::thread::scope(|scope| {
        let emitting: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut times = EmitTimes::default();
                    for index in 0..events {
                        let from = Instant::now();
                        tick.write((index as i64, thread as i64, "0123456789abcdef"));
                        times.add(from.elapsed());
                    }
                    times
                })
            })
            .collect();
        let mut all = EmitTimes::default();
        for thread in emitting {
            all.merge(&thread.join().map_err(|_| anyhow::anyhow!("an emitting thread panicked"))?);
        }
        anyhow::Ok(all)
    })?;
    Ok(format!(
        "timed enabled={enabled} seconds={:.6} p50_ns={} p99_ns={} p9999_ns={} max_ns={}",
        from.elapsed().as_secs_f64(),
        times.quantile_ns(0.5),
        times.quantile_ns(0.99),
        times.quantile_ns(0.9999),
        times.max_ns()
    ))
}

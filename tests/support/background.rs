//! A child process that is watched: its output is kept as it comes, and it never outlives the value.

use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::process_facts::is_stopped;
use crate::{HANG, await_condition};

/// What a child wrote to one of its streams up to now.
#[derive(Debug, Clone, Default)]
struct Collected {
    stream: Arc<Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    ended: bool,
}

impl Collected {
    fn read(&self, mut from: impl Read + Send + 'static) -> JoinHandle<()> {
        let stream = Arc::clone(&self.stream);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            loop {
                let got = from.read(&mut buffer).unwrap_or(0);
                let mut state = stream.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.bytes.extend_from_slice(&buffer[..got]);
                state.ended = got == 0;
                stream.changed.notify_all();
                if got == 0 {
                    return;
                }
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.stream.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Waits until the output holds `needle`; false when it ended or `limit` passed without.
    fn wait_for(&self, needle: &str, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state();
        loop {
            if state.bytes.windows(needle.len()).any(|window| window == needle.as_bytes()) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return false;
            }
            state = self.stream.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Collected {
    /// Waits for the `number`-th whole line, counted from 0; None when the output ended or `limit` passed without.
    fn line(&self, number: usize, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        let mut state = self.state();
        loop {
            let mut whole =
                state.bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
            if let Some(line) = whole.nth(number) {
                return Some(String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']).to_owned());
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return None;
            }
            state = self.stream.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// How a child ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Everything on standard output.
    pub stdout: Vec<u8>,
    /// Everything on standard error.
    pub stderr: Vec<u8>,
    /// From start to end.
    pub elapsed: Duration,
    line: String,
}

impl Finished {
    /// Both streams as text, output first.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.stdout), String::from_utf8_lossy(&self.stderr))
    }

    /// Standard output as text.
    #[must_use]
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// # Errors
    /// Shows the command and all it printed unless it exited with `code`.
    pub fn expect_code(self, code: i32) -> anyhow::Result<Self> {
        ensure!(
            self.code == Some(code),
            "`{}` exited with {:?}, not {code}:\n{}",
            self.line,
            self.code,
            self.text()
        );
        Ok(self)
    }

    /// # Errors
    /// Shows the command and all it printed unless it printed `needle`.
    pub fn expect_text(self, needle: &str) -> anyhow::Result<Self> {
        ensure!(self.text().contains(needle), "`{}` never said {needle:?}:\n{}", self.line, self.text());
        Ok(self)
    }
}

/// A running child in a process group of its own; the whole group is killed on drop.
#[derive(Debug)]
pub struct Background {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Collected,
    stderr: Collected,
    readers: Vec<JoinHandle<()>>,
    began: Instant,
    line: String,
    lines_read: usize,
}

impl Background {
    /// The next line of its standard output.
    ///
    /// # Errors
    /// Shows what it printed when none comes within `limit`.
    pub fn next_line(&mut self, limit: Duration) -> anyhow::Result<String> {
        let Some(line) = self.stdout.line(self.lines_read, limit) else {
            bail!(
                "no further line from `{}` within {limit:?}:\n{}{}",
                self.line,
                self.stdout(),
                self.stderr()
            );
        };
        self.lines_read += 1;
        Ok(line)
    }

    /// Starts `command` with its standard input at the end.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: Command) -> anyhow::Result<Self> {
        Self::spawn(command, Stdio::null())
    }

    /// Starts `command` with a standard input that [`Background::write_input`] feeds.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_with_input(command: Command) -> anyhow::Result<Self> {
        Self::spawn(command, Stdio::piped())
    }

    fn spawn(command: Command, stdin: Stdio) -> anyhow::Result<Self> {
        let mut command = with_default_signals(command);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
        let (stdout, stderr) = (Collected::default(), Collected::default());
        let mut readers = Vec::new();
        readers.extend(child.stdout.take().map(|pipe| stdout.read(pipe)));
        readers.extend(child.stderr.take().map(|pipe| stderr.read(pipe)));
        let stdin = child.stdin.take();
        Ok(Self { child, stdin, stdout, stderr, readers, began: Instant::now(), line, lines_read: 0 })
    }

    /// Process id of the child.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output up to now.
    #[must_use]
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.bytes()).into_owned()
    }

    /// Standard error up to now.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.bytes()).into_owned()
    }

    /// Writes to the child's standard input.
    ///
    /// # Errors
    /// When it has none, or has closed it.
    pub fn write_input(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("the child has no standard input")?;
        stdin
            .write_all(bytes)
            .and_then(|()| stdin.flush())
            .with_context(|| format!("input of `{}`", self.line))
    }

    /// Brings the child's standard input to its end.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits until standard output holds `needle`.
    ///
    /// # Errors
    /// Shows all output when the child ended without it or `limit` passed.
    pub fn expect_output(&self, needle: &str, limit: Duration) -> anyhow::Result<()> {
        if self.stdout.wait_for(needle, limit) {
            return Ok(());
        }
        bail!("`{}` did not say {needle:?}:\n{}{}", self.line, self.stdout(), self.stderr())
    }

    /// Waits until standard error holds `needle`.
    ///
    /// # Errors
    /// Shows all output when the child ended without it or `limit` passed.
    pub fn expect_error_output(&self, needle: &str, limit: Duration) -> anyhow::Result<()> {
        if self.stderr.wait_for(needle, limit) {
            return Ok(());
        }
        bail!("`{}` did not say {needle:?}:\n{}{}", self.line, self.stdout(), self.stderr())
    }

    /// Sends a signal to the child alone.
    ///
    /// # Errors
    /// When the child is gone already.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid())?).context("pid 0")?;
        kill_process(pid, signal).with_context(|| format!("{signal:?} to `{}`", self.line))
    }

    /// Sends SIGSTOP to the child and waits until none of its threads runs any more: on a busy machine that takes a while.
    ///
    /// # Errors
    /// When the child is gone already, or does not stop.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        let pid = self.pid();
        await_condition("a child that stands still", HANG, || is_stopped(pid).is_ok_and(|stopped| stopped))?;
        Ok(())
    }

    /// Has the child ended?
    ///
    /// # Errors
    /// When the system cannot say.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for the end of the child and of its output.
    ///
    /// # Errors
    /// When it still runs after `limit`: it is killed, and the error shows what it had printed. When somebody else goes on holding its output.
    pub fn finish(mut self, limit: Duration) -> anyhow::Result<Finished> {
        let until = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= until {
                self.kill_group();
                bail!("`{}` still ran after {limit:?}:\n{}{}", self.line, self.stdout(), self.stderr());
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        let elapsed = self.began.elapsed();
        // A grandchild may hold the pipes for ever. What has come until then may not be all, so nothing is judged by it.
        let line = &self.line;
        await_condition(&format!("the end of what `{line}` prints, which has ended"), HANG, || {
            self.readers.iter().all(JoinHandle::is_finished)
        })
        .with_context(|| format!("up to now:\n{}{}", self.stdout(), self.stderr()))?;
        Ok(Finished {
            code: status.code(),
            stdout: self.stdout.bytes(),
            stderr: self.stderr.bytes(),
            elapsed,
            line: self.line.clone(),
        })
    }

    fn kill_group(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The group may be gone: nothing to do then.
            kill_process_group(pid, Signal::KILL).ok();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill_group();
        }
        self.child.wait().ok();
    }
}

/// A test run behind `nohup` or a shell's `&` ignores signals, and so would every child, since what is ignored is inherited.
/// GNU `env` gives a child the usual dispositions and then becomes it; elsewhere `command` stays as it is.
fn with_default_signals(command: Command) -> Command {
    const SIGNALS: &str = "--default-signal=INT,HUP,QUIT,TERM";
    static ENV_CAN: LazyLock<bool> = LazyLock::new(|| {
        let mut probe = Command::new("env");
        probe.args([SIGNALS, "true"]).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    if !*ENV_CAN {
        return command;
    }
    let mut wrapped = Command::new("env");
    wrapped.arg(SIGNALS).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

/// Starts `command` and waits for its end.
///
/// # Errors
/// When it cannot be started or still runs after `limit`.
pub fn run(command: Command, limit: Duration) -> anyhow::Result<Finished> {
    Background::start(command)?.finish(limit)
}

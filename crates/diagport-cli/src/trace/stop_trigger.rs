//! What a person or a script does to end a recording: a signal, or Enter.

use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::{Exit, Failure};

/// Somebody wants the recording to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// SIGINT, SIGTERM, SIGQUIT or SIGHUP.
    Signal,
    /// A line on standard input.
    Enter,
}

/// All triggers in order. The first asks for a clean end, the next means "leave now".
#[derive(Debug)]
pub(crate) struct StopTriggers {
    sender: mpsc::UnboundedSender<Trigger>,
    receiver: mpsc::UnboundedReceiver<Trigger>,
}

impl StopTriggers {
    /// Takes over the signals. Needs a tokio runtime.
    // spec: CLI-STOPPING-1
    pub(crate) fn install() -> Result<Self, Failure> {
        let (sender, receiver) = mpsc::unbounded_channel();
        for kind in
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit(), SignalKind::hangup()]
        {
            // `nohup` says that a hang-up shall mean nothing.
            if kind == SignalKind::hangup() && is_hangup_ignored() {
                continue;
            }
            let mut signals = signal(kind)
                .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen to signals: {error}")))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() && sender.send(Trigger::Signal).is_ok() {}
            });
        }
        Ok(Self { sender, receiver })
    }

    /// Lets Enter be a trigger too, from now on, where standard input is a terminal or a pipe. The end of standard
    /// input, `/dev/null` and files mean nothing.
    // spec: CLI-STOPPING-2
    pub(crate) fn watch_enter(&self) {
        let stdin = std::io::stdin();
        let kind = rustix::fs::fstat(stdin.as_fd()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let can_be_typed = stdin.is_terminal() || matches!(kind, Ok(FileType::Fifo | FileType::Socket));
        if !can_be_typed {
            return;
        }
        let sender = self.sender.clone();
        // A thread of its own, never joined: a read of standard input cannot be taken back.
        let started =
            thread::Builder::new().name("trace-enter".to_owned()).spawn(move || wait_for_enter(&sender));
        if let Err(error) = started {
            tracing::debug!(%error, "Enter will not be noticed");
        }
    }

    /// The next trigger. Safe to drop half-way.
    pub(crate) async fn next(&mut self) -> Trigger {
        self.receiver.recv().await.expect("we hold a sender ourselves")
    }
}

fn wait_for_enter(sender: &mpsc::UnboundedSender<Trigger>) {
    let stdin = std::io::stdin();
    let quarter_second = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
    loop {
        // A background job that reads its terminal is stopped by the kernel.
        if stdin.is_terminal() && !is_foreground() {
            thread::sleep(std::time::Duration::from_millis(250));
            continue;
        }
        let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut waiting, Some(&quarter_second)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let mut bytes = [0; 256];
        match stdin.lock().read(&mut bytes) {
            Ok(0) => return,
            Ok(count) if bytes[..count].contains(&b'\n') => {
                if sender.send(Trigger::Enter).is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn is_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

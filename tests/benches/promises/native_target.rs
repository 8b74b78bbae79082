//! Drives the native emitter over its real port, and reads what it streams as any client would.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use diagport_nettrace::{Reader, Record};
use support::background::Background;
use support::requests::{Collect, Mode};
use support::{HANG, temp_folder};

use crate::native_emitter::{PROVIDER, Shape};
use crate::native_producers::Burst;
use crate::native_report::{Emitted, field};
use crate::native_socket::{Arrived, Inbox};
use crate::plain_client::{Counting, PlainClient, Session};

const EMIT_WITHIN: Duration = Duration::from_secs(180);

/// A recorded burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded {
    pub(crate) emitted: Emitted,
    /// By the server's own count, those of the warm-up included, summed over all sessions.
    pub(crate) lost: u64,
    /// Of the event blocks of the first session.
    pub(crate) bytes: u64,
    /// From the order to emit to the last byte of that stream.
    pub(crate) seconds: f64,
}

/// What a session is asked to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) mode: Mode,
    /// A whole number of megabytes is asked for over the wire, anything else within the process.
    pub(crate) budget_kb: u32,
}

impl Buffers {
    pub(crate) const fn dropping_mb(megabytes: u32) -> Self {
        Self { mode: Mode::Drop, budget_kb: megabytes << 10 }
    }

    pub(crate) const fn blocking_mb(megabytes: u32) -> Self {
        Self { mode: Mode::Block, budget_kb: megabytes << 10 }
    }

    fn request(self) -> Vec<u8> {
        let collect = match self.mode {
            Mode::Drop => Collect::ticks(6, self.budget_kb >> 10),
            Mode::Block => Collect::block(self.budget_kb >> 10),
        };
        collect.providers(&[(PROVIDER, u64::MAX, 5)]).message()
    }
}

/// Reads a session's stream.
enum Reading {
    Port(Counting),
    Socket(Inbox),
}

impl Reading {
    fn finish(self) -> anyhow::Result<Arrived> {
        match self {
            Self::Socket(inbox) => inbox.finish(),
            Self::Port(counting) => {
                let end = counting.finish()?;
                ensure!(end.blocks.complete, "the stream has no end");
                Ok(Arrived { bytes: end.blocks.bytes, last_byte: end.last_byte })
            }
        }
    }
}

/// A running emitter; ends with the value.
#[derive(Debug)]
pub(crate) struct Native {
    process: Background,
    port: PathBuf,
    folder: tempfile::TempDir,
}

impl Native {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let folder = temp_folder()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--native-emitter").env("TMPDIR", folder.path()).env_remove("DOTNET_DiagnosticPorts");
        let process = Background::start_with_input(command)?;
        let mut this = Self { process, port: PathBuf::new(), folder };
        let ready = this.process.next_line(HANG)?;
        this.port = Path::new(ready.strip_prefix("ready ").context(ready.clone())?).to_owned();
        Ok(this)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// One order, one answer line.
    pub(crate) fn order(&mut self, line: &str) -> anyhow::Result<String> {
        self.process.write_input(format!("{line}\n").as_bytes())?;
        self.process.next_line(EMIT_WITHIN)
    }

    /// Opens a socket for what an order makes the emitter write.
    pub(crate) fn inbox(&self) -> anyhow::Result<Inbox> {
        Inbox::open(self.folder.path())
    }

    /// Runs `burst` in `sessions` sessions at once, their streams counted.
    pub(crate) fn record(
        &mut self,
        sessions: u64,
        buffers: Buffers,
        burst: &Burst,
        shape: Shape,
    ) -> anyhow::Result<Recorded> {
        let readers = (0..sessions).map(|_| self.begin(buffers)).collect::<anyhow::Result<Vec<_>>>()?;
        let recorded = self.run(readers, burst, shape)?;
        // Whatever the sessions lost, the first may have lost all of it.
        let delivered = burst.attempts().saturating_sub(recorded.lost);
        let least = delivered * shape.bytes();
        ensure!(recorded.bytes >= least, "{} bytes cannot hold {delivered} events", recorded.bytes);
        Ok(recorded)
    }

    fn begin(&mut self, buffers: Buffers) -> anyhow::Result<(u64, Reading)> {
        if buffers.budget_kb.is_multiple_of(1 << 10) {
            let session = Session::start(&self.port, &buffers.request())?;
            return Ok((session.id, Reading::Port(session.count(None))));
        }
        let inbox = self.inbox()?;
        let mode = match buffers.mode {
            Mode::Drop => "drop",
            Mode::Block => "block",
        };
        let line = self.order(&format!("stream {} {mode} {}", buffers.budget_kb, inbox.path().display()))?;
        let id = line.strip_prefix("streaming ").context(line.clone())?;
        Ok((id.parse()?, Reading::Socket(inbox)))
    }

    fn run(&mut self, readers: Vec<(u64, Reading)>, burst: &Burst, shape: Shape) -> anyhow::Result<Recorded> {
        let sessions = readers.len() as u64;
        let before = self.counts()?;
        let began = Instant::now();
        let emitted: Emitted = self.emit(burst, shape)?;
        let mut first = None;
        for (id, reader) in readers {
            self.stop(id)?;
            first.get_or_insert(reader.finish()?);
        }
        let after = self.counts()?;
        let (seen, attempts) = (after.emitted - before.emitted, sessions * burst.attempts());
        ensure!(seen == attempts, "{sessions} sessions saw {seen} attempts of {attempts}");
        let Arrived { bytes, last_byte } = first.context("no session")?;
        let seconds = last_byte.saturating_duration_since(began).as_secs_f64();
        Ok(Recorded { emitted, lost: after.dropped - before.dropped, bytes, seconds })
    }

    fn emit(&mut self, burst: &Burst, shape: Shape) -> anyhow::Result<Emitted> {
        self.order(&format!("emit {} {}", burst.words().join(" "), shape.bytes()))?.parse()
    }

    fn stop(&self, id: u64) -> anyhow::Result<()> {
        PlainClient::new(&self.port).stop(id, HANG)?.context("StopTracing is not answered")?;
        Ok(())
    }

    /// Runs `burst` in a Block session and looks at each event that arrives.
    ///
    /// # Errors
    /// Unless every event of every producer has arrived, in its producer's order.
    pub(crate) fn check_complete(&mut self, megabytes: u32, burst: &Burst) -> anyhow::Result<()> {
        let session = Session::start(&self.port, &Buffers::blocking_mb(megabytes).request())?;
        let id = session.id;
        let reader = session.keep(None);
        self.emit(burst, Shape::Bytes40)?;
        self.stop(id)?;
        let (_, bytes) = reader.finish()?;
        let mut stream = Reader::new();
        let mut producers = vec![Sequence::new(burst.warm_up); usize::try_from(burst.threads)?];
        for piece in bytes.chunks(1 << 20) {
            stream.feed(piece);
            while let Some(record) = stream.next_record()? {
                if let Record::Event(event) = record
                    && event.definition.provider == PROVIDER
                {
                    let thread = usize::try_from(number(&event.payload, 8)?)?;
                    producers
                        .get_mut(thread)
                        .context("a thread too many")?
                        .see(number(&event.payload, 0)?)?;
                }
            }
        }
        for (thread, sequence) in producers.iter().enumerate() {
            ensure!(sequence.seen == burst.events + burst.warm_up, "of thread {thread}: {sequence:?}");
        }
        Ok(())
    }

    fn counts(&mut self) -> anyhow::Result<Counts> {
        let line = self.order("counts")?;
        Ok(Counts { emitted: field(&line, "emitted")?, dropped: field(&line, "dropped")? })
    }
}

/// The server's own count, over the life of the process.
struct Counts {
    emitted: u64,
    dropped: u64,
}

/// What one producer's events must be: 0, 1, 2, … through the warm-up, and again from 0.
#[derive(Debug, Clone)]
struct Sequence {
    warm_up: u64,
    seen: u64,
    next: u64,
}

impl Sequence {
    fn new(warm_up: u64) -> Self {
        Self { warm_up, seen: 0, next: 0 }
    }

    fn see(&mut self, index: u64) -> anyhow::Result<()> {
        let restarts = index == 0 && self.seen == self.warm_up;
        ensure!(index == self.next || restarts, "event {index} where {} is due", self.next);
        self.seen += 1;
        self.next = index + 1;
        Ok(())
    }
}

fn number(payload: &[u8], at: usize) -> anyhow::Result<u64> {
    let bytes = payload.get(at..).and_then(|rest| rest.first_chunk::<8>());
    bytes.map(|bytes| u64::from_le_bytes(*bytes)).context("a payload that is too short")
}

//! A plain Unix socket between the emitter and the benchmark: for sessions that no request of the wire can ask for, and as the yardstick of a stream.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use diagport_session::Sink;
use support::HANG;

/// As the plain client of all cases reads.
const READ_BYTES: usize = 256 * 1024;
const RAW_WRITE_BYTES: usize = 64 * 1024;

/// What came through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) bytes: u64,
    pub(crate) last_byte: Instant,
}

/// The benchmark's end: one peer connects and writes until it closes.
#[derive(Debug)]
pub(crate) struct Inbox {
    path: PathBuf,
    reader: JoinHandle<anyhow::Result<Arrived>>,
}

impl Inbox {
    /// Listens in `folder`, reads on a thread of its own.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("inbox");
        std::fs::remove_file(&path).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let listener = UnixListener::bind(&path)?;
        let reader = std::thread::spawn(move || read_to_end(&listener.accept()?.0));
        Ok(Self { path, reader })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the peer's close; one that never came is sent away.
    pub(crate) fn finish(self) -> anyhow::Result<Arrived> {
        // Ends an `accept` that nobody has answered; behind a real peer it changes nothing.
        drop(UnixStream::connect(&self.path));
        self.reader.join().map_err(|_| anyhow::anyhow!("the reading thread panicked"))?
    }
}

fn read_to_end(mut stream: &UnixStream) -> anyhow::Result<Arrived> {
    stream.set_read_timeout(Some(HANG))?;
    let mut buffer = vec![0; READ_BYTES];
    let mut arrived = Arrived { bytes: 0, last_byte: Instant::now() };
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(arrived),
            Ok(got) => arrived = Arrived { bytes: arrived.bytes + got as u64, last_byte: Instant::now() },
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("reading a socket"),
        }
    }
}

/// The emitter's end of a session.
#[derive(Debug)]
pub(crate) struct SocketSink {
    stream: UnixStream,
}

impl SocketSink {
    pub(crate) fn connect(path: &str) -> anyhow::Result<Self> {
        Ok(Self { stream: UnixStream::connect(path).context(path.to_owned())? })
    }
}

impl Sink for SocketSink {
    fn write(&mut self, bytes: &[u8], wait: Duration) -> std::io::Result<usize> {
        // A time-out of zero means none at all.
        self.stream.set_write_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match self.stream.write(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
            other => other,
        }
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

/// Writes `bytes` zeros to the socket at `path` as fast as it takes them.
pub(crate) fn write_raw(path: &str, bytes: u64) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(path).context(path.to_owned())?;
    stream.set_write_timeout(Some(HANG))?;
    let block = vec![0; RAW_WRITE_BYTES];
    for _ in 0..bytes.div_ceil(RAW_WRITE_BYTES as u64) {
        stream.write_all(&block)?;
    }
    Ok(())
}

//! The client of every measurement, for both sides the same: a socket, bytes, a clock.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use support::requests::{PROCESS_INFO, STOP_TRACING, message};

use crate::block_counter::{BlockCounter, Blocks};

const HEADER_BYTES: usize = 20;
/// Fits every reply that a benchmark asks for.
const REPLY_BYTES: usize = 8192;
const STREAM_BYTES: usize = 256 * 1024;

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Ok,
    /// With the first four bytes of the payload, the code.
    Error(u32),
    /// Nothing within the limit.
    Never,
}

/// Asks one port, each request on a connection of its own.
#[derive(Debug)]
pub(crate) struct PlainClient {
    path: PathBuf,
    info: Vec<u8>,
    buffer: Vec<u8>,
}

impl PlainClient {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), info: message(PROCESS_INFO, &[]), buffer: vec![0; REPLY_BYTES] }
    }

    /// One ProcessInfo: from connect to the whole reply, `None` if that takes more than `limit`.
    pub(crate) fn info(&mut self, limit: Duration) -> anyhow::Result<Option<Duration>> {
        let from = Instant::now();
        let info = std::mem::take(&mut self.info);
        let answer = self.ask(&info, limit);
        self.info = info;
        match answer? {
            Answer::Ok => Ok(Some(from.elapsed())),
            Answer::Never => Ok(None),
            Answer::Error(code) => bail!("ProcessInfo was answered with {code:#x}"),
        }
    }

    /// `count` times [`PlainClient::info`], one after the other.
    pub(crate) fn infos(&mut self, count: usize, limit: Duration) -> anyhow::Result<Vec<Duration>> {
        (0..count).map(|_| self.info(limit)?.context("ProcessInfo is not answered")).collect()
    }

    /// One StopTracing: `None` if that takes more than `limit`.
    pub(crate) fn stop(&mut self, session_id: u64, limit: Duration) -> anyhow::Result<Option<Duration>> {
        let from = Instant::now();
        match self.ask(&message(STOP_TRACING, &session_id.to_le_bytes()), limit)? {
            Answer::Ok => Ok(Some(from.elapsed())),
            Answer::Never => Ok(None),
            Answer::Error(code) => bail!("StopTracing was answered with {code:#x}"),
        }
    }

    fn ask(&mut self, request: &[u8], limit: Duration) -> anyhow::Result<Answer> {
        let mut stream = UnixStream::connect(&self.path).with_context(|| self.path.display().to_string())?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(request).context("sending a request")?;
        Ok(receive_reply(&mut stream, &mut self.buffer)?
            .map_or(Answer::Never, |filled| answer(&self.buffer[..filled])))
    }
}

/// Reads until a whole reply is in `buffer`; how many bytes that are, stream bytes behind the reply included.
fn receive_reply(stream: &mut UnixStream, buffer: &mut [u8]) -> anyhow::Result<Option<usize>> {
    let mut filled = 0;
    while filled < HEADER_BYTES || filled < reply_size(buffer) {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => bail!("the peer closed after {filled} bytes of its reply"),
            Ok(got) => filled += got,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("receiving a reply"),
        }
    }
    Ok(Some(filled))
}

fn reply_size(buffer: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([buffer[14], buffer[15]])).max(HEADER_BYTES)
}

fn answer(reply: &[u8]) -> Answer {
    match reply[16..18] {
        [0xFF, 0x00] => Answer::Ok,
        _ => Answer::Error(
            reply.get(20..24).map_or(0, |code| u32::from_le_bytes([code[0], code[1], code[2], code[3]])),
        ),
    }
}

/// A running session; its client leaves when the value goes.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    /// From connect to the whole reply.
    pub(crate) replied: Duration,
    began: Instant,
    stream: UnixStream,
    /// Bytes of the stream that came with the reply.
    early: Vec<u8>,
}

/// How a session began.
#[derive(Debug)]
pub(crate) enum Start {
    Running(Session),
    Refused(u32),
    Never,
}

impl Session {
    /// Sends a whole CollectTracing request.
    pub(crate) fn request(path: &Path, request: &[u8], limit: Duration) -> anyhow::Result<Start> {
        let began = Instant::now();
        let mut stream = UnixStream::connect(path).with_context(|| path.display().to_string())?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(request).context("sending CollectTracing")?;
        let mut buffer = vec![0; REPLY_BYTES];
        let Some(filled) = receive_reply(&mut stream, &mut buffer)? else { return Ok(Start::Never) };
        let replied = began.elapsed();
        match answer(&buffer[..filled]) {
            Answer::Error(code) => Ok(Start::Refused(code)),
            _ => {
                let id = buffer[HEADER_BYTES..].first_chunk::<8>().copied().map(u64::from_le_bytes);
                let id = id.filter(|id| *id != 0).context("a session without an id")?;
                let early = buffer[reply_size(&buffer)..filled].to_vec();
                Ok(Start::Running(Self { id, replied, began, stream, early }))
            }
        }
    }

    /// The same, where anything but a running session is an error.
    pub(crate) fn start(path: &Path, request: &[u8]) -> anyhow::Result<Self> {
        match Self::request(path, request, support::HANG)? {
            Start::Running(session) => Ok(session),
            Start::Refused(code) => bail!("CollectTracing was answered with {code:#x}"),
            Start::Never => bail!("CollectTracing is not answered"),
        }
    }

    /// From connect to the first byte of the stream. Call it first.
    pub(crate) fn first_byte(&mut self) -> anyhow::Result<Duration> {
        if !self.early.is_empty() {
            return Ok(self.replied);
        }
        self.stream.set_read_timeout(Some(support::HANG))?;
        let mut one = [0];
        ensure!(self.stream.read(&mut one).context("first byte")? == 1, "the stream ended before it began");
        self.early = one.to_vec();
        Ok(self.began.elapsed())
    }

    /// Reads on a thread of its own and counts blocks, no faster than `pace_mb` million bytes a second.
    pub(crate) fn count(self, pace_mb: Option<f64>) -> Counting {
        self.watch(pace_mb, |_| {})
    }

    /// As [`Session::count`], and counts events: for a stream of which none may be lost.
    pub(crate) fn count_events(self, pace_mb: Option<f64>) -> Counting {
        let counter = BlockCounter::with_events();
        Counting { reader: std::thread::spawn(move || self.read_to_end(counter, pace_mb, |_| {})) }
    }

    /// As [`Session::count`], and shows each piece to `see` as it comes.
    pub(crate) fn watch(self, pace_mb: Option<f64>, see: impl FnMut(&[u8]) + Send + 'static) -> Counting {
        let reader = std::thread::spawn(move || self.read_to_end(BlockCounter::default(), pace_mb, see));
        Counting { reader }
    }

    /// As [`Session::count`], and keeps all bytes.
    pub(crate) fn keep(self, pace_mb: Option<f64>) -> Keeping {
        let reader = std::thread::spawn(move || {
            let mut kept = Vec::new();
            let end =
                self.read_to_end(BlockCounter::default(), pace_mb, |piece| kept.extend_from_slice(piece))?;
            Ok((end, kept))
        });
        Keeping { reader }
    }

    fn read_to_end(
        mut self,
        mut counter: BlockCounter,
        pace_mb: Option<f64>,
        mut see: impl FnMut(&[u8]),
    ) -> anyhow::Result<StreamEnd> {
        self.stream.set_read_timeout(Some(5 * support::HANG))?;
        let mut buffer = vec![0; STREAM_BYTES];
        counter.feed(&self.early);
        see(&self.early);
        let mut bytes = self.early.len() as u64;
        let from = Instant::now();
        let mut last_byte = from;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    return Ok(StreamEnd { blocks: counter.blocks(), last_byte, at: Instant::now() });
                }
                Ok(got) => {
                    last_byte = Instant::now();
                    bytes += got as u64;
                    counter.feed(&buffer[..got]);
                    see(&buffer[..got]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("reading a stream"),
            }
            if let Some(pace_mb) = pace_mb {
                let due = Duration::from_secs_f64(bytes as f64 / (pace_mb * 1e6));
                std::thread::sleep(due.saturating_sub(from.elapsed()));
            }
        }
    }
}

/// A session that is being read.
#[derive(Debug)]
pub(crate) struct Counting {
    reader: JoinHandle<anyhow::Result<StreamEnd>>,
}

/// A stream that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamEnd {
    pub(crate) blocks: Blocks,
    /// When the last bytes came.
    pub(crate) last_byte: Instant,
    /// When the peer closed.
    pub(crate) at: Instant,
}

impl Counting {
    pub(crate) fn finish(self) -> anyhow::Result<StreamEnd> {
        self.reader.join().map_err(|_| anyhow::anyhow!("the reading thread panicked"))?
    }
}

/// A session that is being read, its bytes kept.
#[derive(Debug)]
pub(crate) struct Keeping {
    reader: JoinHandle<anyhow::Result<(StreamEnd, Vec<u8>)>>,
}

impl Keeping {
    pub(crate) fn finish(self) -> anyhow::Result<(StreamEnd, Vec<u8>)> {
        self.reader.join().map_err(|_| anyhow::anyhow!("the reading thread panicked"))?
    }
}

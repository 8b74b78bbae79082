//! From the stream to the file, and what the file holds.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use diagport_transport::IpcStream;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};

use super::counter::{Counts, StreamCounter};
use crate::output_file::{OutputFile, OutputKind};

/// Bytes of one read from the stream.
const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks on their way to the file; when the file is slower than the stream, the stream waits.
const CHUNKS_IN_FLIGHT: usize = 16;

/// Starts recording the stream, to its end.
pub(crate) fn record(output: OutputFile, stream: IpcStream) -> io::Result<Recording> {
    let (file, kind) = output.begin()?;
    let progress = Arc::new(Progress::default());
    let (chunks, arriving) = mpsc::channel(CHUNKS_IN_FLIGHT);
    let (tell_failure, write_failure) = oneshot::channel();
    let (tell_written, written) = oneshot::channel();
    let writer = Writer { file, progress: Arc::clone(&progress), kind };
    thread::Builder::new().name("trace-file".to_owned()).spawn(move || {
        // A receiver that is gone has nobody left to tell.
        let _ = tell_written.send(writer.run(arriving, tell_failure));
    })?;
    let pump = tokio::spawn(pump(stream, chunks, Arc::clone(&progress)));
    Ok(Recording { progress, pump, write_failure, written })
}

/// Figures of a running recording, each only growing.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that the target has sent.
    pub(crate) received: AtomicU64,
    /// Bytes in the file.
    pub(crate) bytes: AtomicU64,
    /// Events counted in them so far.
    pub(crate) events: AtomicU64,
    /// Events known to be lost so far.
    pub(crate) lost: AtomicU64,
}

impl Progress {
    /// A figure that changes as long as anything does.
    pub(crate) fn activity(&self) -> u64 {
        let figures = [&self.received, &self.bytes, &self.events, &self.lost];
        figures.into_iter().fold(0, |sum: u64, figure| sum.wrapping_add(figure.load(Ordering::Relaxed)))
    }

    /// Whether the target has sent more than the file has taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.received.load(Ordering::Relaxed) > self.bytes.load(Ordering::Relaxed)
    }
}

/// A recording that runs by itself.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) progress: Arc<Progress>,
    /// Ends with the stream.
    pub(crate) pump: tokio::task::JoinHandle<io::Result<()>>,
    /// Fires if the file cannot be written any more; the stream is still read then, into nothing.
    pub(crate) write_failure: oneshot::Receiver<()>,
    /// The end of it all: stream ended, file written, counted.
    pub(crate) written: oneshot::Receiver<Written>,
}

/// What became of a recording.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) counts: Counts,
    pub(crate) write_error: Option<io::Error>,
}

/// Hands the stream's bytes on as they come, until it ends. A reset after the peer's last byte is an end as well.
async fn pump(
    mut stream: IpcStream,
    chunks: mpsc::Sender<Vec<u8>>,
    progress: Arc<Progress>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return Ok(()),
            Ok(count) => {
                progress.received.fetch_add(count as u64, Ordering::Relaxed);
                if chunks.send(buffer[..count].to_vec()).await.is_err() {
                    return Ok(()); // the writer has panicked, which `written` tells
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

struct Writer {
    file: File,
    progress: Arc<Progress>,
    kind: OutputKind,
}

impl Writer {
    fn run(mut self, mut arriving: mpsc::Receiver<Vec<u8>>, tell_failure: oneshot::Sender<()>) -> Written {
        let mut counting = self.counting();
        let mut tell_failure = Some(tell_failure);
        let mut write_error = None;
        let mut bytes = 0;
        while let Some(chunk) = arriving.blocking_recv() {
            if write_error.is_some() {
                continue; // drained, so that the target gets its session ended instead of a full socket
            }
            let (kept, result) = write_what_fits(&mut self.file, &chunk);
            bytes += kept as u64;
            self.progress.bytes.store(bytes, Ordering::Relaxed);
            counting.written(&chunk[..kept], bytes);
            if let Err(error) = result {
                write_error = Some(error);
                tell_failure.take().map(|tell| tell.send(()));
            }
        }
        if write_error.is_none()
            && let Err(error) = self.file.flush()
        {
            write_error = Some(error);
        }
        Written { bytes, counts: counting.finish(), write_error }
    }

    fn counting(&self) -> Counting {
        if self.kind == OutputKind::Regular
            && let Ok(file) = self.file.try_clone()
            && let Some(behind) = CountingBehind::start(file, Arc::clone(&self.progress))
        {
            return Counting::Behind(behind);
        }
        Counting::Inline(Box::new(StreamCounter::new()), Arc::clone(&self.progress))
    }
}

/// Writes as much as goes; says how much that was.
fn write_what_fits(file: &mut File, chunk: &[u8]) -> (usize, io::Result<()>) {
    let mut kept = 0;
    while kept < chunk.len() {
        match file.write(&chunk[kept..]) {
            Ok(0) => return (kept, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => kept += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (kept, Err(error)),
        }
    }
    (kept, Ok(()))
}

enum Counting {
    /// A file that can be read again.
    Behind(CountingBehind),
    /// A pipe or a device: counted before the next chunk is taken.
    Inline(Box<StreamCounter>, Arc<Progress>),
}

impl Counting {
    fn written(&mut self, chunk: &[u8], end: u64) {
        match self {
            Self::Behind(behind) => behind.available.publish(end, Growth::GoesOn),
            Self::Inline(counter, progress) => {
                counter.feed(chunk);
                publish(progress, counter);
            }
        }
    }

    fn finish(self) -> Counts {
        match self {
            Self::Behind(behind) => behind.finish(),
            Self::Inline(counter, _) => counter.counts(),
        }
    }
}

fn publish(progress: &Progress, counter: &StreamCounter) {
    let (events, lost) = counter.so_far();
    progress.events.store(events, Ordering::Relaxed);
    progress.lost.store(lost, Ordering::Relaxed);
}

/// A thread that reads the file behind its writer.
struct CountingBehind {
    available: Arc<Available>,
    thread: thread::JoinHandle<Counts>,
}

/// How far the file can be read, and whether it still grows.
#[derive(Default)]
struct Available {
    state: Mutex<(u64, Growth)>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Growth {
    #[default]
    GoesOn,
    Over,
}

impl Available {
    fn publish(&self, end: u64, growth: Growth) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = (end, growth);
        self.changed.notify_one();
    }

    /// The end of what can be read, once that is behind `position` or final.
    fn beyond(&self, position: u64) -> (u64, Growth) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *self
            .changed
            .wait_while(state, |(end, growth)| *end <= position && *growth == Growth::GoesOn)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

impl CountingBehind {
    /// `None`: no thread, or a file that was opened for writing only.
    fn start(file: File, progress: Arc<Progress>) -> Option<Self> {
        file.read_at(&mut [0], 0).ok()?;
        let available = Arc::new(Available::default());
        let source = Arc::clone(&available);
        let count = move || count_behind(&file, &source, &progress);
        let thread = thread::Builder::new().name("trace-count".to_owned()).spawn(count).ok()?;
        Some(Self { available, thread })
    }

    fn finish(self) -> Counts {
        self.available.publish(self.available.end(), Growth::Over);
        self.thread.join().unwrap_or_else(|_| StreamCounter::broken("the counter failed").counts())
    }
}

fn count_behind(file: &File, available: &Available, progress: &Progress) -> Counts {
    let mut counter = StreamCounter::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut position = 0;
    loop {
        let (end, growth) = available.beyond(position);
        if position >= end && growth == Growth::Over {
            return counter.counts();
        }
        let wanted = usize::try_from(end - position).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        match file.read_at(&mut buffer[..wanted], position) {
            Ok(0) => return StreamCounter::broken("the file shrank while it was recorded").counts(),
            Ok(count) => {
                counter.feed(&buffer[..count]);
                publish(progress, &counter);
                position += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return StreamCounter::broken(&format!("the file cannot be read again: {error}")).counts();
            }
        }
    }
}

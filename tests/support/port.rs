//! A diagnostic port seen by a client that knows bytes only (std sockets, no crate of ours).

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::HANG;
use crate::requests::{PROCESS_INFO, STOP_TRACING, hex, message};

/// How the peer's side of a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// End of stream.
    Closed,
    /// Reset or broken pipe.
    Reset,
    /// Neither within the time given.
    Open,
}

/// One reply message.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// Command set and id: FF 00 is success, FF FF an error.
    pub command: (u8, u8),
    /// What follows the header.
    pub payload: Vec<u8>,
}

impl Reply {
    /// Is it success?
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.command == (0xFF, 0x00)
    }

    /// The code of an error reply; `None` for success.
    #[must_use]
    pub fn error_code(&self) -> Option<u32> {
        let code = self.payload.first_chunk::<4>().copied().map(u32::from_le_bytes);
        (self.command == (0xFF, 0xFF)).then_some(code).flatten()
    }

    /// The first eight bytes as a number: the session id of CollectTracing and StopTracing.
    #[must_use]
    pub fn session_id(&self) -> Option<u64> {
        self.payload.first_chunk::<8>().copied().map(u64::from_le_bytes).filter(|_| self.is_ok())
    }

    /// Takes the first message off `bytes`.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let size = usize::from(u16::from_le_bytes([*bytes.get(14)?, *bytes.get(15)?]));
        let (whole, rest) = bytes.split_at_checked(size)?;
        let reply = Self { command: (*whole.get(16)?, *whole.get(17)?), payload: whole.get(20..)?.to_vec() };
        Some((reply, rest))
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error_code() {
            Some(code) => write!(f, "error {code:08x}"),
            None => write!(f, "{:02x}{:02x} {}", self.command.0, self.command.1, hex(&self.payload)),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One connection.
#[derive(Debug)]
pub struct Conversation {
    stream: UnixStream,
}

impl From<UnixStream> for Conversation {
    fn from(stream: UnixStream) -> Self {
        Self { stream }
    }
}

impl Conversation {
    /// Sends bytes.
    ///
    /// # Errors
    /// As the socket says; a peer that does not read is an error after [`HANG`].
    pub fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stream.set_write_timeout(Some(HANG))?;
        self.stream.write_all(bytes).context("sending")
    }

    /// Shuts the sending side down; the peer sees the end, and can still answer.
    ///
    /// # Errors
    /// As the socket says.
    pub fn half_close(&mut self) -> anyhow::Result<()> {
        self.stream.shutdown(Shutdown::Write).context("half-close")
    }

    /// Exactly `count` bytes.
    ///
    /// # Errors
    /// Shows what had come when the stream ends before, or `limit` passes.
    pub fn receive_exact(&mut self, count: usize, limit: Duration) -> anyhow::Result<Vec<u8>> {
        let (bytes, ending) = self.receive(count, limit)?;
        ensure!(bytes.len() == count, "{} of {count} bytes, then {ending:?}: {}", bytes.len(), hex(&bytes));
        Ok(bytes)
    }

    /// One reply message.
    ///
    /// # Errors
    /// When the stream ends before it is whole, or `limit` passes.
    pub fn receive_reply(&mut self, limit: Duration) -> anyhow::Result<Reply> {
        let mut bytes = self.receive_exact(20, limit)?;
        let size = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
        ensure!(size >= 20, "a reply of size {size}");
        bytes.extend(self.receive_exact(size - 20, limit)?);
        Reply::parse(&bytes).map(|(reply, _)| reply).context("a reply that does not parse")
    }

    /// Everything until the peer closes, or `limit` passes.
    ///
    /// # Errors
    /// As the socket says; the end of the conversation is no error.
    pub fn receive_until_closed(&mut self, limit: Duration) -> anyhow::Result<(Vec<u8>, Ending)> {
        self.receive(usize::MAX, limit)
    }

    fn receive(&mut self, most: usize, limit: Duration) -> anyhow::Result<(Vec<u8>, Ending)> {
        let mut bytes = Vec::new();
        let ending = self.hand_on(most, limit, |piece| bytes.extend_from_slice(piece))?;
        Ok((bytes, ending))
    }

    /// Hands `most` bytes to `take`, each piece as it comes.
    fn hand_on(
        &mut self,
        most: usize,
        limit: Duration,
        mut take: impl FnMut(&[u8]),
    ) -> anyhow::Result<Ending> {
        let until = Instant::now() + limit;
        let mut missing = most;
        let mut buffer = vec![0; 65536];
        while missing > 0 {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
            self.stream.set_read_timeout(Some(left))?;
            let want = buffer.len().min(missing);
            match self.stream.read(&mut buffer[..want]) {
                Ok(0) => return Ok(Ending::Closed),
                Ok(got) => {
                    take(&buffer[..got]);
                    missing -= got;
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut if Instant::now() >= until => {
                        return Ok(Ending::Open);
                    }
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Ok(Ending::Reset),
                    _ => return Err(error).context("receiving"),
                },
            }
        }
        Ok(Ending::Open)
    }
}

/// A port by its path.
#[derive(Debug, Clone)]
pub struct Port {
    path: PathBuf,
}

impl Port {
    /// The port at `path`; nothing is opened yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path as tools want it.
    #[must_use]
    pub fn path_text(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// As the socket says.
    pub fn connect(&self) -> anyhow::Result<Conversation> {
        let stream = UnixStream::connect(&self.path).with_context(|| self.path.display().to_string())?;
        Ok(Conversation { stream })
    }

    /// One request on a connection of its own, and its reply.
    ///
    /// # Errors
    /// When there is no reply within [`HANG`].
    pub fn ask(&self, command: (u8, u8), payload: &[u8]) -> anyhow::Result<Reply> {
        let mut conversation = self.connect()?;
        conversation.send(&message(command, payload))?;
        conversation.receive_reply(HANG)
    }

    /// How long ProcessInfo takes, from connect to the whole reply.
    ///
    /// # Errors
    /// When it is not answered with success.
    pub fn info_latency(&self) -> anyhow::Result<Duration> {
        let from = Instant::now();
        let reply = self.ask(PROCESS_INFO, &[])?;
        ensure!(reply.is_ok(), "ProcessInfo: {reply}");
        Ok(from.elapsed())
    }

    /// Stops a session; the time it took.
    ///
    /// # Errors
    /// When it is not answered with success and the same id.
    pub fn stop(&self, session_id: u64) -> anyhow::Result<Duration> {
        let from = Instant::now();
        let reply = self.ask(STOP_TRACING, &session_id.to_le_bytes())?;
        ensure!(reply.session_id() == Some(session_id), "StopTracing {session_id:#x}: {reply}");
        Ok(from.elapsed())
    }

    /// Starts a streaming session with a complete CollectTracing message.
    ///
    /// # Errors
    /// When it is refused.
    pub fn start_session(&self, request: &[u8]) -> anyhow::Result<Streaming> {
        let mut conversation = self.connect()?;
        conversation.send(request)?;
        let reply = conversation.receive_reply(HANG)?;
        match reply.session_id() {
            Some(id) if id != 0 => Ok(Streaming { session_id: id, conversation }),
            _ => bail!("CollectTracing was answered with {reply}"),
        }
    }
}

/// A session and the connection that carries its stream.
#[derive(Debug)]
pub struct Streaming {
    /// Its id, not zero.
    pub session_id: u64,
    /// Its connection, right behind the reply.
    pub conversation: Conversation,
}

impl Streaming {
    /// Reads on a thread of its own until the stream ends.
    #[must_use]
    pub fn drain(self) -> Draining {
        let mut conversation = self.conversation;
        let received = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&received);
        let reader = std::thread::spawn(move || {
            conversation.hand_on(usize::MAX, 5 * HANG, |piece| {
                all.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(piece);
            })
        });
        Draining { session_id: self.session_id, received, reader }
    }
}

/// A session that is being read.
#[derive(Debug)]
pub struct Draining {
    /// Its id.
    pub session_id: u64,
    received: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<anyhow::Result<Ending>>,
}

impl Draining {
    /// What has come up to now.
    #[must_use]
    pub fn so_far(&self) -> Vec<u8> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The whole stream, once it has ended.
    ///
    /// # Errors
    /// When it did not end with a clean close.
    pub fn finish(self) -> anyhow::Result<Vec<u8>> {
        let Ok(outcome) = self.reader.join() else { bail!("the reading thread panicked") };
        let ending = outcome?;
        let bytes = std::mem::take(&mut *self.received.lock().unwrap_or_else(PoisonError::into_inner));
        ensure!(ending == Ending::Closed, "the stream ended with {ending:?} after {} bytes", bytes.len());
        Ok(bytes)
    }
}

//! The scripted client: a conversation as plain text, run against any port, ours or a real runtime's.
//!
//! ```text
//! # one thing a line; a blank line or a line that begins with # means nothing
//! connect                      a new connection becomes the current one (in reverse: the next that advertises)
//! connect NAME / on NAME       the same with a name / back to a named one
//! request SET ID [ITEM...]     a whole message; SET and ID in hexadecimal
//! send HEX                     raw bytes
//! send-each HEX                raw bytes, each in a write of its own
//! half-close                   shut the sending side down
//! close                        drop the current connection
//! expect ok [ITEM...]          a success reply; with items, whose payload begins with them
//! expect session NAME          a success reply with a session id, which `id:NAME` then stands for
//! expect error CODE            an error reply
//! expect bytes HEX             exactly these bytes next
//! expect closed                the end of the stream, with nothing before it
//! expect end                   the end of the stream; what comes before it is skipped
//! expect open                  the peer neither sends nor closes for 200 ms
//! expect streaming             the peer does not close for 200 ms; what it sends is skipped
//! ITEM: u8:N u16:N u32:N u64:N (decimal or 0x…), s:TEXT (a string, _ for a blank), s: (empty), null, id:NAME, hex:BYTES
//! ```
//!
//! A step that does not hold ends the run with its line, what was expected and what came.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::HANG;
use crate::port::{Conversation, Ending, Port, Reply};
use crate::requests::{bytes_from_hex, hex, message, utf16};

/// How long a peer must be quiet to count as `open`.
const QUIET: Duration = Duration::from_millis(200);
/// The Advertise message: magic, cookie, pid, a reserved word.
const ADVERTISE_BYTES: usize = 34;
const ADVERTISE_MAGIC: &[u8] = b"ADVR_V1\0";

/// Where connections come from.
#[derive(Debug)]
pub enum Side {
    /// The script connects to a port.
    Default(Port),
    /// The target connects to the script, and advertises.
    Reverse(Advertised),
}

/// A listener for targets that advertise.
#[derive(Debug)]
pub struct Advertised {
    listener: UnixListener,
    /// Cookie and pid of the first connection; all later ones must show the same.
    identity: Option<[u8; 24]>,
}

impl Advertised {
    /// Listens at `path`.
    ///
    /// # Errors
    /// As the socket says.
    pub fn bind(path: &std::path::Path) -> anyhow::Result<Self> {
        let listener = UnixListener::bind(path).with_context(|| path.display().to_string())?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, identity: None })
    }

    /// The next connection, after its Advertise.
    ///
    /// # Errors
    /// When none comes in time, or it does not begin with an Advertise of the same target.
    pub fn accept(&mut self) -> anyhow::Result<Conversation> {
        let until = Instant::now() + HANG;
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    ensure!(Instant::now() < until, "no target connected within {HANG:?}");
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(error).context("accept"),
            }
        };
        stream.set_nonblocking(false)?;
        let mut conversation = Conversation::from(stream);
        let bytes = conversation.receive_exact(ADVERTISE_BYTES, HANG).context("Advertise")?;
        let identity = bytes.get(8..32).and_then(|rest| rest.first_chunk::<24>()).context("Advertise")?;
        ensure!(bytes.starts_with(ADVERTISE_MAGIC), "Advertise began with {}", hex(&bytes));
        let known = *self.identity.get_or_insert(*identity);
        ensure!(known == *identity, "Advertise says {}, before it said {}", hex(identity), hex(&known));
        Ok(conversation)
    }

    /// Process id of the last Advertise.
    #[must_use]
    pub fn process_id(&self) -> Option<u64> {
        self.identity.and_then(|bytes| bytes.last_chunk::<8>().copied()).map(u64::from_le_bytes)
    }

    /// Runtime cookie of the last Advertise.
    #[must_use]
    pub fn cookie(&self) -> Option<[u8; 16]> {
        self.identity.and_then(|bytes| bytes.first_chunk::<16>().copied())
    }
}

/// A script that was read.
#[derive(Debug, Clone)]
pub struct Script {
    name: String,
    steps: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    number: usize,
    text: String,
    step: Step,
}

#[derive(Debug, Clone)]
enum Step {
    Connect(Option<String>),
    On(String),
    Request { command: (u8, u8), items: Vec<Item> },
    Send(Vec<u8>),
    SendEach(Vec<u8>),
    HalfClose,
    Close,
    Expect(Expected),
}

#[derive(Debug, Clone)]
enum Item {
    Bytes(Vec<u8>),
    SessionId(String),
}

#[derive(Debug, Clone)]
enum Expected {
    Ok(Vec<Item>),
    Session(String),
    Error(u32),
    Bytes(Vec<u8>),
    Closed,
    End,
    Open,
    Streaming,
}

/// The first step that did not hold.
#[derive(Debug)]
pub struct Difference {
    script: String,
    line: usize,
    step: String,
    found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: `{}`: {}", self.script, self.line, self.step, self.found)
    }
}

impl std::error::Error for Difference {}

impl Script {
    /// Reads the text of a script.
    ///
    /// # Errors
    /// Names the line that makes no sense.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let step = Step::parse(line).with_context(|| format!("{name}:{}: `{line}`", index + 1))?;
            steps.push(Line { number: index + 1, text: line.to_owned(), step });
        }
        Ok(Self { name: name.to_owned(), steps })
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn run(&self, side: &mut Side) -> Result<(), Difference> {
        let mut state =
            State { side, connections: BTreeMap::new(), current: String::new(), ids: BTreeMap::new() };
        for line in &self.steps {
            state.perform(&line.step).map_err(|error| Difference {
                script: self.name.clone(),
                line: line.number,
                step: line.text.clone(),
                found: format!("{error:#}"),
            })?;
        }
        Ok(())
    }
}

impl Step {
    fn parse(line: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rest = || words.get(1..).unwrap_or_default();
        Ok(match words.first().copied().unwrap_or_default() {
            "connect" => Self::Connect(words.get(1).map(|name| (*name).to_owned())),
            "on" => Self::On(words.get(1).copied().context("which connection?")?.to_owned()),
            "request" => {
                let [set, id, items @ ..] = rest() else { bail!("request wants SET ID") };
                let command = (u8::from_str_radix(set, 16)?, u8::from_str_radix(id, 16)?);
                Self::Request {
                    command,
                    items: items.iter().map(|item| Item::parse(item)).collect::<Result<_, _>>()?,
                }
            }
            "send" => Self::Send(bytes_from_hex(&rest().concat())?),
            "send-each" => Self::SendEach(bytes_from_hex(&rest().concat())?),
            "half-close" => Self::HalfClose,
            "close" => Self::Close,
            "expect" => Self::Expect(Expected::parse(rest())?),
            other => bail!("no step is called {other:?}"),
        })
    }
}

impl Expected {
    fn parse(words: &[&str]) -> anyhow::Result<Self> {
        Ok(match words {
            ["ok", items @ ..] => {
                Self::Ok(items.iter().map(|item| Item::parse(item)).collect::<Result<_, _>>()?)
            }
            ["session", name] => Self::Session((*name).to_owned()),
            ["error", code] => Self::Error(u32::from_str_radix(code, 16)?),
            ["bytes", hex @ ..] => Self::Bytes(bytes_from_hex(&hex.concat())?),
            ["closed"] => Self::Closed,
            ["end"] => Self::End,
            ["open"] => Self::Open,
            ["streaming"] => Self::Streaming,
            other => bail!("nothing is expected by {other:?}"),
        })
    }
}

impl Item {
    fn parse(word: &str) -> anyhow::Result<Self> {
        if word == "null" {
            return Ok(Self::Bytes(utf16(None)));
        }
        let (kind, value) = word.split_once(':').context("an item is KIND:VALUE")?;
        Ok(match kind {
            "u8" => Self::Bytes(u8::try_from(number(value)?)?.to_le_bytes().to_vec()),
            "u16" => Self::Bytes(u16::try_from(number(value)?)?.to_le_bytes().to_vec()),
            "u32" => Self::Bytes(u32::try_from(number(value)?)?.to_le_bytes().to_vec()),
            "u64" => Self::Bytes(number(value)?.to_le_bytes().to_vec()),
            "s" => Self::Bytes(utf16(Some(&value.replace('_', " ")))),
            "hex" => Self::Bytes(bytes_from_hex(value)?),
            "id" => Self::SessionId(value.to_owned()),
            other => bail!("no item is called {other:?}"),
        })
    }
}

fn number(text: &str) -> anyhow::Result<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("{text:?} is no number"))
}

struct State<'a> {
    side: &'a mut Side,
    connections: BTreeMap<String, Conversation>,
    current: String,
    ids: BTreeMap<String, u64>,
}

impl State<'_> {
    fn perform(&mut self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Connect(name) => {
                let conversation = match self.side {
                    Side::Default(port) => port.connect()?,
                    Side::Reverse(advertised) => advertised.accept()?,
                };
                self.current = name.clone().unwrap_or_default();
                self.connections.insert(self.current.clone(), conversation);
            }
            Step::On(name) => {
                ensure!(self.connections.contains_key(name), "no connection is called {name:?}");
                self.current.clone_from(name);
            }
            Step::Request { command, items } => {
                let payload = self.bytes_of(items)?;
                self.connection()?.send(&message(*command, &payload))?;
            }
            Step::Send(bytes) => self.connection()?.send(bytes)?,
            Step::SendEach(bytes) => {
                for byte in bytes {
                    self.connection()?.send(std::slice::from_ref(byte))?;
                }
            }
            Step::HalfClose => self.connection()?.half_close()?,
            Step::Close => {
                self.connections.remove(&self.current).context("no connection")?;
            }
            Step::Expect(expected) => self.expect(expected)?,
        }
        Ok(())
    }

    fn expect(&mut self, expected: &Expected) -> anyhow::Result<()> {
        match expected {
            Expected::Ok(items) => {
                let wanted = self.bytes_of(items)?;
                let reply = self.reply()?;
                ensure!(reply.is_ok(), "came {reply}");
                ensure!(
                    reply.payload.starts_with(&wanted),
                    "wanted {}, came {}",
                    hex(&wanted),
                    hex(&reply.payload)
                );
            }
            Expected::Session(name) => {
                let reply = self.reply()?;
                let id = reply.session_id().filter(|id| *id != 0).with_context(|| format!("came {reply}"))?;
                let again = self.ids.values().any(|known| *known == id);
                ensure!(!again, "the session id {id:#x} came twice");
                self.ids.insert(name.clone(), id);
            }
            Expected::Error(code) => {
                let reply = self.reply()?;
                ensure!(reply.error_code() == Some(*code), "came {reply}");
            }
            Expected::Bytes(wanted) => {
                let came = self.connection()?.receive_exact(wanted.len(), HANG)?;
                let differs = came.iter().zip(wanted).position(|(a, b)| a != b);
                ensure!(differs.is_none(), "first difference at byte {differs:?}: came {}", hex(&came));
            }
            Expected::Closed => {
                let (bytes, ending) = self.connection()?.receive_until_closed(HANG)?;
                ensure!(bytes.is_empty(), "before the end came {}", hex(&bytes));
                ensure!(ending == Ending::Closed, "it stayed {ending:?}");
            }
            Expected::End => {
                let (bytes, ending) = self.connection()?.receive_until_closed(HANG)?;
                ensure!(ending == Ending::Closed, "after {} bytes it stayed {ending:?}", bytes.len());
            }
            Expected::Streaming => {
                let (bytes, ending) = self.connection()?.receive_until_closed(QUIET)?;
                ensure!(ending == Ending::Open, "after {} bytes it was {ending:?}", bytes.len());
            }
            Expected::Open => {
                let (bytes, ending) = self.connection()?.receive_until_closed(QUIET)?;
                ensure!(bytes.is_empty() && ending == Ending::Open, "came {}, then {ending:?}", hex(&bytes));
            }
        }
        Ok(())
    }

    fn connection(&mut self) -> anyhow::Result<&mut Conversation> {
        self.connections.get_mut(&self.current).context("the script has not connected")
    }

    fn reply(&mut self) -> anyhow::Result<Reply> {
        self.connection()?.receive_reply(HANG)
    }

    fn bytes_of(&self, items: &[Item]) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for item in items {
            match item {
                Item::Bytes(more) => bytes.extend_from_slice(more),
                Item::SessionId(name) => {
                    let id = self.ids.get(name).with_context(|| format!("no session is called {name:?}"))?;
                    bytes.extend(id.to_le_bytes());
                }
            }
        }
        Ok(bytes)
    }
}

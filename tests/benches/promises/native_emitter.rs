//! The native emitter: a process with a diagnostic port and one event, told on standard input what to emit. This program starts it of itself.
//!
//! ```text
//! ready PATH                                   its port
//! emit THREADS EVENTS WARM_UP MODE RATE SHAPE ──▶ emitted events=… cpu_ns=… (native_report), once a session is there
//! floor EVENTS                           ──▶   floor ours_ns=… floor_ns=… dropped=…
//! stack EVENTS                           ──▶   stack with_ns=… without_ns=… walk_ns=… dropped=…
//! disabled EVENTS                        ──▶   disabled ours_ns=… tracing_ns=… empty_ns=…
//! stream KB drop|block SOCKET            ──▶   streaming ID: a session with that budget, into a socket
//! raw BYTES SOCKET                       ──▶   raw: nothing but bytes into a socket
//! counts                                 ──▶   counts live=… emitted=… written=… dropped=…
//! ```

use std::io::BufRead as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use diagport_server::{OwnProcess, ServerBuilder};
use diagport_session::{
    BufferingMode, Event, EventDefinition, EventPipe, ProcessDescription, ProviderConfig, SessionConfig,
    SessionType,
};
use support::await_condition;

use crate::native_floor;
use crate::native_producers::{self, Burst};
use crate::native_report::Emitted;
use crate::native_socket::{SocketSink, write_raw};
use crate::native_stack;

/// The provider of both events.
pub(crate) const PROVIDER: &str = "Bench-Native";
/// Sixteen bytes, the third field of LTTng's event too.
pub(crate) const TEXT: [u8; 16] = *b"0123456789abcde\0";
/// UTF-16 with its terminator: 160 bytes.
const LONG_TEXT: &str = "0123456789012345678901234567890123456789012345678901234567890123456789012345678";
const ENABLED_WITHIN: Duration = Duration::from_secs(10);
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(3);

/// What an event carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 40 bytes: two numbers, 16 bytes, a number. LTTng's event is the same, field by field.
    Bytes40,
    /// 200 bytes: the same, and a text of 79 characters.
    Bytes200,
}

impl Shape {
    /// Of the payload.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Bytes40 => 40,
            Self::Bytes200 => 200,
        }
    }
}

/// The events.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) tick: Event<(u64, u64, [u8; 16], u64)>,
    long_tick: Event<(u64, u64, [u8; 16], u64, String)>,
}

impl Events {
    pub(crate) fn define(pipe: &EventPipe) -> anyhow::Result<Self> {
        let provider = pipe.provider(PROVIDER);
        let names = ["index", "thread", "text", "check"];
        let [index, thread, text, check] = names;
        Ok(Self {
            tick: provider.define(EventDefinition::new(1, "Tick"), names)?,
            long_tick: provider
                .define(EventDefinition::new(2, "LongTick"), [index, thread, text, check, "more"])?,
        })
    }

    fn emit(&self, burst: &Burst, shape: Shape) -> anyhow::Result<Emitted> {
        await_condition("a session that wants the event", ENABLED_WITHIN, || self.tick.is_enabled())?;
        match shape {
            Shape::Bytes40 => {
                native_producers::run(burst, |index, thread| self.tick.write((index, thread, TEXT, !index)))
            }
            Shape::Bytes200 => native_producers::run(burst, |index, thread| {
                self.long_tick.write((index, thread, TEXT, !index, LONG_TEXT))
            }),
        }
    }
}

/// The process itself; ends with its standard input.
///
/// # Errors
/// Where the port cannot be opened, or a line makes no sense.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let pipe = EventPipe::new(ProcessDescription::of_this_process());
    let events = Events::define(&pipe)?;
    let server = {
        let _inside = runtime.enter();
        let host = Arc::new(OwnProcess::new());
        ServerBuilder::from_environment(pipe.clone(), host, |name| std::env::var(name).ok()).start()?
    };
    let port = server.default_port_path().context("there is no default port")?;
    println!("ready {}", port.display());
    for line in std::io::stdin().lock().lines() {
        println!("{}", answer(&pipe, &events, &line?)?);
    }
    runtime.block_on(server.shutdown(SHUTDOWN_DEADLINE));
    Ok(())
}

fn answer(pipe: &EventPipe, events: &Events, line: &str) -> anyhow::Result<String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Ok(match word {
        "emit" => {
            let (burst, shape) = rest.rsplit_once(' ').context("emit what?")?;
            let shape = match shape {
                "40" => Shape::Bytes40,
                "200" => Shape::Bytes200,
                other => bail!("no event has {other} bytes"),
            };
            events.emit(&burst.parse()?, shape)?.to_string()
        }
        "floor" => native_floor::emit(pipe, events, rest.parse()?)?,
        "stack" => native_stack::emit(pipe, events, rest.parse()?)?,
        "disabled" => native_floor::disabled(events, rest.parse()?)?,
        "stream" => stream(pipe, rest)?,
        "raw" => {
            let (bytes, path) = rest.split_once(' ').context("raw BYTES SOCKET")?;
            write_raw(path, bytes.parse()?)?;
            "raw".to_owned()
        }
        "counts" => format!("counts {}", pipe.statistics()),
        other => bail!("{other:?} is not known"),
    })
}

/// A session as the wire cannot ask for: its budget is not a number of megabytes.
fn stream(pipe: &EventPipe, words: &str) -> anyhow::Result<String> {
    let words: Vec<&str> = words.split(' ').collect();
    let [kilobytes, mode, path] = words[..] else { bail!("stream KB drop|block SOCKET") };
    let mut config = SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::everything(PROVIDER)]);
    config.budget_bytes = kilobytes.parse::<u64>()? << 10;
    config.buffering_mode = match mode {
        "drop" => BufferingMode::Drop,
        "block" => BufferingMode::Block,
        other => bail!("{other:?} is no mode"),
    };
    let session = pipe.create_session(config)?;
    session.start(Box::new(SocketSink::connect(path)?));
    Ok(format!("streaming {}", session.id().as_u64()))
}

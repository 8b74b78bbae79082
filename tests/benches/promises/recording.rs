//! A command of a scripted target under a session, read by the plain client; and what was in the stream, counted afterwards.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use diagport_nettrace::{LossCounter, Reader, Record};
use support::HANG;
use support::load::{Load, SessionCounts, Target};
use support::requests::Collect;

use crate::case::await_enabled;
use crate::plain_client::{PlainClient, Session, StreamEnd};

/// What the engine itself adds to a stream without a rundown: ProcessInfo.
const ENGINE_EVENTS: u64 = 1;

/// A recorded command.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) answer: String,
    /// Just before the command was sent.
    pub(crate) began: Instant,
    pub(crate) end: StreamEnd,
    /// By the server's own count; a runtime has none.
    pub(crate) counted: Option<Counted>,
}

/// What a server counted during a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) emitted: u64,
    pub(crate) dropped: u64,
}

impl Recorded {
    /// From the first emit to the last byte at the client, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.end.last_byte.saturating_duration_since(self.began).as_secs_f64()
    }

    /// # Errors
    /// Where not all of the `ticks` that were emitted have come, and every other event that a server counted; or where it counted a drop.
    pub(crate) fn check_lossless(&self, ticks: u64) -> anyhow::Result<()> {
        let blocks = self.end.blocks;
        ensure!(blocks.complete, "the stream has no end, or blocks that cannot be read");
        ensure!(blocks.events >= ticks, "{blocks:?}: not all of {ticks} Ticks");
        if let Some(Counted { emitted, dropped }) = self.counted {
            ensure!(dropped == 0, "the server counted {dropped} dropped events");
            let received = blocks.events - ENGINE_EVENTS;
            ensure!(emitted >= ticks && received == emitted, "{received} received of {emitted} emitted");
        }
        Ok(())
    }
}

/// Runs `command` under a session that ends with it.
pub(crate) fn record(
    load: &mut Load,
    request: &Collect,
    command: &str,
    pace_mb: Option<f64>,
) -> anyhow::Result<Recorded> {
    let port = load.port_file()?;
    let before = counts(load)?;
    let session = Session::start(&port, &request.message())?;
    let id = session.id;
    let reading = session.count_events(pace_mb);
    await_enabled(load)?;
    let began = Instant::now();
    let answer = load.command(command)?;
    PlainClient::new(&port).stop(id, 3 * HANG)?.context("StopTracing is not answered")?;
    let end = reading.finish()?;
    let counted = before.zip(counts(load)?).map(|(before, after)| Counted {
        emitted: after.emitted - before.emitted,
        dropped: after.dropped - before.dropped,
    });
    Ok(Recorded { answer, began, end, counted })
}

fn counts(load: &mut Load) -> anyhow::Result<Option<SessionCounts>> {
    match load.target() {
        Target::Ours => load.sessions().map(Some),
        Target::Dotnet(_) => Ok(None),
    }
}

/// The same with all bytes kept, and every Tick in them counted.
///
/// # Errors
/// Where they are not all of the `ticks` that `command` emits.
pub(crate) fn check_all_received(
    load: &mut Load,
    request: &Collect,
    command: &str,
    ticks: u64,
) -> anyhow::Result<()> {
    let port = load.port_file()?;
    let session = Session::start(&port, &request.message())?;
    let id = session.id;
    let reading = session.keep(None);
    let before = await_enabled(load)?;
    load.command(command)?;
    PlainClient::new(&port).stop(id, 3 * HANG)?.context("StopTracing is not answered")?;
    let (_, bytes) = reading.finish()?;
    let counts = Counts::of(&bytes)?;
    let received = counts.of_event("Peer-Load", 1);
    // A runtime may lose an event that it met while it was still enabling the session.
    let whole = counts.lost == 0 || load.target() != Target::Ours;
    ensure!(
        whole && (ticks + 1..=ticks + before).contains(&received),
        "`{command}`: {received} received and {} lost of {ticks}, and of up to {before} before it",
        counts.lost
    );
    Ok(())
}

/// How many events of each kind a stream holds.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// By provider and event id.
    events: BTreeMap<(String, u32), u64>,
    /// As its sequence numbers prove.
    pub(crate) lost: u64,
}

impl Counts {
    /// # Errors
    /// Where the bytes are no trace, or one without its end.
    pub(crate) fn of(bytes: &[u8]) -> anyhow::Result<Self> {
        let mut reader = Reader::new();
        let mut loss = LossCounter::new();
        let mut counts = Self::default();
        for piece in bytes.chunks(1 << 20) {
            reader.feed(piece);
            while let Some(record) = reader.next_record()? {
                loss.record(&record);
                if let Record::Event(event) = &record {
                    let definition = &event.definition;
                    let key = (definition.provider.clone(), definition.event_id);
                    *counts.events.entry(key).or_default() += 1;
                }
            }
        }
        ensure!(reader.is_ended(), "the stream has no end");
        counts.lost = loss.lost();
        Ok(counts)
    }

    pub(crate) fn of_event(&self, provider: &str, id: u32) -> u64 {
        self.events.get(&(provider.to_owned(), id)).copied().unwrap_or(0)
    }
}

/// `NAME=number` of an answer line.
pub(crate) fn field(line: &str, name: &str) -> anyhow::Result<f64> {
    let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.with_context(|| format!("no {name}= in {line:?}"))?.parse().with_context(|| line.to_owned())
}

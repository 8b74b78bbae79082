//! What our own reader makes of a trace: counts, and loss by the stream alone.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use diagport_nettrace::{Completion, Event, LossCounter, Reader, Record, Value, decode_payload};

use crate::port::Draining;
use crate::{HANG, await_condition};

/// Of a Tick of `burst`, `churn` or `tick`: two numbers of 8 bytes, 16 characters and a zero of 2. In a stream it takes a little more.
const TICK_BYTES: u64 = 50;

/// A trace, read to its end.
#[derive(Debug, Clone)]
pub struct StreamFacts {
    /// Events by provider and event id.
    pub counts: BTreeMap<(String, u32), u64>,
    /// Events lost, as sequence numbers and sequence points prove it.
    pub lost: u64,
    /// Did the end marker come?
    pub completion: Completion,
    /// Events marked sorted that were older than one before them.
    pub out_of_order: u64,
    /// What the reader found odd.
    pub warnings: Vec<String>,
    /// Events of `Peer-Load` whose `index` is not one more than the one before of their thread.
    pub index_gaps: u64,
    last_index: BTreeMap<(u64, i64), i64>,
    last_ticks: i64,
}

impl StreamFacts {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be opened or is no trace.
    pub fn of_file(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        Self::of_bytes(&bytes).with_context(|| path.display().to_string())
    }

    /// Reads a stream.
    ///
    /// # Errors
    /// When it is no trace.
    pub fn of_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let mut reader = Reader::new();
        let mut loss = LossCounter::new();
        let mut facts = Self {
            counts: BTreeMap::new(),
            lost: 0,
            completion: Completion::Complete,
            out_of_order: 0,
            warnings: Vec::new(),
            index_gaps: 0,
            last_index: BTreeMap::new(),
            last_ticks: i64::MIN,
        };
        // In pieces, as it would come from a socket.
        for piece in bytes.chunks(1 << 16) {
            reader.feed(piece);
            while let Some(record) = reader.next_record()? {
                loss.record(&record);
                if let Record::Event(event) = &record {
                    facts.see(event)?;
                }
            }
        }
        facts.lost = loss.lost();
        facts.completion = reader.finish();
        facts.warnings = reader.warnings().iter().map(|warning| format!("{warning:?}")).collect();
        Ok(facts)
    }

    /// Waits until a reader has `count` Ticks of a session that goes on, in whole blocks.
    ///
    /// # Errors
    /// When it has fewer after twice [`HANG`].
    pub fn await_ticks(session: &Draining, count: u64) -> anyhow::Result<()> {
        await_condition(&format!("{count} events at the reader"), 2 * HANG, || {
            ticks_in(&session.so_far()) >= count
        })?;
        Ok(())
    }

    /// Waits until the file of a recording that goes on holds `count` Ticks, in whole blocks.
    ///
    /// # Errors
    /// When it holds fewer after twice [`HANG`].
    pub fn await_ticks_in_file(path: &Path, count: u64) -> anyhow::Result<()> {
        // Its length first: to read a file that cannot hold them yet takes the machine from those who write it.
        await_condition(&format!("{count} events in {}", path.display()), 2 * HANG, || {
            path.metadata().is_ok_and(|file| file.len() >= count * TICK_BYTES)
                && std::fs::read(path).is_ok_and(|bytes| ticks_in(&bytes) >= count)
        })?;
        Ok(())
    }

    fn see(&mut self, event: &Event) -> anyhow::Result<()> {
        let key = (event.definition.provider.clone(), event.definition.event_id);
        let is_tick = key.0 == "Peer-Load" && key.1 == 1;
        *self.counts.entry(key).or_default() += 1;
        if event.ticks < self.last_ticks {
            self.out_of_order += 1;
        }
        self.last_ticks = self.last_ticks.max(event.ticks);
        if is_tick {
            let fields =
                decode_payload(&event.definition.fields, &event.payload).context("payload of a Tick")?;
            let [(_, Value::Int64(index)), (_, Value::Int64(thread)), (_, Value::String(text))] =
                fields.as_slice()
            else {
                anyhow::bail!("a Tick holds {fields:?}");
            };
            anyhow::ensure!(!text.is_empty(), "a Tick without its text");
            // `burst` numbers its threads; `churn` and `tick` call theirs 0 and are told apart by the thread id.
            let last = self.last_index.insert((event.thread_id, *thread), *index);
            if last.is_some_and(|last| last + 1 != *index && *index != 0) {
                self.index_gaps += 1;
            }
        }
        Ok(())
    }

    /// `Peer-Load` Tick events.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.count("Peer-Load", 1)
    }

    /// Events of one kind.
    #[must_use]
    pub fn count(&self, provider: &str, id: u32) -> u64 {
        self.counts.get(&(provider.to_owned(), id)).copied().unwrap_or(0)
    }
}

/// Ticks in the whole blocks of a stream that goes on; no more is looked at, for whoever waits for them looks often.
fn ticks_in(bytes: &[u8]) -> u64 {
    let (mut reader, mut ticks) = (Reader::new(), 0);
    for piece in bytes.chunks(1 << 16) {
        reader.feed(piece);
        // What cannot be read is for the judge of the whole stream to tell.
        while let Ok(Some(record)) = reader.next_record() {
            let Record::Event(event) = &record else { continue };
            ticks += u64::from(event.definition.event_id == 1 && event.definition.provider == "Peer-Load");
        }
    }
    ticks
}

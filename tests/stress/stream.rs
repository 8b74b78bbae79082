//! A stream as a reader sees it that knows nothing else.

use std::collections::HashMap;

use diagport_nettrace::{Completion, Event, LossCounter, Reader, Record};

use crate::life::filling;
use crate::world::{NOTHING, RUNDOWN_LIFE, WORK};

#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) is_complete: bool,
    /// Producers' events.
    pub(crate) received: u64,
    pub(crate) rundown: u64,
    /// What the drain adds: ProcessInfo and info events.
    pub(crate) added: u64,
    pub(crate) lost: u64,
    /// By OS thread: received and lost.
    pub(crate) by_thread: HashMap<u64, u64>,
    /// Bits of the event ids that came.
    pub(crate) kinds: u64,
    /// The highest number of each capture id.
    last_numbers: HashMap<u64, u32>,
    events_of_id: HashMap<u64, u64>,
    next_index: HashMap<i64, i64>,
    last_ticks: Option<i64>,
    pub(crate) wrong: Vec<String>,
}

impl Stream {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut stream = Self::default();
        let (mut reader, mut loss) = (Reader::new(), LossCounter::new());
        reader.feed(bytes);
        loop {
            match reader.next_record() {
                Ok(Some(record)) => {
                    loss.record(&record);
                    stream.record(&record);
                }
                Ok(None) => break,
                Err(error) => {
                    stream.wrong.push(format!("the stream cannot be read: {error}"));
                    break;
                }
            }
        }
        stream.wrong.extend(reader.warnings().iter().map(ToString::to_string));
        stream.is_complete = reader.finish() == Completion::Complete;
        stream.lost = loss.lost();
        for (thread, lost) in loss.lost_by_thread() {
            match thread {
                Some(thread) => *stream.by_thread.entry(thread).or_default() += lost,
                None => stream.wrong.push(format!("{lost} lost events belong to no thread")),
            }
        }
        stream.check_capture_ids(&loss);
        stream
    }

    /// Received and lost make the last number, on each capture id by itself.
    fn check_capture_ids(&mut self, loss: &LossCounter) {
        for (&id, &last) in &self.last_numbers {
            let events = self.events_of_id.get(&id).copied().unwrap_or(0);
            let lost = loss.lost_on_capture_thread(id);
            if events + lost != u64::from(last) {
                self.wrong.push(format!("capture id {id}: {events} events + {lost} lost are not {last}"));
            }
        }
        if self.received + self.rundown + self.added + self.lost != self.numbered() {
            self.wrong.push(format!("{} numbers were given, but {self:?}", self.numbered()));
        }
    }

    /// Numbers given in all, by the stream.
    fn numbered(&self) -> u64 {
        self.last_numbers.values().map(|number| u64::from(*number)).sum()
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::Event(event) => self.event(event),
            Record::SequencePoint { ticks, threads } => {
                if self.last_ticks.is_some_and(|last| *ticks < last) {
                    self.wrong.push(format!("a sequence point goes back to {ticks}"));
                }
                for &(id, number) in threads {
                    self.number(id, number, "listed");
                }
            }
            _ => {}
        }
    }

    fn number(&mut self, id: u64, number: u32, what: &str) {
        let last = self.last_numbers.entry(id).or_default();
        if number < *last || (what == "event" && number == *last) {
            self.wrong.push(format!("capture id {id}: {what} number {number} after {last}"));
        }
        *last = number;
    }

    fn event(&mut self, event: &Event) {
        self.number(event.capture_thread, event.sequence, "event");
        *self.events_of_id.entry(event.capture_thread).or_default() += 1;
        if self.last_ticks.is_some_and(|last| event.ticks < last) {
            self.wrong.push(format!("time goes back to {}", event.ticks));
        }
        self.last_ticks = Some(event.ticks);
        let definition = &event.definition;
        match definition.event_name.as_str() {
            WORK => self.work(event),
            NOTHING if event.payload.is_empty() => self.producer_event(event),
            NOTHING => self.wrong.push("an event without fields has a payload".to_owned()),
            _ => self.added += 1,
        }
    }

    fn producer_event(&mut self, event: &Event) {
        self.received += 1;
        self.kinds |= 1_u64.checked_shl(event.definition.event_id).unwrap_or(0);
        *self.by_thread.entry(event.thread_id).or_default() += 1;
    }

    fn work(&mut self, event: &Event) {
        let number = |at: usize| {
            let bytes = event.payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(i64::from_le_bytes)
        };
        let (Some(index), Some(life), Some(bytes)) = (number(0), number(8), event.payload.get(18..)) else {
            return self.wrong.push(format!("a payload of {} bytes", event.payload.len()));
        };
        let wanted = filling(index, life);
        if bytes.iter().any(|byte| *byte != wanted) {
            self.wrong.push(format!("life {life} index {index}: other bytes than were written"));
        }
        let next = self.next_index.entry(life).or_default();
        if index < *next {
            self.wrong.push(format!("life {life}: index {index} where {next} was due"));
        }
        *next = index + 1;
        if life == RUNDOWN_LIFE { self.rundown += 1 } else { self.producer_event(event) }
    }
}

//! What a stream holds, counted while it grows.

use diagport_nettrace::{Completion, LossCounter, Reader, Record};

/// Counts events and losses of a stream that arrives in pieces.
#[derive(Debug)]
pub(crate) struct StreamCounter {
    reader: Reader,
    losses: LossCounter,
    events: u64,
    /// The reader's verdict on bytes that are no NetTrace; later bytes are not looked at.
    fault: Option<String>,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) ending: Ending,
    pub(crate) warnings: u64,
}

/// How a stream ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With its end mark.
    Complete,
    /// Before it; whole objects up to this byte can be read.
    TruncatedAt(u64),
    /// It stops being a trace.
    Malformed(String),
}

impl StreamCounter {
    pub(crate) fn new() -> Self {
        Self { reader: Reader::new(), losses: LossCounter::new(), events: 0, fault: None }
    }

    /// A counter that could not do its work; its counts say why.
    pub(crate) fn broken(reason: &str) -> Self {
        Self { fault: Some(reason.to_owned()), ..Self::new() }
    }

    /// Events, and events known to be lost.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.events, self.losses.lost())
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        self.reader.feed(bytes);
        loop {
            let (events, losses) = (&mut self.events, &mut self.losses);
            self.reader.skim_events(|event| {
                *events += 1;
                losses.event_number(event.capture_thread, event.thread_id, event.sequence);
            });
            match self.reader.next_record() {
                Ok(Some(record)) => self.count(&record),
                Ok(None) => return,
                Err(error) => {
                    self.fault = Some(error.to_string());
                    return;
                }
            }
        }
    }

    fn count(&mut self, record: &Record) {
        self.losses.record(record);
        if matches!(record, Record::Event(_)) {
            self.events += 1;
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let ending = match (&self.fault, self.reader.finish()) {
            (Some(fault), _) => Ending::Malformed(fault.clone()),
            (None, Completion::Complete) => Ending::Complete,
            (None, Completion::Truncated { at_byte }) => Ending::TruncatedAt(at_byte),
        };
        Counts {
            events: self.events,
            lost: self.losses.lost(),
            ending,
            warnings: self.reader.warning_count(),
        }
    }
}

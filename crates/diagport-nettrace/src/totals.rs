//! Counts over a whole stream.

use std::fmt;

use crate::{LossCounter, Record};

/// How many records of each kind a stream holds, and how many events it proves lost.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Metadata definitions.
    pub definitions: u64,
    /// Stacks.
    pub stacks: u64,
    /// Sequence points.
    pub sequence_points: u64,
    /// Lost events.
    pub loss: LossCounter,
}

impl Totals {
    /// Counts the next record.
    pub fn record(&mut self, record: &Record) {
        match record {
            Record::Trace(_) | Record::End => {}
            Record::Metadata { .. } => self.definitions += 1,
            Record::Stack { .. } => self.stacks += 1,
            Record::Event(_) => self.events += 1,
            Record::SequencePoint { .. } => self.sequence_points += 1,
        }
        self.loss.record(record);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "events={} definitions={} stacks={} sequence_points={} lost={}",
            self.events,
            self.definitions,
            self.stacks,
            self.sequence_points,
            self.loss.lost()
        )
    }
}

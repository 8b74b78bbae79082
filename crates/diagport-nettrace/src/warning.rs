//! What a reader noticed and read over.

use std::fmt;

use crate::metadata_decode::FieldListProblem;

/// Warnings kept word for word; later ones are only counted.
pub const MAX_KEPT_WARNINGS: usize = 1_000;

/// Something odd in a stream that does not stop the reader.
// spec: NT4-READ-4
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Offset in the stream.
    pub at_byte: u64,
    /// What it is.
    pub kind: WarningKind,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at_byte, self.kind)
    }
}

/// The kinds of [`Warning`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// A field of the start time is out of range, for example millisecond 1000.
    #[error("the start time {0} is not a valid date and time")]
    OddStartTime(crate::UtcTime),
    /// Times cannot be told in seconds.
    #[error("the tick frequency {0} is not positive")]
    OddTickFrequency(i64),
    /// The capture thread's clock went back.
    #[error("the clock of capture thread {capture_thread} goes back by {ticks} ticks")]
    ClockWentBack {
        /// The thread.
        capture_thread: u64,
        /// How far.
        ticks: u64,
    },
    /// An event names a definition that was not there before; it is returned with an empty definition.
    #[error("metadata id {0} is used but not defined")]
    UndefinedMetadata(u32),
    /// A metadata id is defined again; the later definition counts from here on.
    #[error("metadata id {0} is defined twice")]
    RedefinedMetadata(u32),
    /// The fields of a definition were given up.
    #[error("metadata id {id}: {problem}")]
    FieldList {
        /// The definition.
        id: u32,
        /// Why.
        problem: FieldListProblem,
    },
    /// An EventBlock without events: other readers stop at it.
    #[error("an empty event block")]
    EmptyEventBlock,
    /// A block header longer than 20 bytes.
    #[error("a block header of {0} bytes")]
    OddBlockHeader(u16),
    /// A stack block says more or fewer stacks than it holds.
    #[error("a stack block says {said} stacks and holds {held}")]
    StackCount {
        /// Its count field.
        said: u32,
        /// Found.
        held: u32,
    },
    /// Bytes behind the last entry of a block.
    #[error("{0} spare bytes at the end of a block")]
    SpareBytes(u64),
    /// Bytes behind the end marker of the stream.
    #[error("bytes follow the end of the stream")]
    TrailingBytes,
}

/// Bounded list of warnings.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    kept: Vec<Warning>,
    beyond: u64,
}

impl Warnings {
    pub(crate) fn push(&mut self, at_byte: u64, kind: WarningKind) {
        if self.kept.len() < MAX_KEPT_WARNINGS {
            self.kept.push(Warning { at_byte, kind });
        } else {
            self.beyond += 1;
        }
    }

    pub(crate) fn kept(&self) -> &[Warning] {
        &self.kept
    }

    pub(crate) fn total(&self) -> u64 {
        self.kept.len() as u64 + self.beyond
    }
}

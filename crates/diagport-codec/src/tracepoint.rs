//! The tracepoint configuration of a user_events session.

use std::collections::HashSet;

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{DecodeError, EncodeError, limits};

/// Least bytes of one set: a count of units and a count of ids.
const MIN_SET_BYTES: usize = 8;

/// Where one provider's events go in a user_events session.
// spec: EP-TP-1
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TracepointConfig {
    /// Tracepoint of every event that stands in no set. `None`: such events go nowhere, and there is a set.
    pub default_name: Option<String>,
    /// Tracepoints of particular events.
    pub sets: Vec<TracepointSet>,
}

/// A tracepoint and the events that go there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TracepointSet {
    /// Tracepoint name, never empty.
    pub name: String,
    /// Event ids. May be empty; an id stands at most once in all sets of a provider.
    pub ids: Vec<u32>,
}

impl TracepointConfig {
    /// Reads the encoding only; [`check`](Self::check) judges the meaning once the whole payload is read.
    // spec: EP-TP-2
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let default_name = reader.string("tracepoint.defaultName")?;
        let count = reader.count("tracepoint.sets", MIN_SET_BYTES)?;
        if default_name.is_none() && count == 0 {
            return Err(DecodeError::NoTracepoint);
        }
        let mut sets = Vec::with_capacity(count);
        for _ in 0..count {
            let name = reader.non_empty_string("tracepoint.setName")?;
            let ids = reader.u32_array("tracepoint.setIds")?;
            sets.push(TracepointSet { name, ids });
        }
        Ok(Self { default_name, sets })
    }

    /// Whether the tracepoints could be registered. What could not is answered FAIL, not BAD_ENCODING.
    // spec: EP-TP-3, EP-TP-4
    pub(crate) fn check(&self) -> Result<(), TracepointFault> {
        for name in self.default_name.iter().chain(self.sets.iter().map(|set| &set.name)) {
            if name.is_empty() {
                return Err(TracepointFault::EmptyName);
            }
            if name.len() > limits::MAX_TRACEPOINT_NAME_BYTES {
                return Err(TracepointFault::NameTooLong { name_bytes: name.len() });
            }
        }
        let mut seen = HashSet::new();
        match self.sets.iter().flat_map(|set| &set.ids).find(|id| !seen.insert(**id)) {
            None => Ok(()),
            Some(event_id) => Err(TracepointFault::DuplicateId { event_id: *event_id }),
        }
    }

    pub(crate) fn encode(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        if self.default_name.is_none() && self.sets.is_empty() {
            return Err(EncodeError::Tracepoints { problem: "a provider names no tracepoint" });
        }
        self.check()?;
        writer.string("tracepoint.defaultName", self.default_name.as_deref())?;
        writer.count(self.sets.len());
        for set in &self.sets {
            writer.string("tracepoint.setName", Some(&set.name))?;
            writer.u32_array(&set.ids);
        }
        Ok(())
    }
}

/// Why tracepoints that are encoded well cannot be registered.
#[derive(Debug)]
pub(crate) enum TracepointFault {
    EmptyName,
    NameTooLong { name_bytes: usize },
    DuplicateId { event_id: u32 },
}

impl From<TracepointFault> for DecodeError {
    fn from(fault: TracepointFault) -> Self {
        match fault {
            TracepointFault::EmptyName => Self::EmptyTracepointName,
            TracepointFault::NameTooLong { name_bytes } => Self::TracepointNameTooLong { name_bytes },
            TracepointFault::DuplicateId { event_id } => Self::DuplicateTracepointId { event_id },
        }
    }
}

impl From<TracepointFault> for EncodeError {
    fn from(fault: TracepointFault) -> Self {
        let problem = match fault {
            TracepointFault::EmptyName => "a name is empty",
            TracepointFault::NameTooLong { .. } => "a name is too long",
            TracepointFault::DuplicateId { .. } => "an event id stands twice",
        };
        Self::Tracepoints { problem }
    }
}

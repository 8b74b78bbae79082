//! The event filter of `CollectTracing5` and later.

use crate::DecodeError;
use crate::reader::Reader;
use crate::writer::Writer;

/// Whether the ids of an [`EventFilter`] are the ones that pass or the ones that do not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FilterSense {
    /// Only the ids pass (wire: enable 1). No ids: nothing passes.
    Allow,
    /// All but the ids pass (wire: enable 0). No ids: everything passes.
    Deny,
}

/// Which event ids of one provider pass. Applied after keywords and level.
// spec: EP-FILTER-1
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EventFilter {
    /// What the ids mean.
    pub sense: FilterSense,
    /// Event ids as they stood on the wire: any order, duplicates allowed.
    pub ids: Vec<u32>,
}

impl EventFilter {
    /// Everything passes.
    pub const ALL: Self = Self { sense: FilterSense::Deny, ids: Vec::new() };
    /// Nothing passes.
    pub const NOTHING: Self = Self { sense: FilterSense::Allow, ids: Vec::new() };

    /// Whether every event passes.
    #[must_use]
    pub fn passes_all(&self) -> bool {
        self.sense == FilterSense::Deny && self.ids.is_empty()
    }

    /// Whether events of this id pass. Looks at every id: a hot path keeps a set of its own.
    // spec: EP-FILTER-2
    #[must_use]
    pub fn passes(&self, event_id: u32) -> bool {
        let listed = self.ids.contains(&event_id);
        match self.sense {
            FilterSense::Allow => listed,
            FilterSense::Deny => !listed,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let sense = if reader.bool("filter.enable")? { FilterSense::Allow } else { FilterSense::Deny };
        let ids = reader.u32_array("filter.eventIds")?;
        Ok(Self { sense, ids })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.u8(match self.sense {
            FilterSense::Allow => 1,
            FilterSense::Deny => 0,
        });
        writer.u32_array(&self.ids);
    }
}

impl Default for EventFilter {
    fn default() -> Self {
        Self::ALL
    }
}

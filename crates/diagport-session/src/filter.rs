//! Which event ids of a provider a session wants.

/// What being in the list means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterSense {
    /// Only the listed ids pass.
    Allow,
    /// All but the listed ids pass.
    Deny,
}

/// A list of event ids and its sense. Applied after keywords and level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    sense: FilterSense,
    /// Sorted.
    ids: Vec<u32>,
}

impl EventFilter {
    /// Denies nothing.
    pub const ALL: Self = Self { sense: FilterSense::Deny, ids: Vec::new() };

    /// A filter over `ids`, in any order, repeated or not.
    #[must_use]
    pub fn new(sense: FilterSense, mut ids: Vec<u32>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        Self { sense, ids }
    }

    /// Whether an event with this id passes.
    // spec: SES-ENABLE-3
    #[must_use]
    pub fn passes(&self, event_id: u32) -> bool {
        (self.sense == FilterSense::Allow) == self.ids.binary_search(&event_id).is_ok()
    }
}

impl Default for EventFilter {
    fn default() -> Self {
        Self::ALL
    }
}

//! One provider entry of a `CollectTracing`.

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{DecodeError, EncodeError, EventFilter, TracepointConfig, limits};

/// Least bytes of one entry: keywords, level, two counts of units.
pub(crate) const MIN_PROVIDER_BYTES: usize = 20;

/// What a session asks of one provider.
// spec: EP-PROV-1
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProviderRequest {
    /// Keyword bits; an event of keyword 0 passes whatever they are.
    pub keywords: u64,
    /// Highest level that passes: 0 (everything) to 5 (Verbose).
    pub level: u32,
    /// Provider name, exact and case-sensitive, never empty.
    pub name: String,
    /// Arguments for the provider's enable callback: `key=value;…`.
    pub arguments: Option<String>,
    /// Event ids that pass. Older commands than `CollectTracing5` pass all.
    pub filter: EventFilter,
    /// Where the events go: exactly in user_events sessions.
    pub tracepoints: Option<TracepointConfig>,
}

impl ProviderRequest {
    /// A request for a provider without arguments, filter or tracepoints.
    #[must_use]
    pub fn new(name: impl Into<String>, keywords: u64, level: u32) -> Self {
        Self {
            keywords,
            level,
            name: name.into(),
            arguments: None,
            filter: EventFilter::ALL,
            tracepoints: None,
        }
    }

    /// The part that every version has.
    // spec: EP-PROV-2, EP-PROV-3
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let keywords = reader.u64("provider.keywords")?;
        let level = reader.u32("provider.level")?;
        if level > limits::MAX_EVENT_LEVEL {
            return Err(DecodeError::ProviderLevel { value: level });
        }
        let name = reader.non_empty_string("provider.name")?;
        let arguments = reader.string("provider.arguments")?;
        Ok(Self { arguments, ..Self::new(name, keywords, level) })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        if self.level > limits::MAX_EVENT_LEVEL {
            return Err(EncodeError::ProviderLevel { value: self.level });
        }
        if self.name.is_empty() {
            return Err(EncodeError::EmptyString { field: "provider.name" });
        }
        writer.u64(self.keywords);
        writer.u32(self.level);
        writer.string("provider.name", Some(&self.name))?;
        writer.string("provider.arguments", self.arguments.as_deref())
    }
}

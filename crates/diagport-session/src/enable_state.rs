//! Whether an event passes a session, and what a provider is told about all sessions together.

use crate::session_config::{EventLevel, ProviderConfig};

/// Bits that every managed EventSource sets in its keywords; they carry no wish of a session.
const RESERVED_KEYWORDS: u64 = 0x0000_F000_0000_0000;

/// All entries of one session that name one provider, as one.
#[derive(Clone, Debug)]
pub(crate) struct Enablement<'a> {
    pub(crate) keywords: u64,
    pub(crate) level: EventLevel,
    pub(crate) arguments: Option<&'a str>,
    entries: Vec<&'a ProviderConfig>,
}

impl<'a> Enablement<'a> {
    /// None if no entry names the provider. Entries are merged: keywords OR, most verbose level, first arguments, any filter.
    // spec: SES-ENABLE-4, SES-ENABLE-5
    pub(crate) fn of(provider: &str, entries: &'a [ProviderConfig]) -> Option<Self> {
        let entries: Vec<_> = entries.iter().filter(|e| e.name == provider || is_catch_all(e)).collect();
        let mut union = Union::default();
        entries.iter().for_each(|entry| union.add(entry.keywords, entry.level));
        let arguments = entries.iter().find_map(|entry| entry.arguments.as_deref());
        union.level.map(|level| Self { keywords: union.keywords, level, arguments, entries })
    }

    /// Whether the session wants an event.
    // spec: SES-ENABLE-1, SES-ENABLE-2
    pub(crate) fn passes(&self, event_id: u32, keywords: u64, level: EventLevel) -> bool {
        let keywords = if keywords == u64::MAX { keywords } else { keywords & !RESERVED_KEYWORDS };
        (keywords == 0 || keywords & self.keywords != 0)
            && (level == EventLevel::LogAlways || self.level == EventLevel::LogAlways || level <= self.level)
            && self.entries.iter().any(|entry| entry.filter.passes(event_id))
    }
}

// spec: SES-ENABLE-5
fn is_catch_all(entry: &ProviderConfig) -> bool {
    entry.name == "*" && entry.keywords == u64::MAX && entry.level == EventLevel::Verbose
}

/// OR of keywords and the most verbose level, where `LogAlways` (no limit) is above all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Union {
    pub(crate) keywords: u64,
    /// None while nothing was added.
    pub(crate) level: Option<EventLevel>,
}

impl Union {
    // spec: SES-ENABLE-6
    pub(crate) fn add(&mut self, keywords: u64, level: EventLevel) {
        self.keywords |= keywords;
        self.level = Some(match self.level {
            None => level,
            Some(EventLevel::LogAlways) => EventLevel::LogAlways,
            Some(_) if level == EventLevel::LogAlways => level,
            Some(known) => known.max(level),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventFilter, FilterSense};
    use EventLevel::{Error, Informational, LogAlways, Verbose};

    fn check(entries: &[ProviderConfig], event: (u32, u64, EventLevel), wanted: bool) {
        let passes =
            Enablement::of("P", entries).is_some_and(|enabled| enabled.passes(event.0, event.1, event.2));
        assert_eq!(passes, wanted, "event {event:x?} against {entries:x?}");
    }

    // spec-test: SES-ENABLE-1, SES-ENABLE-2
    #[test]
    fn keywords_and_level_decide() {
        let entry = |keywords, level| [ProviderConfig::new("P", keywords, level)];
        for (entry, event, wanted) in [
            (entry(1, Informational), (1, 1, Informational), true),
            (entry(1, Informational), (1, 2, Informational), false),
            (entry(1, Informational), (1, 0, Informational), true),
            (entry(0, Informational), (1, 0, Informational), true),
            (entry(0, Informational), (1, 1, Informational), false),
            (entry(1, Informational), (1, 1, Verbose), false),
            (entry(1, LogAlways), (1, 1, Verbose), true),
            (entry(1, EventLevel::Critical), (1, 1, LogAlways), true),
            (entry(1, Informational), (1, 0xF000_0000_0001, Informational), true),
            (entry(1, Informational), (1, 0xF000_0000_0000, Informational), true),
            (entry(0x1000_0000_0000, Informational), (1, 0xF000_0000_0002, Informational), false),
            (entry(0x1000_0000_0000, Informational), (1, u64::MAX, Informational), true),
            ([ProviderConfig::everything("p")], (1, 0, LogAlways), false),
        ] {
            check(&entry, event, wanted);
        }
    }

    // spec-test: SES-ENABLE-3
    #[test]
    fn filters_follow_their_sense() {
        for (sense, ids, wanted) in [
            (FilterSense::Deny, vec![], true),
            (FilterSense::Allow, vec![], false),
            (FilterSense::Allow, vec![9, 1, 1], true),
            (FilterSense::Allow, vec![2], false),
            (FilterSense::Deny, vec![1], false),
            (FilterSense::Deny, vec![2], true),
        ] {
            let filter = EventFilter::new(sense, ids);
            check(&[ProviderConfig { filter, ..ProviderConfig::everything("P") }], (1, 0, LogAlways), wanted);
        }
    }

    // spec-test: SES-ENABLE-4
    #[test]
    fn entries_of_one_provider_are_merged() {
        let none = EventFilter::new(FilterSense::Allow, vec![]);
        let entries = [
            ProviderConfig { filter: none, ..ProviderConfig::new("P", 1, Error) },
            ProviderConfig { arguments: Some("a=1".into()), ..ProviderConfig::new("P", 2, LogAlways) },
            ProviderConfig { arguments: Some("b=2".into()), ..ProviderConfig::new("P", 4, Error) },
            ProviderConfig::everything("Q"),
        ];
        let merged = Enablement::of("P", &entries).unwrap();
        assert_eq!((merged.keywords, merged.level, merged.arguments), (7, LogAlways, Some("a=1")));
        check(&entries, (1, 1, Verbose), true);
        check(&entries, (1, 8, Verbose), false);
    }

    // spec-test: SES-ENABLE-5
    #[test]
    fn a_star_is_catch_all_only_in_full() {
        check(&[ProviderConfig::everything("*")], (1, 1 << 40, Verbose), true);
        check(&[ProviderConfig::new("*", u64::MAX, Informational)], (1, 0, LogAlways), false);
        check(&[ProviderConfig::new("*", u64::MAX >> 1, Verbose)], (1, 0, LogAlways), false);
        check(
            &[ProviderConfig::new("P", 0, Error), ProviderConfig::everything("*")],
            (1, 1 << 40, Verbose),
            true,
        );
    }

    // spec-test: SES-ENABLE-6
    #[test]
    fn no_limit_dominates_the_union() {
        let mut union = Union::default();
        for (level, wanted) in
            [(Error, Error), (Informational, Informational), (LogAlways, LogAlways), (Verbose, LogAlways)]
        {
            union.add(1, level);
            assert_eq!(union.level, Some(wanted));
        }
    }
}

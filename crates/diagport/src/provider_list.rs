//! The grammar of `EventPipeConfig`: `entry(,entry)*`, an entry being `name[:keywords[:level[:arguments]]]`.
//!
//! It is the runtime's own, odd places included, because people have such texts: a part that is missing and one that is there but empty
//! mean different things, and no part can hold `:` or `,`.

use diagport_session::{EventLevel, ProviderConfig};

const BEYOND_LEVELS: u32 = u32::MAX;

/// What the text asks for, and what a person should be told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderList {
    /// None where no entry has a name.
    pub(crate) providers: Vec<ProviderConfig>,
    /// One line a cause.
    pub(crate) remarks: Vec<String>,
}

impl ProviderList {
    // spec: START-CONFIG-1, START-CONFIG-3
    pub(crate) fn parse(text: &str) -> Self {
        let mut list = Self { providers: Vec::new(), remarks: Vec::new() };
        let mut nameless = 0;
        // What ends with a comma has no entry behind it.
        for entry in text.strip_suffix(',').unwrap_or(text).split(',') {
            match list.parse_entry(entry) {
                Some(provider) => list.providers.push(provider),
                None => nameless += 1,
            }
        }
        if nameless > 0 {
            list.remarks.push(format!("EventPipeConfig: entries without a name are skipped ({nameless})"));
        }
        list
    }

    /// `None`: it has no name.
    // spec: START-CONFIG-2
    fn parse_entry(&mut self, entry: &str) -> Option<ProviderConfig> {
        // What follows a fifth part's colon is nobody's.
        let mut parts = entry.split(':');
        let name = parts.next().filter(|name| !name.is_empty())?;
        let keywords = match parts.next() {
            None => 0,
            Some("") => u64::MAX,
            Some(text) => leading_number(text, 16),
        };
        let level = match parts.next() {
            None => EventLevel::Verbose as u32,
            Some("") => BEYOND_LEVELS,
            // The runtime keeps 32 bits.
            Some(text) => leading_number(text, 10) as u32,
        };
        let level = EventLevel::from_number(level).unwrap_or_else(|| {
            self.remarks.push(format!("EventPipeConfig: the level of {entry:?} counts as 5, the highest"));
            EventLevel::Verbose
        });
        let arguments = parts.next().filter(|text| !text.is_empty()).map(str::to_owned);
        Some(ProviderConfig { arguments, ..ProviderConfig::new(name, keywords, level) })
    }
}

/// The number at the beginning of `text`, as C's `strtoul` sees it: blanks, a sign, `0x` where the base is 16, digits; junk is 0, too
/// large is the largest.
fn leading_number(text: &str, base: u32) -> u64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = if base == 16 { text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) } else { None };
    let digits = prefix.unwrap_or(text);
    let end = digits.find(|letter: char| !letter.is_digit(base)).unwrap_or(digits.len());
    match u64::from_str_radix(&digits[..end], base) {
        Ok(number) if is_negative => number.wrapping_neg(),
        Ok(number) => number,
        Err(_) if end == 0 => 0,
        Err(_) => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    /// Providers as (name, keywords, level, arguments), and the number of remarks.
    fn check(text: &str, expected: &[(&str, u64, u32, Option<&str>)], remarks: usize) {
        let list = ProviderList::parse(text);
        let found: Vec<_> = list
            .providers
            .iter()
            .map(|p| (p.name.as_str(), p.keywords, p.level as u32, p.arguments.as_deref()))
            .collect();
        assert_eq!(found, expected, "{text:?}");
        assert_eq!(list.remarks.len(), remarks, "{text:?}: {:?}", list.remarks);
    }

    // spec-test: START-CONFIG-1
    #[test]
    fn whole_entries() {
        check("R:1:4", &[("R", 1, 4, None)], 0);
        check("R:1:4,S:ff:0", &[("R", 1, 4, None), ("S", 0xff, 0, None)], 0);
        check("R:0x1F:2:a=b;c=\"d e\"", &[("R", 0x1f, 2, Some("a=b;c=\"d e\""))], 0);
        check("R:1:4:a=b:junk:more,S:2:3", &[("R", 1, 4, Some("a=b")), ("S", 2, 3, None)], 0);
        check("*:FFFFFFFFFFFFFFFF:5", &[("*", ALL, 5, None)], 0);
        check("R:1:4;S:1:4", &[("R", 1, 4, Some("1"))], 0);
        check(" R :1:4", &[(" R ", 1, 4, None)], 0);
    }

    // spec-test: START-CONFIG-2
    #[test]
    fn missing_parts_and_empty_ones() {
        check("R", &[("R", 0, 5, None)], 0);
        check("R:", &[("R", ALL, 5, None)], 0);
        check("R::", &[("R", ALL, 5, None)], 1);
        check("R:1:", &[("R", 1, 5, None)], 1);
        check("R::4", &[("R", ALL, 4, None)], 0);
        check("R::4:", &[("R", ALL, 4, None)], 0);
        check("R:zz:4", &[("R", 0, 4, None)], 0);
        check("R:1:4,", &[("R", 1, 4, None)], 0);
        check("*", &[("*", 0, 5, None)], 0);
    }

    // spec-test: START-CONFIG-2
    #[test]
    fn numbers_are_read_as_c_reads_them() {
        check("R:1z:4x", &[("R", 1, 4, None)], 0);
        check("R: 1: 4", &[("R", 1, 4, None)], 0);
        check("R:-1:+4", &[("R", ALL, 4, None)], 0);
        check("R:1ffffffffffffffff:x", &[("R", ALL, 0, None)], 0);
        check("R:0x:04", &[("R", 0, 4, None)], 0);
        check("R:é:4", &[("R", 0, 4, None)], 0);
    }

    // spec-test: START-CONFIG-3
    #[test]
    fn nonsense_is_told_of() {
        check("R:1:9", &[("R", 1, 5, None)], 1);
        check("R:1:-1", &[("R", 1, 5, None)], 1);
        check("R:1:6,S:1:7", &[("R", 1, 5, None), ("S", 1, 5, None)], 2);
        check(",", &[], 1);
        check(",,,", &[], 1);
        check(":1:4", &[], 1);
        check("R:1:4,,S:0:5", &[("R", 1, 4, None), ("S", 0, 5, None)], 1);
        check(",R:1:4,:9:9", &[("R", 1, 4, None)], 1);
    }

    #[test]
    fn remarks_are_single_lines() {
        let list = ProviderList::parse("R\n\u{1b}[2J:1:9,,");
        for remark in &list.remarks {
            assert!(!remark.contains(char::is_control), "{remark:?}");
        }
        assert_eq!(list.remarks.len(), 2);
    }
}

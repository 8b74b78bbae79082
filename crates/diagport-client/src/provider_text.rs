//! The text forms in which people name providers: `--providers`, `--clrevents` and levels.
//!
//! The grammar is the released collector's own, so that a command line that works there works here: what is left out of
//! `Name:Keywords:Level:Arguments` becomes keywords 0 and level 4, keywords are hexadecimal with or without `0x`, and
//! levels above 5 count as 5.

use diagport_codec::{EventFilter, ProviderRequest};
use thiserror::Error;

/// Level of a provider that names none: Informational.
pub const DEFAULT_LEVEL: u32 = 4;
/// The highest level there is: Verbose.
pub const HIGHEST_LEVEL: u32 = 5;
/// Name of the runtime's own provider, the one that `--clrevents` configures.
pub const CLR_PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";

/// Why a provider text was not understood. Each message quotes the offending part.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProviderTextError {
    /// A provider without a name.
    #[error("provider {index} of the list has no name")]
    NoName {
        /// Position in the comma-separated list, counted from 1.
        index: usize,
    },
    /// Keywords that are not up to 16 hexadecimal digits.
    #[error("keywords `{text}` of provider `{provider}` are not a hexadecimal number of at most 16 digits")]
    Keywords {
        /// The provider's name.
        provider: String,
        /// What stands where keywords belong.
        text: String,
    },
    /// A level that is neither a number nor a known word.
    #[error(
        "`{text}` is not an event level; known: 0 to 5, LogAlways, Critical, Error, Warning, Informational, Verbose"
    )]
    Level {
        /// What stands where a level belongs.
        text: String,
    },
    /// The same argument key twice.
    #[error("argument `{key}` of provider `{provider}` is given twice")]
    DuplicateArgument {
        /// The provider's name.
        provider: String,
        /// The key.
        key: String,
    },
    /// The same provider twice, both times with arguments.
    #[error("provider `{provider}` is given twice with arguments")]
    DuplicateProvider {
        /// The provider's name.
        provider: String,
    },
    /// A word of `--clrevents` that names no keyword.
    #[error("`{word}` is not a CLR event keyword; known: {}", known_clr_keywords())]
    ClrKeyword {
        /// The unknown word.
        word: String,
    },
}

/// A provider request as the released client sends it: absent arguments travel as an empty string, the filter passes all.
pub fn provider(name: &str, keywords: u64, level: u32, arguments: Option<String>) -> ProviderRequest {
    ProviderRequest {
        keywords,
        level,
        name: name.to_owned(),
        arguments: Some(arguments.unwrap_or_default()),
        filter: EventFilter::ALL,
        tracepoints: None,
    }
}

/// Reads a comma-separated list of providers; empty parts of the list count for nothing. A name given twice (in any case) is merged: keywords are united and the
/// more verbose level holds, where level 0 is the most verbose of all.
///
/// # Errors
/// The first part that was not understood.
// spec: CLI-PROVIDERS-1
pub fn parse_providers(text: &str) -> Result<Vec<ProviderRequest>, ProviderTextError> {
    let mut providers = Vec::new();
    for (index, part) in text.split(',').enumerate().filter(|(_, part)| !part.trim().is_empty()) {
        merge(&mut providers, parse_provider(part, index + 1)?)?;
    }
    Ok(providers)
}

fn parse_provider(text: &str, index: usize) -> Result<ProviderRequest, ProviderTextError> {
    let mut parts = text.splitn(4, ':');
    let name = parts.next().unwrap_or_default().trim();
    if name.is_empty() {
        return Err(ProviderTextError::NoName { index });
    }
    let keywords = match parts.next().map(str::trim) {
        None | Some("") => 0,
        Some(digits) => parse_keywords(name, digits)?,
    };
    let level = match parts.next().map(str::trim) {
        None | Some("") => DEFAULT_LEVEL,
        Some(level) => parse_level(level)?,
    };
    let arguments = match parts.next() {
        None => None,
        Some(text) if text.trim().is_empty() => None,
        Some(text) => Some(format_arguments(&parse_arguments(name, text)?)),
    };
    Ok(provider(name, keywords, level, arguments))
}

fn parse_keywords(provider: &str, text: &str) -> Result<u64, ProviderTextError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    match u64::from_str_radix(digits, 16) {
        Ok(keywords) if plain => Ok(keywords),
        _ => Err(ProviderTextError::Keywords { provider: provider.to_owned(), text: text.to_owned() }),
    }
}

/// Reads an event level: a number (above 5 means 5) or one of the six names in any case.
///
/// # Errors
/// [`ProviderTextError::Level`] for anything else.
pub fn parse_level(text: &str) -> Result<u32, ProviderTextError> {
    let unknown = || ProviderTextError::Level { text: text.to_owned() };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number too large for u32 is above 5 like any other.
        return Ok(text.parse::<u32>().unwrap_or(HIGHEST_LEVEL).min(HIGHEST_LEVEL));
    }
    Ok(match text.to_ascii_lowercase().as_str() {
        "logalways" => 0,
        "critical" => 1,
        "error" => 2,
        "warning" => 3,
        "informational" => 4,
        "verbose" => 5,
        _ => return Err(unknown()),
    })
}

/// Splits `k=v;k=v`; a value in double quotes may hold `;` and `=`. Backslash escapes are resolved first, as the released
/// tool does, so that quotes that a shell made necessary to escape arrive as quotes.
fn parse_arguments(provider: &str, text: &str) -> Result<Vec<(String, String)>, ProviderTextError> {
    let text = unescape(text);
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in split_unquoted(&text, ';') {
        let mut halves = split_unquoted(part, '=');
        let key = strip_quotes(halves.remove(0));
        if halves.is_empty() || key.is_empty() {
            continue; // the released tool skips a part without a key or without `=`
        }
        let value = strip_quotes(&halves.join("="));
        if pairs.iter().any(|(known, _)| *known == key) {
            return Err(ProviderTextError::DuplicateArgument { provider: provider.to_owned(), key });
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            parts.push(&text[start..at]);
            start = at + c.len_utf8();
        }
    }
    parts.push(&text[start..]);
    parts
}

fn strip_quotes(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(text).to_owned()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}

fn format_arguments(pairs: &[(String, String)]) -> String {
    let quoted = |text: &str| {
        if text.contains([';', '=']) { format!("\"{text}\"") } else { text.to_owned() }
    };
    pairs.iter().map(|(k, v)| format!("{}={}", quoted(k), quoted(v))).collect::<Vec<_>>().join(";")
}

/// Adds a provider to a list in which names are unique in any case.
fn merge(providers: &mut Vec<ProviderRequest>, added: ProviderRequest) -> Result<(), ProviderTextError> {
    let Some(known) = providers.iter_mut().find(|p| p.name.eq_ignore_ascii_case(&added.name)) else {
        providers.push(added);
        return Ok(());
    };
    if has_arguments(known) && has_arguments(&added) {
        return Err(ProviderTextError::DuplicateProvider { provider: added.name });
    }
    known.level = if known.level == 0 || added.level == 0 { 0 } else { known.level.max(added.level) };
    known.keywords |= added.keywords;
    if has_arguments(&added) {
        known.arguments = added.arguments;
    }
    Ok(())
}

fn has_arguments(provider: &ProviderRequest) -> bool {
    provider.arguments.as_deref().is_some_and(|text| !text.is_empty())
}

/// The runtime provider with the keywords of a `+`-separated list of words.
///
/// # Errors
/// The first unknown word, with all known ones.
pub fn parse_clr_events(words: &str, level: u32) -> Result<ProviderRequest, ProviderTextError> {
    let mut keywords = 0;
    for word in words.split('+').map(str::trim) {
        let known = CLR_KEYWORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let (_, bits) = known.ok_or_else(|| ProviderTextError::ClrKeyword { word: word.to_owned() })?;
        keywords |= bits;
    }
    Ok(provider(CLR_PROVIDER, keywords, level, None))
}

fn known_clr_keywords() -> String {
    CLR_KEYWORDS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("+")
}

/// Keyword words of the runtime provider, as the released tool spells them.
const CLR_KEYWORDS: &[(&str, u64)] = &[
    ("gc", 0x1),
    ("gchandle", 0x2),
    ("fusion", 0x4),
    ("assemblyloader", 0x4),
    ("loader", 0x8),
    ("jit", 0x10),
    ("ngen", 0x20),
    ("startenumeration", 0x40),
    ("endenumeration", 0x80),
    ("security", 0x400),
    ("appdomainresourcemanagement", 0x800),
    ("jittracing", 0x1000),
    ("interop", 0x2000),
    ("contention", 0x4000),
    ("exception", 0x8000),
    ("threading", 0x1_0000),
    ("jittedmethodiltonativemap", 0x2_0000),
    ("overrideandsuppressngenevents", 0x4_0000),
    ("type", 0x8_0000),
    ("gcheapdump", 0x10_0000),
    ("gcsampledobjectallocationhigh", 0x20_0000),
    ("gcheapsurvivalandmovement", 0x40_0000),
    ("gcheapcollect", 0x80_0000),
    ("managedheadcollect", 0x80_0000),
    ("gcheapandtypenames", 0x100_0000),
    ("gcsampledobjectallocationlow", 0x200_0000),
    ("perftrack", 0x2000_0000),
    ("stack", 0x4000_0000),
    ("threadtransfer", 0x8000_0000),
    ("debugger", 0x1_0000_0000),
    ("monitoring", 0x2_0000_0000),
    ("codesymbols", 0x4_0000_0000),
    ("eventsource", 0x8_0000_0000),
    ("compilation", 0x10_0000_0000),
    ("compilationdiagnostic", 0x20_0000_0000),
    ("methoddiagnostic", 0x40_0000_0000),
    ("typediagnostic", 0x80_0000_0000),
    ("jitinstrumentationdata", 0x100_0000_0000),
    ("profiler", 0x200_0000_0000),
    ("waithandle", 0x400_0000_0000),
    ("allocationsampling", 0x800_0000_0000),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<(String, u64, u32, String)>, ProviderTextError> {
        let providers = parse_providers(text)?;
        Ok(providers
            .into_iter()
            .map(|p| (p.name, p.keywords, p.level, p.arguments.expect("always sent")))
            .collect())
    }

    fn row(name: &str, keywords: u64, level: u32, arguments: &str) -> (String, u64, u32, String) {
        (name.to_owned(), keywords, level, arguments.to_owned())
    }

    // spec-test: CLI-PROVIDERS-1
    #[test]
    fn providers_read_as_the_released_tool_reads_them() {
        let cases = [
            ("A", vec![row("A", 0, 4, "")]),
            ("A:1:5", vec![row("A", 1, 5, "")]),
            ("A::", vec![row("A", 0, 4, "")]),
            ("A:0xFFFFFFFFFFFFFFFF:9", vec![row("A", u64::MAX, 5, "")]),
            ("A:10:verbose", vec![row("A", 16, 5, "")]),
            ("A:1:4:a=b;c=\"d;e=f\"", vec![row("A", 1, 4, "a=b;c=\"d;e=f\"")]),
            ("A:1:4:a=\\\"b;c\\\"", vec![row("A", 1, 4, "a=\"b;c\"")]),
            ("A:::EventCounterIntervalSec=1", vec![row("A", 0, 4, "EventCounterIntervalSec=1")]),
            ("A:1:2:k=x:y", vec![row("A", 1, 2, "k=x:y")]),
            ("A:1,B:2:3", vec![row("A", 1, 4, ""), row("B", 2, 3, "")]),
            ("A:1:2,a:4:3", vec![row("A", 5, 3, "")]),
            ("A:1:0,A:4:3:k=v", vec![row("A", 5, 0, "k=v")]),
            ("", vec![]),
            (",", vec![]),
            ("A,, ,B,", vec![row("A", 0, 4, ""), row("B", 0, 4, "")]),
        ];
        for (text, expected) in cases {
            assert_eq!(rows(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn faulty_providers_are_named() {
        let cases = [
            (":", "provider 1 of the list has no name"),
            ("A,,:1", "provider 3 of the list has no name"),
            (":1:4", "provider 1 of the list has no name"),
            ("A:xyz", "keywords `xyz` of provider `A`"),
            ("A:0x", "keywords `0x` of provider `A`"),
            ("A:+1", "keywords `+1` of provider `A`"),
            ("A:12345678901234567", "keywords `12345678901234567`"),
            ("A:1:loud", "`loud` is not an event level"),
            ("A:1:4:k=1;k=2", "argument `k` of provider `A` is given twice"),
            ("A:1:4:k=1,a:1:4:k=2", "provider `a` is given twice with arguments"),
        ];
        for (text, expected) in cases {
            let message = rows(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn clr_events_are_united() {
        let provider = parse_clr_events("gc+JIT+loader", 5).unwrap();
        assert_eq!((provider.name.as_str(), provider.keywords, provider.level), (CLR_PROVIDER, 0x19, 5));
        assert!(parse_clr_events("gc+nonsense", 4).unwrap_err().to_string().contains("`nonsense`"));
    }
}

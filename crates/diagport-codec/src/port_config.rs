//! Port texts: `DOTNET_DiagnosticPorts`, and the tools' `--diagnostic-port`.

use std::fmt;

use thiserror::Error;

/// Who makes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PortKind {
    /// This side connects.
    Connect,
    /// This side listens.
    Listen,
}

/// Whether startup waits for a resume on the port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SuspendMode {
    /// It waits.
    Suspend,
    /// It goes on.
    NoSuspend,
}

/// One port of `DOTNET_DiagnosticPorts`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PortSpec {
    /// Path as it stands in the text: not trimmed, not checked, never empty.
    pub address: String,
    /// Who connects; connect unless said otherwise.
    pub kind: PortKind,
    /// Whether startup waits; it does unless said otherwise.
    pub suspend: SuspendMode,
}

impl fmt::Display for PortSpec {
    /// The text that parses to this value, unless the address holds a separator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PortKind::Connect => "connect",
            PortKind::Listen => "listen",
        };
        let suspend = match self.suspend {
            SuspendMode::Suspend => "suspend",
            SuspendMode::NoSuspend => "nosuspend",
        };
        write!(f, "{},{kind},{suspend}", self.address)
    }
}

/// The ports of a `DOTNET_DiagnosticPorts` text, in its order. There is no malformed text.
///
/// Ports are separated by `;`, an address and its tags by `,`; empty parts vanish, nothing is trimmed, tags know
/// no case, unknown tags are ignored, and of two tags of a kind the first wins.
// spec: PORT-TEXT-1, PORT-TEXT-2, PORT-TEXT-3, PORT-TEXT-4
#[must_use]
pub fn parse_diagnostic_ports(text: &str) -> Vec<PortSpec> {
    text.split(';').filter_map(parse_port).collect()
}

fn parse_port(part: &str) -> Option<PortSpec> {
    let mut tokens = part.split(',').filter(|token| !token.is_empty());
    let address = tokens.next()?.to_owned();
    let mut kind = None;
    let mut suspend = None;
    for tag in tokens {
        if tag.eq_ignore_ascii_case("connect") {
            kind.get_or_insert(PortKind::Connect);
        } else if tag.eq_ignore_ascii_case("listen") {
            kind.get_or_insert(PortKind::Listen);
        } else if tag.eq_ignore_ascii_case("suspend") {
            suspend.get_or_insert(SuspendMode::Suspend);
        } else if tag.eq_ignore_ascii_case("nosuspend") {
            suspend.get_or_insert(SuspendMode::NoSuspend);
        }
    }
    Some(PortSpec {
        address,
        kind: kind.unwrap_or(PortKind::Connect),
        suspend: suspend.unwrap_or(SuspendMode::Suspend),
    })
}

/// The port of a tool's `--diagnostic-port` option.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ToolPort {
    /// Path, never empty.
    pub address: String,
    /// Who connects, seen from the tool; the tool listens unless said otherwise.
    pub kind: PortKind,
}

/// Why a `--diagnostic-port` text is none.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ParseToolPortError {
    /// Nothing stands before the comma, or at all.
    #[error("the diagnostic port has no address")]
    MissingAddress,
    /// More than one comma.
    #[error("the diagnostic port has more than an address and one keyword")]
    TooManyParts,
    /// The word behind the comma is neither `connect` nor `listen`.
    #[error("`{keyword}` is neither connect nor listen")]
    UnknownKeyword {
        /// The word.
        keyword: String,
    },
}

/// Reads `PATH[,connect|listen]`, as the tools' `--diagnostic-port` has it. Keywords know no case; nothing is trimmed.
///
/// # Errors
/// See [`ParseToolPortError`]. Unlike the runtime's text, this one can be wrong.
// spec: PORT-TOOL-1
pub fn parse_tool_port(text: &str) -> Result<ToolPort, ParseToolPortError> {
    let mut parts = text.split(',');
    let address = parts.next().unwrap_or_default();
    let keyword = parts.next();
    if parts.next().is_some() {
        return Err(ParseToolPortError::TooManyParts);
    }
    if address.is_empty() {
        return Err(ParseToolPortError::MissingAddress);
    }
    let kind = match keyword {
        None => PortKind::Listen,
        Some(word) if word.eq_ignore_ascii_case("listen") => PortKind::Listen,
        Some(word) if word.eq_ignore_ascii_case("connect") => PortKind::Connect,
        Some(word) => return Err(ParseToolPortError::UnknownKeyword { keyword: word.to_owned() }),
    };
    Ok(ToolPort { address: address.to_owned(), kind })
}

//! Why a stream cannot be read further.

/// The stream breaks the format at a place the reader cannot step over. Everything before it has been returned.
// spec: NT4-READ-3
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The first bytes are of no known container.
    #[error("byte {at_byte}: not a NetTrace stream")]
    BadBeginning {
        /// First byte that differs.
        at_byte: u64,
    },
    /// A container or object of another version.
    #[error("byte {at_byte}: unsupported version {version} of the {what} (versions 3 to 5 can be read)")]
    UnsupportedVersion {
        /// What has the version: `format`, or an object's name.
        what: &'static str,
        /// The version found.
        version: u32,
        /// Where it stands.
        at_byte: u64,
    },
    /// A tag of the object framing is wrong, mostly because a size was.
    #[error("byte {at_byte}: tag {found:#04x} where {expected:#04x} must be")]
    BadTag {
        /// What must be there.
        expected: u8,
        /// What is there.
        found: u8,
        /// Where.
        at_byte: u64,
    },
    /// An object this format does not have; its length cannot be known.
    #[error("byte {at_byte}: unknown object {name:?}")]
    UnknownObject {
        /// Its name, at most 64 bytes.
        name: String,
        /// Start of the name.
        at_byte: u64,
    },
    /// The Trace object is missing at the start, or there twice.
    #[error("byte {at_byte}: the Trace object must come first, and once")]
    MisplacedTrace {
        /// Start of the object.
        at_byte: u64,
    },
    /// A size or count that cannot be true.
    #[error("byte {at_byte}: {what} of {value} is out of range")]
    BadSize {
        /// What it counts.
        what: &'static str,
        /// As found.
        value: i64,
        /// Where it stands.
        at_byte: u64,
    },
    /// An event or definition that does not fit its block or its own rules.
    #[error("byte {at_byte}: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Start of the item.
        at_byte: u64,
    },
}

impl ReadError {
    /// Offset in the stream, counted from its first byte.
    pub fn at_byte(&self) -> u64 {
        match self {
            Self::BadBeginning { at_byte }
            | Self::UnsupportedVersion { at_byte, .. }
            | Self::BadTag { at_byte, .. }
            | Self::UnknownObject { at_byte, .. }
            | Self::MisplacedTrace { at_byte }
            | Self::BadSize { at_byte, .. }
            | Self::Malformed { at_byte, .. } => *at_byte,
        }
    }
}

//! Result codes of replies.

use std::fmt;

/// A 32-bit HRESULT as it stands in a reply. Open: any value is representable, the known ones have names.
// spec: ERR-CODE-1
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HResult(pub u32);

impl HResult {
    /// Success.
    pub const OK: Self = Self(0);
    /// Short, over-long or invalid message or payload.
    pub const BAD_ENCODING: Self = Self(0x8013_1384);
    /// Unknown command set, or unknown id in a known set. Tools fall back to an older command on this one.
    pub const UNKNOWN_COMMAND: Self = Self(0x8013_1385);
    /// The header does not begin with the magic.
    pub const UNKNOWN_MAGIC: Self = Self(0x8013_1386);
    /// The server's "something else went wrong".
    pub const UNKNOWN_ERROR: Self = Self(0x8013_1387);
    /// The command is understood and refused.
    pub const NOT_SUPPORTED: Self = Self(0x8013_1515);
    /// The action failed: no session slot, no dump.
    pub const FAIL: Self = Self(0x8000_4005);
    /// Not possible while startup is paused.
    pub const NOT_YET_AVAILABLE: Self = Self(0x8013_135B);
    /// The runtime is not initialised.
    pub const RUNTIME_UNINITIALIZED: Self = Self(0x8013_1371);
    /// A profiler is already attached.
    pub const PROFILER_ALREADY_ACTIVE: Self = Self(0x8013_136A);
    /// A field's value makes no sense to the command.
    pub const INVALID_ARGUMENT: Self = Self(0x8007_0057);
    /// A buffer is too small.
    pub const INSUFFICIENT_BUFFER: Self = Self(0x8007_007A);
    /// The environment variable to remove does not exist.
    pub const ENVVAR_NOT_FOUND: Self = Self(0x8007_00CB);

    /// Whether the code says success.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// What the code means in words, for the codes this crate names.
    #[must_use]
    pub const fn meaning(self) -> Option<&'static str> {
        Some(match self {
            Self::OK => "ok",
            Self::BAD_ENCODING => "bad encoding",
            Self::UNKNOWN_COMMAND => "unknown command",
            Self::UNKNOWN_MAGIC => "unknown magic",
            Self::UNKNOWN_ERROR => "unknown error",
            Self::NOT_SUPPORTED => "not supported",
            Self::FAIL => "failed",
            Self::NOT_YET_AVAILABLE => "not yet available",
            Self::RUNTIME_UNINITIALIZED => "runtime not initialised",
            Self::PROFILER_ALREADY_ACTIVE => "profiler already active",
            Self::INVALID_ARGUMENT => "invalid argument",
            Self::INSUFFICIENT_BUFFER => "insufficient buffer",
            Self::ENVVAR_NOT_FOUND => "environment variable not found",
            Self(_) => return None,
        })
    }
}

impl fmt::Display for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "0x{:08X} ({meaning})", self.0),
            None => write!(f, "0x{:08X}", self.0),
        }
    }
}

impl fmt::Debug for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HResult({self})")
    }
}

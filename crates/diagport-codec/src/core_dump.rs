//! `GenerateCoreDump` 1 to 3.

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Command, DecodeError, EncodeError};

/// Which of the three commands a dump request came in, or goes out as.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GenerateCoreDumpVersion {
    /// 0x0101: the flags are 0 or 1.
    V1,
    /// 0x0102: the flags are bits.
    V2,
    /// 0x0103: a failure reply carries a text.
    V3,
}

impl GenerateCoreDumpVersion {
    /// The command of this version.
    #[must_use]
    pub const fn command(self) -> Command {
        match self {
            Self::V1 => Command::GENERATE_CORE_DUMP,
            Self::V2 => Command::GENERATE_CORE_DUMP_2,
            Self::V3 => Command::GENERATE_CORE_DUMP_3,
        }
    }
}

/// How much of the process a dump holds. Open: what a server does not know, it answers with FAIL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DumpType(pub u32);

impl DumpType {
    /// Stacks and modules.
    pub const NORMAL: Self = Self(1);
    /// And the heap.
    pub const WITH_HEAP: Self = Self(2);
    /// Stacks without what might identify people.
    pub const TRIAGE: Self = Self(3);
    /// All memory.
    pub const FULL: Self = Self(4);

    /// Whether the type is one of the four.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(self.0, 1..=4)
    }
}

/// Flags of a dump request. In the first version only [`LOGGING`](Self::LOGGING) has a meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DumpFlags(pub u32);

impl DumpFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Log diagnostics.
    pub const LOGGING: Self = Self(1);
    /// Log more.
    pub const VERBOSE_LOGGING: Self = Self(2);
    /// Write a crash report too.
    pub const CRASH_REPORT: Self = Self(4);
    /// Write a crash report and no dump.
    pub const CRASH_REPORT_ONLY: Self = Self(8);

    /// Whether all bits of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// A request for a dump.
// spec: DUMP-REQ-1
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GenerateCoreDump {
    /// The command it came in, or is to go out as.
    pub version: GenerateCoreDumpVersion,
    /// Path of the dump, in the target's view of the file system. A null name never gets here.
    pub path: String,
    /// How much of the process.
    pub dump_type: DumpType,
    /// Flags.
    pub flags: DumpFlags,
}

impl GenerateCoreDump {
    // spec: DUMP-REQ-2
    pub(crate) fn decode(version: GenerateCoreDumpVersion, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let path = reader.string("dumpName")?;
        let dump_type = DumpType(reader.u32("dumpType")?);
        let flags = DumpFlags(reader.u32("flags")?);
        let path = path.ok_or(DecodeError::NullString { field: "dumpName" })?;
        Ok(Self { version, path, dump_type, flags })
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::new();
        writer.string("dumpName", Some(&self.path))?;
        writer.u32(self.dump_type.0);
        writer.u32(self.flags.0);
        Ok(writer.into_bytes())
    }
}

//! The three ProcessInfo replies.

use crate::reader::Reader;
use crate::writer::{Writer, cut_to_units, string_bytes, until_nul};
use crate::{Command, DecodeError, EncodeError, RuntimeCookie, limits};

/// Version word of the third layout.
const LAYOUT_VERSION: u32 = 1;

/// Which of the three commands asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProcessInfoVersion {
    /// 0x0400.
    V1,
    /// 0x0404: adds entry assembly and product version.
    V2,
    /// 0x0408: begins with a layout version, adds the portable runtime identifier.
    V3,
}

impl ProcessInfoVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V3];

    /// The command of this version.
    #[must_use]
    pub const fn command(self) -> Command {
        match self {
            Self::V1 => Command::PROCESS_INFO,
            Self::V2 => Command::PROCESS_INFO_2,
            Self::V3 => Command::PROCESS_INFO_3,
        }
    }
}

/// Who a process is.
// spec: PROC-INFO-1, PROC-INFO-2, PROC-INFO-3
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProcessInfo {
    /// Process id.
    pub process_id: u64,
    /// The same cookie as in every Advertise of the server.
    pub cookie: RuntimeCookie,
    /// Arguments joined by single spaces.
    pub command_line: String,
    /// `Linux`, `Windows`, `macOS`, …
    pub operating_system: String,
    /// `x64`, `arm64`, …
    pub architecture: String,
    /// Entry assembly. `None` after reading a first-version reply; written as the empty string then.
    pub entry_assembly: Option<String>,
    /// Product version. `None` after reading a first-version reply.
    pub clr_product_version: Option<String>,
    /// Portable runtime identifier, such as `linux-x64`. `None` after reading a first- or second-version reply.
    pub portable_rid: Option<String>,
}

impl ProcessInfo {
    /// The reply's payload. The command line is cut at a code point if the whole would not fit a message; a NUL in
    /// a text ends it.
    ///
    /// # Errors
    /// [`EncodeError::MessageTooLarge`] if the other texts alone do not fit.
    // spec: PROC-INFO-4, PROC-INFO-5
    pub fn encode(&self, version: ProcessInfoVersion) -> Result<Vec<u8>, EncodeError> {
        let behind = self.texts_behind_command_line(version);
        let head_bytes = if version == ProcessInfoVersion::V3 { 28 } else { 24 };
        let other_bytes = head_bytes + behind.iter().map(|text| string_bytes(text)).sum::<usize>();
        let message_bytes = limits::HEADER_BYTES + other_bytes + string_bytes("");
        let spare_bytes = limits::MAX_MESSAGE_BYTES
            .checked_sub(message_bytes)
            .ok_or(EncodeError::MessageTooLarge { message_bytes })?;
        let mut writer = Writer::new();
        if version == ProcessInfoVersion::V3 {
            writer.u32(LAYOUT_VERSION);
        }
        writer.u64(self.process_id);
        writer.guid(self.cookie.0);
        writer.reply_string(cut_to_units(until_nul(&self.command_line), spare_bytes / 2));
        behind.iter().for_each(|text| writer.reply_string(text));
        debug_assert!(writer.len() <= limits::MAX_PAYLOAD_BYTES);
        Ok(writer.into_bytes())
    }

    fn texts_behind_command_line(&self, version: ProcessInfoVersion) -> Vec<&str> {
        fn text(field: &Option<String>) -> &str {
            field.as_deref().unwrap_or("")
        }
        let mut texts = vec![self.operating_system.as_str(), self.architecture.as_str()];
        if version >= ProcessInfoVersion::V2 {
            texts.extend([text(&self.entry_assembly), text(&self.clr_product_version)]);
        }
        if version == ProcessInfoVersion::V3 {
            texts.push(text(&self.portable_rid));
        }
        texts.into_iter().map(until_nul).collect()
    }

    /// Reads the reply's payload. Null strings read as empty; later layouts may append fields.
    ///
    /// # Errors
    /// A field that is cut or not terminated.
    pub fn decode(version: ProcessInfoVersion, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        if version == ProcessInfoVersion::V3 {
            reader.u32("version")?;
        }
        let process_id = reader.u64("processId")?;
        let cookie = RuntimeCookie(reader.guid("runtimeCookie")?);
        let mut text = |field| Ok::<_, DecodeError>(reader.string(field)?.unwrap_or_default());
        let command_line = text("commandLine")?;
        let operating_system = text("os")?;
        let architecture = text("arch")?;
        let (entry_assembly, clr_product_version) = match version {
            ProcessInfoVersion::V1 => (None, None),
            ProcessInfoVersion::V2 | ProcessInfoVersion::V3 => {
                (Some(text("managedEntrypointAssemblyName")?), Some(text("clrProductVersion")?))
            }
        };
        let portable_rid = match version {
            ProcessInfoVersion::V1 | ProcessInfoVersion::V2 => None,
            ProcessInfoVersion::V3 => Some(text("portableRuntimeIdentifier")?),
        };
        Ok(Self {
            process_id,
            cookie,
            command_line,
            operating_system,
            architecture,
            entry_assembly,
            clr_product_version,
            portable_rid,
        })
    }
}

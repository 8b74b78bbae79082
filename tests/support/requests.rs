//! Requests built by hand, from the written layout and not from our codec: a second reading of the same page.

/// The fourteen bytes that begin every message.
pub const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
/// ProcessInfo, complete.
pub const PROCESS_INFO: (u8, u8) = (0x04, 0x00);
/// ResumeRuntime.
pub const RESUME_RUNTIME: (u8, u8) = (0x04, 0x01);
/// StopTracing.
pub const STOP_TRACING: (u8, u8) = (0x02, 0x01);

/// Reply codes.
pub const BAD_ENCODING: u32 = 0x8013_1384;
/// Unknown command.
pub const UNKNOWN_COMMAND: u32 = 0x8013_1385;
/// Unknown magic.
pub const UNKNOWN_MAGIC: u32 = 0x8013_1386;
/// Session could not be created, and the like.
pub const FAIL: u32 = 0x8000_4005;

/// A whole message. A payload beyond the 65,515 bytes that a message can hold gets a size that lies, which
/// is what a hostile test wants.
#[must_use]
pub fn message(command: (u8, u8), payload: &[u8]) -> Vec<u8> {
    let size = u16::try_from(payload.len() + 20).unwrap_or(u16::MAX);
    message_with_size(command, size, payload)
}

/// A message whose header says `size`, whatever the payload.
#[must_use]
pub fn message_with_size(command: (u8, u8), size: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(size.to_le_bytes());
    bytes.extend([command.0, command.1, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// A counted UTF-16 string with its final zero; `None` is the null string.
#[must_use]
pub fn utf16(text: Option<&str>) -> Vec<u8> {
    let Some(text) = text else { return vec![0; 4] };
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let mut bytes = u32::try_from(units.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes
}

/// Drop or Block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Producers never wait.
    Drop,
    /// Producers wait for the reader.
    Block,
}

/// A streaming CollectTracing request.
#[derive(Debug, Clone)]
pub struct Collect {
    version: u8,
    megabytes: u32,
    format: u32,
    rundown_keyword: u64,
    mode: Mode,
    providers: Vec<(String, u64, u32, Option<String>)>,
}

impl Collect {
    /// Version 2 to 6 with one provider `Peer-Load` (keyword 1, level 4), no rundown, no stacks.
    #[must_use]
    pub fn ticks(version: u8, megabytes: u32) -> Self {
        Self {
            version,
            megabytes,
            format: 1,
            rundown_keyword: 0,
            mode: Mode::Drop,
            providers: vec![("Peer-Load".to_owned(), 1, 4, None)],
        }
    }

    /// Version 6 in Block mode.
    #[must_use]
    pub fn block(megabytes: u32) -> Self {
        Self { mode: Mode::Block, ..Self::ticks(6, megabytes) }
    }

    /// With other providers.
    #[must_use]
    pub fn providers(mut self, providers: &[(&str, u64, u32)]) -> Self {
        self.providers = providers
            .iter()
            .map(|(name, keywords, level)| ((*name).to_owned(), *keywords, *level, None))
            .collect();
        self
    }

    /// The payload alone.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.version >= 5 {
            bytes.extend(0u32.to_le_bytes());
        }
        bytes.extend(self.megabytes.to_le_bytes());
        bytes.extend(self.format.to_le_bytes());
        match self.version {
            1 => {}
            2 | 3 => bytes.push(u8::from(self.rundown_keyword != 0)),
            _ => bytes.extend(self.rundown_keyword.to_le_bytes()),
        }
        if self.version >= 3 {
            bytes.push(0);
        }
        bytes.extend(u32::try_from(self.providers.len()).unwrap_or(u32::MAX).to_le_bytes());
        for (name, keywords, level, arguments) in &self.providers {
            bytes.extend(keywords.to_le_bytes());
            bytes.extend(level.to_le_bytes());
            bytes.extend(utf16(Some(name)));
            bytes.extend(utf16(arguments.as_deref()));
            if self.version >= 5 {
                bytes.extend([0, 0, 0, 0, 0]);
            }
        }
        if self.version >= 6 {
            bytes.extend(u32::from(self.mode == Mode::Block).to_le_bytes());
        }
        bytes
    }

    /// The whole message.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        message((0x02, self.version + 1), &self.payload())
    }
}

/// Bytes from hexadecimal text; blanks are allowed between bytes.
///
/// # Errors
/// Names the first piece that is no byte.
pub fn bytes_from_hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    anyhow::ensure!(digits.len().is_multiple_of(2), "an odd number of hexadecimal digits");
    digits
        .chunks(2)
        .map(|pair| {
            let pair: String = pair.iter().collect();
            u8::from_str_radix(&pair, 16).map_err(|_| anyhow::anyhow!("{pair:?} is no byte"))
        })
        .collect()
}

/// Hexadecimal text of bytes.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

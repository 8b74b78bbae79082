//! What a stream says about its process.

use diagport_nettrace::{EventMetadata, Field, FieldType};

/// The process as readers name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessDescription {
    /// As seen inside its own pid namespace.
    pub process_id: u32,
    /// Arguments joined by single spaces.
    pub command_line: String,
    /// `Linux`, `Windows`, `macOS`, …
    pub operating_system: String,
    /// `x64`, `arm64`, …
    pub architecture: String,
}

impl ProcessDescription {
    /// The process that calls this.
    #[must_use]
    pub fn of_this_process() -> Self {
        let arguments: Vec<_> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let operating_system = match std::env::consts::OS {
            "linux" => "Linux",
            "windows" => "Windows",
            "macos" => "macOS",
            "android" => "Android",
            _ => "Unknown",
        };
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "x86" => "x86",
            "aarch64" => "arm64",
            "arm" => "arm32",
            "s390x" => "s390x",
            "loongarch64" => "loongarch64",
            "powerpc64" => "ppc64le",
            "riscv64" => "riscv64",
            _ => "Unknown",
        };
        Self {
            process_id: std::process::id(),
            command_line: arguments.join(" "),
            operating_system: operating_system.to_owned(),
            architecture: architecture.to_owned(),
        }
    }
}

/// The event that names the process; readers look for this provider and id.
// spec: SES-STREAM-1
pub(crate) fn process_info_metadata() -> EventMetadata {
    let field = |name: &str| Field { name: name.to_owned(), field_type: FieldType::String };
    EventMetadata {
        provider: "Microsoft-DotNETCore-EventPipe".to_owned(),
        event_id: 1,
        event_name: "ProcessInfo".to_owned(),
        keywords: 0,
        version: 1,
        level: 0,
        opcode: 0,
        fields: vec![field("CommandLine"), field("OSInformation"), field("ArchInformation")],
    }
}

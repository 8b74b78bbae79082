//! Command numbers: open newtypes with names for the known ones.

use std::fmt;

/// The command set byte of a header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CommandSet(pub u8);

impl CommandSet {
    /// Dumps.
    pub const DUMP: Self = Self(0x01);
    /// EventPipe sessions.
    pub const EVENT_PIPE: Self = Self(0x02);
    /// Profilers.
    pub const PROFILER: Self = Self(0x03);
    /// The process itself.
    pub const PROCESS: Self = Self(0x04);
    /// Replies.
    pub const SERVER: Self = Self(0xFF);
}

/// The command id byte of a header. It means something only together with its set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CommandId(pub u8);

/// A command: set and id.
///
/// Any pair is representable; the pairs this crate knows are constants and have a [`name`](Self::name).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Command {
    /// The command set.
    pub set: CommandSet,
    /// The id within the set.
    pub id: CommandId,
}

macro_rules! known_commands {
    ($($(#[$doc:meta])* $constant:ident = $set:literal, $id:literal, $name:literal;)*) => {
        impl Command {
            $($(#[$doc])* pub const $constant: Self = Self::new($set, $id);)*

            /// Every command and reply this crate knows, in the order of their numbers.
            pub const KNOWN: &'static [Self] = &[$(Self::$constant),*];

            /// The protocol's name of a known command.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$constant => Some($name),)*
                    Self { .. } => None,
                }
            }
        }
    };
}

// spec: IPC-CMD-1
known_commands! {
    /// Dump, first form.
    GENERATE_CORE_DUMP = 0x01, 0x01, "GenerateCoreDump";
    /// Dump with bit flags.
    GENERATE_CORE_DUMP_2 = 0x01, 0x02, "GenerateCoreDump2";
    /// Dump with bit flags whose failure reply carries a text.
    GENERATE_CORE_DUMP_3 = 0x01, 0x03, "GenerateCoreDump3";
    /// Stop a session.
    STOP_TRACING = 0x02, 0x01, "StopTracing";
    /// Start a session, first form.
    COLLECT_TRACING = 0x02, 0x02, "CollectTracing";
    /// Start a session: rundown can be switched off.
    COLLECT_TRACING_2 = 0x02, 0x03, "CollectTracing2";
    /// Start a session: stacks can be switched off.
    COLLECT_TRACING_3 = 0x02, 0x04, "CollectTracing3";
    /// Start a session: rundown keyword.
    COLLECT_TRACING_4 = 0x02, 0x05, "CollectTracing4";
    /// Start a session: event filters, user_events.
    COLLECT_TRACING_5 = 0x02, 0x06, "CollectTracing5";
    /// Start a session: buffering mode.
    COLLECT_TRACING_6 = 0x02, 0x07, "CollectTracing6";
    /// Attach a profiler.
    ATTACH_PROFILER = 0x03, 0x01, "AttachProfiler";
    /// Name a profiler for startup.
    STARTUP_PROFILER = 0x03, 0x02, "StartupProfiler";
    /// Process information, first form.
    PROCESS_INFO = 0x04, 0x00, "ProcessInfo";
    /// Let a suspended startup go on.
    RESUME_RUNTIME = 0x04, 0x01, "ResumeRuntime";
    /// The environment block.
    PROCESS_ENVIRONMENT = 0x04, 0x02, "ProcessEnvironment";
    /// Set or remove an environment variable.
    SET_ENVIRONMENT_VARIABLE = 0x04, 0x03, "SetEnvironmentVariable";
    /// Process information with entry assembly and product version.
    PROCESS_INFO_2 = 0x04, 0x04, "ProcessInfo2";
    /// Write perf map files from now on.
    ENABLE_PERF_MAP = 0x04, 0x05, "EnablePerfMap";
    /// Stop writing perf map files.
    DISABLE_PERF_MAP = 0x04, 0x06, "DisablePerfMap";
    /// Load a startup hook.
    APPLY_STARTUP_HOOK = 0x04, 0x07, "ApplyStartupHook";
    /// Process information with a version number and the portable runtime identifier.
    PROCESS_INFO_3 = 0x04, 0x08, "ProcessInfo3";
    /// Reply: success.
    OK_REPLY = 0xFF, 0x00, "OK";
    /// Reply: error.
    ERROR_REPLY = 0xFF, 0xFF, "Error";
}

impl Command {
    /// The command with this set and id byte.
    #[must_use]
    pub const fn new(set: u8, id: u8) -> Self {
        Self { set: CommandSet(set), id: CommandId(id) }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (set, id) = (self.set.0, self.id.0);
        match self.name() {
            Some(name) => write!(f, "{name} (0x{set:02X}{id:02X})"),
            None => write!(f, "0x{set:02X}{id:02X}"),
        }
    }
}

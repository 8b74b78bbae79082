//! What a session is asked to be.

use std::time::Duration;

use crate::EventFilter;

pub use diagport_buffer::BufferingMode;

/// Where a session's events go, and so whether a drain thread serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionType {
    /// A stream to a peer, by a drain thread.
    IpcStream,
    /// A stream to a file, by a drain thread.
    FileStream,
    /// A file that is written at the end.
    File,
    /// Events are pulled by the process itself.
    Listener,
    /// Events go to a callback on the writing thread.
    Synchronous,
    /// Events go to the kernel's user_events.
    UserEvents,
}

impl SessionType {
    /// Whether a drain thread frees capacity while producers wait; only then Block can keep its promise.
    #[must_use]
    pub fn has_drain(self) -> bool {
        matches!(self, Self::IpcStream | Self::FileStream)
    }
}

/// Severity, from always to verbose. In a [`ProviderConfig`], `LogAlways` means "no limit".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EventLevel {
    /// 0: passes every limit.
    LogAlways = 0,
    /// 1
    Critical = 1,
    /// 2
    Error = 2,
    /// 3
    Warning = 3,
    /// 4
    #[default]
    Informational = 4,
    /// 5
    Verbose = 5,
}

impl EventLevel {
    /// The level of a wire number 0..=5.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::LogAlways, Self::Critical, Self::Error, Self::Warning, Self::Informational, Self::Verbose]
            .into_iter()
            .find(|level| *level as u32 == number)
    }
}

/// One provider entry of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfig {
    /// Exact, case-sensitive. `*` with all keywords and level 5 means every provider.
    pub name: String,
    /// Events with one of these bits pass, and events without keywords.
    pub keywords: u64,
    /// Events up to this level pass; `LogAlways` is no limit.
    pub level: EventLevel,
    /// Passed on to the provider's callback.
    pub arguments: Option<String>,
    /// Applied after keywords and level.
    pub filter: EventFilter,
}

impl ProviderConfig {
    /// Everything a provider has: all keywords, level 5, no filter.
    #[must_use]
    pub fn everything(name: impl Into<String>) -> Self {
        Self::new(name, u64::MAX, EventLevel::Verbose)
    }

    /// An entry without arguments and filter.
    #[must_use]
    pub fn new(name: impl Into<String>, keywords: u64, level: EventLevel) -> Self {
        Self { name: name.into(), keywords, level, arguments: None, filter: EventFilter::ALL }
    }
}

/// Whether events of a session carry stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackWalk {
    /// Events have no stacks, also where one is given.
    Off,
    /// Events have the stack that is given, else that of the writing thread, as far as its code keeps frame pointers.
    On,
}

/// What [`EventPipe::create_session`](crate::EventPipe::create_session) takes.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Only the types with a drain and `File` can start today.
    pub session_type: SessionType,
    /// What happens to an event that finds the budget used up.
    pub buffering_mode: BufferingMode,
    /// Bytes of all event buffers of the session together; not 0.
    pub budget_bytes: u64,
    /// At least one.
    pub providers: Vec<ProviderConfig>,
    /// Which rundown to write at the end; 0 is none.
    pub rundown_keyword: u64,
    /// See [`StackWalk`].
    pub stack_walk: StackWalk,
    /// How long a Block session's reader may make no progress while it runs. None is for ever.
    pub stall_limit: Option<Duration>,
    /// How long a reader may make no progress after the stop request.
    pub stop_grace: Duration,
}

impl SessionConfig {
    /// A Drop session with 64 MB, no rundown, no stacks, the usual limits (stall 30 s, grace 2 s).
    #[must_use]
    pub fn new(session_type: SessionType, providers: Vec<ProviderConfig>) -> Self {
        Self {
            session_type,
            buffering_mode: BufferingMode::Drop,
            budget_bytes: 64 << 20,
            providers,
            rundown_keyword: 0,
            stack_walk: StackWalk::Off,
            stall_limit: Some(Duration::from_secs(30)),
            stop_grace: Duration::from_secs(2),
        }
    }
}

/// Why a session could not be created. Nothing was taken, nothing runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartSessionError {
    /// All slots are taken.
    #[error("64 sessions run already")]
    TooManySessions,
    /// Without a drain nobody would ever free capacity.
    #[error("Block needs a session type with a drain thread, not {0:?}")]
    BlockWithoutDrain(SessionType),
    /// Not built yet.
    #[error("session type {0:?} is not supported")]
    UnsupportedType(SessionType),
    /// `budget_bytes` is 0.
    #[error("the buffer budget is zero")]
    ZeroBudget,
    /// `providers` is empty.
    #[error("no provider is named")]
    NoProviders,
    /// [`EventPipe::shutdown`](crate::EventPipe::shutdown) was called.
    #[error("the pipe is shutting down")]
    ShuttingDown,
}

impl SessionConfig {
    // spec: SES-LIFE-3
    pub(crate) fn check(&self) -> Result<(), StartSessionError> {
        let drained = self.session_type.has_drain();
        if !drained && self.buffering_mode == BufferingMode::Block {
            return Err(StartSessionError::BlockWithoutDrain(self.session_type));
        }
        if !drained && self.session_type != SessionType::File {
            return Err(StartSessionError::UnsupportedType(self.session_type));
        }
        if self.budget_bytes == 0 {
            return Err(StartSessionError::ZeroBudget);
        }
        if self.providers.is_empty() {
            return Err(StartSessionError::NoProviders);
        }
        Ok(())
    }
}

//! `CollectTracing` 1 to 6: six layouts, one value.

use crate::provider_request::MIN_PROVIDER_BYTES;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Command, DecodeError, EncodeError, EventFilter, ProviderRequest, TracepointConfig, limits};

/// Which of the six commands a [`CollectTracing`] came in, or goes out as.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CollectTracingVersion {
    /// 0x0202: rundown and stacks are always on.
    V1,
    /// 0x0203: rundown is on or off.
    V2,
    /// 0x0204: and stacks are on or off.
    V3,
    /// 0x0205: rundown is a keyword.
    V4,
    /// 0x0206: event filters, user_events.
    V5,
    /// 0x0207: buffering mode.
    V6,
}

impl CollectTracingVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 6] = [Self::V1, Self::V2, Self::V3, Self::V4, Self::V5, Self::V6];

    /// The command of this version.
    #[must_use]
    pub const fn command(self) -> Command {
        match self {
            Self::V1 => Command::COLLECT_TRACING,
            Self::V2 => Command::COLLECT_TRACING_2,
            Self::V3 => Command::COLLECT_TRACING_3,
            Self::V4 => Command::COLLECT_TRACING_4,
            Self::V5 => Command::COLLECT_TRACING_5,
            Self::V6 => Command::COLLECT_TRACING_6,
        }
    }
}

/// What the stream is written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamFormat {
    /// The format before NetTrace (wire: 0).
    NetPerf,
    /// NetTrace (wire: 1).
    NetTrace,
}

/// Whether events carry the stack of the thread that wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StackWalk {
    /// They do not.
    Off,
    /// They do.
    On,
}

/// What happens to an event that finds its buffer full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferingMode {
    /// The event is dropped and counted (wire: 0).
    Drop,
    /// Its thread waits for the reader (wire: 1).
    Block,
}

/// Where the events of a session go.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SessionOutput {
    /// As a stream on the connection.
    Streaming {
        /// Buffer budget in MB, never 0.
        circular_buffer_mb: u32,
        /// Format of the stream.
        format: StreamFormat,
        /// Stacks.
        stack_walk: StackWalk,
        /// What a full buffer does.
        buffering_mode: BufferingMode,
    },
    /// Into the kernel's user_events, through a file descriptor that follows the request on the connection.
    UserEvents,
}

/// A request for a session. What the version of the command does not say is filled in as the runtime does:
/// rundown on, stacks on, Drop, no filters.
// spec: EP-CT-1, EP-CT-2
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CollectTracing {
    /// The command it came in, or is to go out as.
    pub version: CollectTracingVersion,
    /// Where the events go.
    pub output: SessionOutput,
    /// Rundown keyword; 0 means no rundown.
    pub rundown_keyword: u64,
    /// `1..=1000` providers in the order of the request.
    pub providers: Vec<ProviderRequest>,
}

impl CollectTracing {
    /// The oldest version that can say all of this value, so that old runtimes understand it.
    #[must_use]
    pub fn oldest_version(&self) -> CollectTracingVersion {
        let filtered = self.providers.iter().any(|provider| !provider.filter.passes_all());
        match &self.output {
            SessionOutput::UserEvents => CollectTracingVersion::V5,
            SessionOutput::Streaming { buffering_mode: BufferingMode::Block, .. } => {
                CollectTracingVersion::V6
            }
            SessionOutput::Streaming { .. } if filtered => CollectTracingVersion::V5,
            SessionOutput::Streaming { .. }
                if ![0, limits::DEFAULT_RUNDOWN_KEYWORD].contains(&self.rundown_keyword) =>
            {
                CollectTracingVersion::V4
            }
            SessionOutput::Streaming { stack_walk: StackWalk::Off, .. } => CollectTracingVersion::V3,
            SessionOutput::Streaming { .. } if self.rundown_keyword == 0 => CollectTracingVersion::V2,
            SessionOutput::Streaming { .. } => CollectTracingVersion::V1,
        }
    }

    /// Reads fields in their order; the first that is wrong decides. Errors of meaning come last.
    // spec: EP-CT-3, EP-CT-4, EP-CT-5, EP-CT-6, EP-CT-7
    pub(crate) fn decode(version: CollectTracingVersion, payload: &[u8]) -> Result<Self, DecodeError> {
        use CollectTracingVersion::{V1, V2, V3, V4, V5, V6};
        let mut reader = Reader::new(payload);
        if version >= V5 && decode_session_type(&mut reader)? == SessionType::UserEvents {
            return Self::decode_user_events(version, reader);
        }
        let circular_buffer_mb = reader.u32("circularBufferMB")?;
        if circular_buffer_mb == 0 {
            return Err(DecodeError::ZeroCircularBuffer);
        }
        let format = match reader.u32("format")? {
            0 => StreamFormat::NetPerf,
            1 => StreamFormat::NetTrace,
            value => return Err(DecodeError::StreamFormat { value }),
        };
        let rundown_keyword = match version {
            V1 => limits::DEFAULT_RUNDOWN_KEYWORD,
            V2 | V3 if reader.bool("rundownRequested")? => limits::DEFAULT_RUNDOWN_KEYWORD,
            V2 | V3 => 0,
            V4 | V5 | V6 => reader.u64("rundownKeyword")?,
        };
        let stack_walk = match version {
            V1 | V2 => StackWalk::On,
            V3 | V4 | V5 | V6 if reader.bool("stackwalkRequested")? => StackWalk::On,
            V3 | V4 | V5 | V6 => StackWalk::Off,
        };
        let providers = decode_providers(&mut reader, |reader, provider| {
            if version >= V5 {
                provider.filter = EventFilter::decode(reader)?;
            }
            Ok(())
        })?;
        let buffering_mode = match version {
            V1 | V2 | V3 | V4 | V5 => BufferingMode::Drop,
            V6 => match reader.u32("bufferingMode")? {
                0 => BufferingMode::Drop,
                1 => BufferingMode::Block,
                value => return Err(DecodeError::BufferingMode { value }),
            },
        };
        let output = SessionOutput::Streaming { circular_buffer_mb, format, stack_walk, buffering_mode };
        Ok(Self { version, output, rundown_keyword, providers })
    }

    // spec: EP-CT-8
    fn decode_user_events(
        version: CollectTracingVersion,
        mut reader: Reader<'_>,
    ) -> Result<Self, DecodeError> {
        let rundown_keyword = reader.u64("rundownKeyword")?;
        let providers = decode_providers(&mut reader, |reader, provider| {
            provider.filter = EventFilter::decode(reader)?;
            provider.tracepoints = Some(TracepointConfig::decode(reader)?);
            Ok(())
        })?;
        providers
            .iter()
            .filter_map(|provider| provider.tracepoints.as_ref())
            .try_for_each(TracepointConfig::check)?;
        Ok(Self { version, output: SessionOutput::UserEvents, rundown_keyword, providers })
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.check_expressible()?;
        let mut writer = Writer::new();
        match &self.output {
            SessionOutput::UserEvents => {
                writer.u32(1);
                writer.u64(self.rundown_keyword);
                self.encode_providers(&mut writer)?;
            }
            SessionOutput::Streaming { circular_buffer_mb, format, stack_walk, buffering_mode } => {
                self.encode_streaming_head(&mut writer, *circular_buffer_mb, *format, *stack_walk);
                self.encode_providers(&mut writer)?;
                if self.version == CollectTracingVersion::V6 {
                    writer.u32(match buffering_mode {
                        BufferingMode::Drop => 0,
                        BufferingMode::Block => 1,
                    });
                }
            }
        }
        Ok(writer.into_bytes())
    }

    fn encode_streaming_head(
        &self,
        writer: &mut Writer,
        circular_buffer_mb: u32,
        format: StreamFormat,
        stack_walk: StackWalk,
    ) {
        use CollectTracingVersion::{V1, V2, V3, V4, V5, V6};
        if self.version >= V5 {
            writer.u32(0);
        }
        writer.u32(circular_buffer_mb);
        writer.u32(match format {
            StreamFormat::NetPerf => 0,
            StreamFormat::NetTrace => 1,
        });
        match self.version {
            V1 => {}
            V2 | V3 => writer.u8(u8::from(self.rundown_keyword != 0)),
            V4 | V5 | V6 => writer.u64(self.rundown_keyword),
        }
        match self.version {
            V1 | V2 => {}
            V3 | V4 | V5 | V6 => writer.u8(u8::from(stack_walk == StackWalk::On)),
        }
    }

    fn encode_providers(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        writer.count(self.providers.len());
        for provider in &self.providers {
            provider.encode(writer)?;
            if self.version >= CollectTracingVersion::V5 {
                provider.filter.encode(writer);
            }
            match (&self.output, &provider.tracepoints) {
                (SessionOutput::UserEvents, Some(tracepoints)) => tracepoints.encode(writer)?,
                (SessionOutput::Streaming { .. }, None) => {}
                (SessionOutput::UserEvents, None) => {
                    return Err(EncodeError::Tracepoints { problem: "a user_events provider has none" });
                }
                (SessionOutput::Streaming { .. }, Some(_)) => {
                    return Err(EncodeError::Tracepoints { problem: "a streaming session has none" });
                }
            }
        }
        Ok(())
    }

    fn check_expressible(&self) -> Result<(), EncodeError> {
        let count = self.providers.len();
        if count == 0 || count > limits::MAX_PROVIDERS {
            return Err(EncodeError::ProviderCount { count });
        }
        if matches!(self.output, SessionOutput::Streaming { circular_buffer_mb: 0, .. }) {
            return Err(EncodeError::ZeroCircularBuffer);
        }
        if self.version < self.oldest_version() {
            let feature = match self.oldest_version() {
                CollectTracingVersion::V1 => "anything",
                CollectTracingVersion::V2 => "no rundown",
                CollectTracingVersion::V3 => "no stacks",
                CollectTracingVersion::V4 => "this rundown keyword",
                CollectTracingVersion::V5 => "event filters or user_events",
                CollectTracingVersion::V6 => "Block buffering",
            };
            return Err(EncodeError::NotExpressible { version: self.version, feature });
        }
        Ok(())
    }
}

#[derive(PartialEq, Eq)]
enum SessionType {
    Streaming,
    UserEvents,
}

fn decode_session_type(reader: &mut Reader<'_>) -> Result<SessionType, DecodeError> {
    match reader.u32("sessionType")? {
        0 => Ok(SessionType::Streaming),
        1 => Ok(SessionType::UserEvents),
        value => Err(DecodeError::SessionType { value }),
    }
}

/// Reads the providers; `rest_of_entry` reads what this kind of request has behind each.
fn decode_providers(
    reader: &mut Reader<'_>,
    rest_of_entry: impl Fn(&mut Reader<'_>, &mut ProviderRequest) -> Result<(), DecodeError>,
) -> Result<Vec<ProviderRequest>, DecodeError> {
    let count = reader.provider_count(MIN_PROVIDER_BYTES)?;
    let mut providers = Vec::with_capacity(count);
    for _ in 0..count {
        let mut provider = ProviderRequest::decode(reader)?;
        rest_of_entry(reader, &mut provider)?;
        providers.push(provider);
    }
    Ok(providers)
}

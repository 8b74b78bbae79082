//! Named limits of the wire. A test holds each at its value and one past it.

/// Bytes of the fixed header that begins every message.
pub const HEADER_BYTES: usize = 20;
/// Largest message, header included: the size field is 16 bits wide.
pub const MAX_MESSAGE_BYTES: usize = 65_535;
/// Largest payload of one message.
pub const MAX_PAYLOAD_BYTES: usize = MAX_MESSAGE_BYTES - HEADER_BYTES;
/// Most providers one `CollectTracing` may name. None at all is refused too.
pub const MAX_PROVIDERS: usize = 1000;
/// Highest event level a provider may ask for (Verbose). Levels are `0..=5`.
pub const MAX_EVENT_LEVEL: u32 = 5;
/// Longest tracepoint name in UTF-8 bytes: the kernel's registration text ends below 512 bytes.
pub const MAX_TRACEPOINT_NAME_BYTES: usize = 436;
/// Bytes of one Advertise.
pub const ADVERTISE_BYTES: usize = 34;
/// Rundown keyword that stands for "rundown on" in commands older than `CollectTracing4`.
pub const DEFAULT_RUNDOWN_KEYWORD: u64 = 0x8002_0139;

//! The Trace object: what a stream says once about its process and its clock.

use crate::UtcTime;

/// Length of the Trace object's body in bytes.
pub(crate) const TRACE_BODY_BYTES: usize = 48;

/// Content of the Trace object, the first object of every stream.
// spec: NT4-TRACE-1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceInfo {
    /// UTC at the instant `sync_ticks`; never local time (NT4-TRACE-1).
    pub start_utc: UtcTime,
    /// The clock of the events at the instant `start_utc`, in ticks. Keep it non-zero and below every event's ticks.
    pub sync_ticks: i64,
    /// Ticks per second, above 0. A divisor of 1,000,000,000 is the safe choice for all readers.
    pub tick_frequency: i64,
    /// Bytes of a stack address: 4 or 8.
    pub pointer_size: u32,
    /// Process id as seen inside its own pid namespace.
    pub process_id: u32,
    /// Number of processors.
    pub processor_count: u32,
    /// Expected CPU sampling interval in nanoseconds.
    pub sampling_period_ns: u32,
}

impl TraceInfo {
    pub(crate) fn to_bytes(self) -> [u8; TRACE_BODY_BYTES] {
        let mut body = [0; TRACE_BODY_BYTES];
        body[..16].copy_from_slice(&self.start_utc.to_bytes());
        body[16..24].copy_from_slice(&self.sync_ticks.to_le_bytes());
        body[24..32].copy_from_slice(&self.tick_frequency.to_le_bytes());
        body[32..36].copy_from_slice(&self.pointer_size.to_le_bytes());
        body[36..40].copy_from_slice(&self.process_id.to_le_bytes());
        body[40..44].copy_from_slice(&self.processor_count.to_le_bytes());
        body[44..48].copy_from_slice(&self.sampling_period_ns.to_le_bytes());
        body
    }

    pub(crate) fn from_bytes(body: &[u8; TRACE_BODY_BYTES]) -> Self {
        let four = |at: usize| [body[at], body[at + 1], body[at + 2], body[at + 3]];
        let eight = |at: usize| {
            let (low, high) = (four(at), four(at + 4));
            i64::from(u32::from_le_bytes(low)) | i64::from(i32::from_le_bytes(high)) << 32
        };
        let mut start = [0; 16];
        start.copy_from_slice(&body[..16]);
        Self {
            start_utc: UtcTime::from_bytes(start),
            sync_ticks: eight(16),
            tick_frequency: eight(24),
            pointer_size: u32::from_le_bytes(four(32)),
            process_id: u32::from_le_bytes(four(36)),
            processor_count: u32::from_le_bytes(four(40)),
            sampling_period_ns: u32::from_le_bytes(four(44)),
        }
    }
}

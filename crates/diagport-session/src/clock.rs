//! Where time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time of a pipe. Everything behind it takes ticks, so tests move time by hand.
pub trait Clock: Send + Sync {
    /// Nanoseconds that never go back, the same for all threads. Read once per event.
    fn ticks(&self) -> i64;
    /// Milliseconds since 1970 UTC. Read once per session.
    fn utc_unix_millis(&self) -> i64;
}

/// Ticks per second of every [`Clock`].
pub const TICK_FREQUENCY: i64 = 1_000_000_000;

/// CLOCK_MONOTONIC, the clock that perf and other processes of the machine use too.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[cfg(unix)]
    fn ticks(&self) -> i64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec * TICK_FREQUENCY + now.tv_nsec
    }

    #[cfg(not(unix))]
    fn ticks(&self) -> i64 {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        // One second ahead: readers take 0 for "unknown".
        START.get_or_init(Instant::now).elapsed().as_nanos() as i64 + TICK_FREQUENCY
    }

    fn utc_unix_millis(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
    }
}

/// A wait as ticks.
pub(crate) fn ticks_of(wait: std::time::Duration) -> i64 {
    i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX)
}

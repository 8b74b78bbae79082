//! The wait between two attempts, as a pure sequence.

use std::time::Duration;

const FIRST_MS: u64 = 10;
const CEILING_MS: u64 = 500;

/// Growing waits: 10 ms, then a quarter more each time (truncated to whole milliseconds), 500 ms at most.
///
/// It names no clock: whoever waits asks for the next wait. One success calls [`reset`](Self::reset).
///
/// ```
/// let mut backoff = diagport_transport::Backoff::new();
/// let waits: Vec<u128> = (0..5).map(|_| backoff.next_wait().as_millis()).collect();
/// assert_eq!(waits, [10, 12, 15, 18, 22]);
/// ```
#[derive(Debug, Clone)]
pub struct Backoff {
    next_ms: u64,
}

impl Backoff {
    /// A sequence at its beginning.
    #[must_use]
    pub const fn new() -> Self {
        Self { next_ms: FIRST_MS }
    }

    /// The next wait; each call advances the sequence.
    pub fn next_wait(&mut self) -> Duration {
        let wait_ms = self.next_ms;
        self.next_ms = (wait_ms * 5 / 4).min(CEILING_MS);
        Duration::from_millis(wait_ms)
    }

    /// Back to the first wait.
    pub const fn reset(&mut self) {
        self.next_ms = FIRST_MS;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    #[test]
    fn grows_by_a_quarter_truncated_and_stops_at_half_a_second() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..22).map(|_| backoff.next_wait().as_millis()).collect();
        assert_eq!(
            waits,
            [
                10, 12, 15, 18, 22, 27, 33, 41, 51, 63, 78, 97, 121, 151, 188, 235, 293, 366, 457, 500, 500,
                500
            ]
        );
        backoff.reset();
        assert_eq!(backoff.next_wait().as_millis(), 10);
    }
}

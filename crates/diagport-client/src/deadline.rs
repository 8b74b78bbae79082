//! One limit for one operation, whatever phases it has.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// A point in time, and the limit that led to it so that an error can name it.
///
/// It is set once and handed through every phase of an operation, so that phases share the limit instead of each
/// having one. The clock is tokio's, monotonic.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    /// `limit` from now on.
    pub fn after(limit: Duration) -> Self {
        // A limit beyond what the clock can say is a century: nobody waits longer.
        let century = Duration::from_secs(100 * 365 * 86_400);
        let now = Instant::now();
        Self { at: now.checked_add(limit).unwrap_or_else(|| now + century), limit }
    }

    /// What is left; zero once it is over.
    pub fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// The whole limit it was made with.
    pub fn limit(self) -> Duration {
        self.limit
    }

    /// The result of `work`, or `None` if the time is over first.
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.at, work).await.ok()
    }
}

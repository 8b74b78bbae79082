//! What the server has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals since the start, but for the two that say `now`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerStatistics {
    /// Connections that peers made to listen ports.
    pub accepted_connections: u64,
    /// Connections made and advertised on connect ports.
    pub advertised_connections: u64,
    /// Complete requests answered with success.
    pub succeeded_requests: u64,
    /// Requests answered with an error, incomplete ones included.
    pub refused_requests: u64,
    /// Peers turned away for who they are.
    pub refused_peers: u64,
    /// Connections closed to make room for another one.
    pub evicted_connections: u64,
    /// Streaming sessions started.
    pub started_sessions: u64,
    /// Connections being served now, streaming ones not included.
    pub connections_now: u64,
    /// Of those, connections without a complete request.
    pub half_open_now: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    // Relaxed: a count, published by nothing and publishing nothing.
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn subtract_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts one more until the guard is dropped.
    pub(crate) fn hold(&self) -> HeldCount<'_> {
        self.add_one();
        HeldCount(self)
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct HeldCount<'a>(&'a Counter);

impl Drop for HeldCount<'_> {
    fn drop(&mut self) {
        self.0.subtract_one();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted_connections: Counter,
    pub(crate) advertised_connections: Counter,
    pub(crate) succeeded_requests: Counter,
    pub(crate) refused_requests: Counter,
    pub(crate) refused_peers: Counter,
    pub(crate) evicted_connections: Counter,
    pub(crate) started_sessions: Counter,
    pub(crate) connections_now: Counter,
}

impl Counters {
    pub(crate) fn snapshot(&self, half_open_now: usize, parting_now: usize) -> ServerStatistics {
        ServerStatistics {
            accepted_connections: self.accepted_connections.value(),
            advertised_connections: self.advertised_connections.value(),
            succeeded_requests: self.succeeded_requests.value(),
            refused_requests: self.refused_requests.value(),
            refused_peers: self.refused_peers.value(),
            evicted_connections: self.evicted_connections.value(),
            started_sessions: self.started_sessions.value(),
            connections_now: self.connections_now.value() + parting_now as u64,
            half_open_now: half_open_now as u64,
        }
    }
}

//! Every bound of the server, in one place.

use std::time::Duration;

/// Bounds and waits. Each default is what the server promises; tests inject small ones.
// spec: SRV-LIMIT-1
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// A request must be complete this long after its first byte. Default 10 s.
    pub request: Duration,
    /// A peer of a listen port may stay silent this long before its first byte; idle advertised connections may
    /// stay silent for ever. Default 5 min.
    pub silence: Duration,
    /// Accepted connections without a complete request, at most; and never more than half of the descriptors that the process may
    /// have. One more, and the oldest silent one is closed (where none is silent, the oldest). Default 512.
    pub half_open_connections: usize,
    /// A reply must be taken by the peer within this time, but for the one that a session's stream follows. Default 5 s.
    pub reply: Duration,
    /// The continuation of an environment reply must be taken within this time. Default 30 s.
    pub continuation: Duration,
    /// Bytes of different continuations that wait for peers at the same time (equal ones count once). One is always
    /// possible. Default 64 MiB.
    pub continuation_bytes: usize,
    /// After a reply the connection is read out for this long at most, so that the peer sees an end and no reset.
    /// Default 1 s.
    pub drain: Duration,
    /// And for this many bytes at most. Default 256 KiB.
    pub drain_bytes: usize,
    /// A call into the [`Host`](crate::Host) may take this long, except a dump. Default 10 s.
    pub host_call: Duration,
    /// Calls into the host at the same time, those that have run out of time included. Default 32.
    pub host_calls: usize,
    /// A dump may take this long. Default 10 min.
    pub core_dump: Duration,
    /// A session's buffers take no more than this, whatever its client asks for. Default 4 GiB.
    pub session_bytes: u64,
    /// A stop is answered after the session's end, or this long after the request. Default 4.5 s.
    pub stop_reply: Duration,
    /// A stopped session's reader may stand still this long before its stream is cut. Default 2 s.
    pub stop_grace: Duration,
    /// A running Block session's reader may stand still this long before the session ends. Default 30 s;
    /// `None`: for ever.
    pub stall: Option<Duration>,
    /// A connect port's peer must have room for our connection within this time. Default 5 s.
    pub connect: Duration,
    /// And must take the Advertise within this time. Default 1 s.
    pub advertise: Duration,
    /// A request that began on an advertised connection is waited for this long before the port makes its next
    /// connection nevertheless. Default 250 ms.
    pub advertised_request: Duration,
    /// A connect port makes one connection in this time, on the average; 32 may follow each other at once. Default 2 ms.
    pub advertised_step: Duration,
    /// An advertised connection that lived this long was no failure: the next wait is the shortest again.
    /// Default 1 s.
    pub stable_connection: Duration,
    /// How often a listen port checks that its socket file is still there. Default 2 s.
    pub socket_file_check: Duration,
    /// Startup paused this long is announced. Default 5 s.
    pub pause_notice: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            silence: Duration::from_secs(5 * 60),
            half_open_connections: 512,
            reply: Duration::from_secs(5),
            continuation: Duration::from_secs(30),
            continuation_bytes: 64 << 20,
            drain: Duration::from_secs(1),
            drain_bytes: 256 * 1024,
            host_call: Duration::from_secs(10),
            host_calls: 32,
            core_dump: Duration::from_secs(10 * 60),
            session_bytes: 4 << 30,
            stop_reply: Duration::from_millis(4500),
            stop_grace: Duration::from_secs(2),
            stall: Some(Duration::from_secs(30)),
            connect: Duration::from_secs(5),
            advertise: Duration::from_secs(1),
            advertised_request: Duration::from_millis(250),
            advertised_step: Duration::from_millis(2),
            stable_connection: Duration::from_secs(1),
            socket_file_check: Duration::from_secs(2),
            pause_notice: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;
    use std::time::Duration;

    // spec-test: SRV-LIMIT-1
    #[test]
    fn defaults_are_the_promised_figures() {
        let limits = Limits::default();
        let check = |name: &str, value: Duration, promised_ms: u64| {
            assert_eq!(value.as_millis(), u128::from(promised_ms), "{name}");
        };
        check("request", limits.request, 10_000);
        check("silence", limits.silence, 300_000);
        check("drain", limits.drain, 1_000);
        check("host_call", limits.host_call, 10_000);
        check("core_dump", limits.core_dump, 600_000);
        check("stop_reply", limits.stop_reply, 4_500);
        check("stop_grace", limits.stop_grace, 2_000);
        check("stall", limits.stall.expect("a limit"), 30_000);
        check("advertised_step", limits.advertised_step, 2);
        check("stable_connection", limits.stable_connection, 1_000);
        check("socket_file_check", limits.socket_file_check, 2_000);
        check("pause_notice", limits.pause_notice, 5_000);
        assert_eq!((limits.half_open_connections, limits.host_calls), (512, 32));
        assert_eq!(limits.session_bytes, 4 << 30);
        assert_eq!((limits.drain_bytes, limits.continuation_bytes), (256 * 1024, 64 << 20));
    }
}

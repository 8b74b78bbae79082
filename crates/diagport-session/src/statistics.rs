//! What producers tried and what became of it.

use std::fmt;

/// Attempts of one session: only events of producers, not what the drain adds (ProcessInfo, info events, rundown).
///
/// While the session runs, `written` are those that went into a buffer. At its end those that never reached the sink have
/// moved to `dropped`. At all times `emitted = written + dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStatistics {
    /// Attempts that the session saw.
    pub emitted: u64,
    /// Attempts that it has or had room for.
    pub written: u64,
    /// Attempts that were lost.
    pub dropped: u64,
}

/// Sums over all sessions of a pipe's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipeStatistics {
    /// Sessions that were enabled and have not ended. One that counts here sees what is written from now on, until it is stopped.
    pub live_sessions: usize,
    /// See [`SessionStatistics::emitted`].
    pub emitted: u64,
    /// See [`SessionStatistics::written`].
    pub written: u64,
    /// See [`SessionStatistics::dropped`].
    pub dropped: u64,
}

impl PipeStatistics {
    pub(crate) fn add(&mut self, session: SessionStatistics) {
        self.emitted += session.emitted;
        self.written += session.written;
        self.dropped += session.dropped;
    }
}

impl fmt::Display for PipeStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { live_sessions, emitted, written, dropped } = self;
        write!(f, "live={live_sessions} emitted={emitted} written={written} dropped={dropped}")
    }
}

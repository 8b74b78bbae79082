//! The life of one session.

use std::fmt;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diagport_buffer::{EventBuffer, ReaderSignal};

use crate::dispatcher::panic_text;
use crate::drain;
use crate::event_pipe::PipeInner;
use crate::guarded_sink::GuardedSink;
use crate::lock::lock;
use crate::session_config::SessionConfig;
use crate::sink::Sink;
use crate::statistics::SessionStatistics;
use crate::time_source::Moment;

/// Names a session within its process: not 0, not an address, never given twice.
// spec: SES-LIFE-2
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    /// `number` must not be 0.
    pub(crate) fn new(number: u64) -> Self {
        Self(NonZeroU64::new(number).expect("invariant: session numbers start at 1"))
    }

    /// The id of a wire number; None for 0, which names no session.
    #[must_use]
    pub fn from_u64(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The wire number.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// It was asked to; its stream is complete.
    Stopped,
    /// The peer went away.
    PeerClosed,
    /// The sink gave this error.
    SinkFailed(String),
    /// The reader of a Block session made no progress for `stall_limit`.
    Stalled,
    /// It was asked to stop, and its reader made no progress for `stop_grace`.
    StopGraceOver,
    /// It was given up for this reason.
    Aborted(String),
    /// Its drain thread could not be started.
    DrainNotStarted(String),
    /// Its drain or sink panicked and said this.
    Panicked(String),
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    /// Which one.
    pub session_id: SessionId,
    /// Why.
    pub reason: EndReason,
    /// Final: `emitted = written + dropped`, and `written` has reached the sink.
    pub statistics: SessionStatistics,
}

/// Answer of [`Session::wait_finished`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum WaitFinished {
    /// It has ended: sink closed, slot free.
    Finished(SessionEnd),
    /// Not yet.
    TimedOut,
}

/// A handle of a session. Clones are the same session; dropping them all changes nothing.
#[derive(Clone)]
pub struct Session {
    core: Arc<SessionCore>,
}

type FinishedCallback = Box<dyn FnOnce(SessionEnd) + Send>;

pub(crate) struct SessionCore {
    pub(crate) id: SessionId,
    pub(crate) slot: usize,
    pub(crate) config: SessionConfig,
    pub(crate) pipe: Arc<PipeInner>,
    pub(crate) buffer: Arc<EventBuffer>,
    pub(crate) signal: Arc<ReaderSignal>,
    /// Before any event of the session.
    pub(crate) start: Moment,
    pub(crate) start_utc_millis: i64,
    /// Events that the sink has taken.
    pub(crate) delivered: AtomicU64,
    /// Says that `stop` is set.
    stopping: AtomicBool,
    /// The stream is to be cut, not ended.
    cut: AtomicBool,
    stop: Mutex<Option<StopRequest>>,
    life: Mutex<Life>,
    ended: Condvar,
}

/// The wish to end that counts: the first, or an abort.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest {
    pub(crate) reason: EndReason,
    pub(crate) at_ticks: i64,
}

#[derive(Default)]
struct Life {
    phase: Phase,
    on_finished: Vec<FinishedCallback>,
}

#[derive(Default)]
enum Phase {
    /// No drain yet.
    #[default]
    Created,
    /// The drain ends it.
    Started,
    Finished(SessionEnd),
}

impl Session {
    pub(crate) fn new(core: Arc<SessionCore>) -> Self {
        Self { core }
    }

    /// See [`SessionId`].
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.core.id
    }

    /// What it was created with.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.core.config
    }

    /// Lets producers write into the session's buffers from now on; nothing is read yet, no callback runs.
    // spec: SES-LIFE-4
    pub fn enable(&self) {
        self.core.pipe.enable(&self.core);
    }

    /// Enables it if need be and starts its drain thread, which writes the head of the stream and ProcessInfo at once; only
    /// then are the enable callbacks of the providers queued. A session that was stopped before, or started, closes the sink.
    pub fn start(&self, sink: Box<dyn Sink>) {
        self.enable();
        {
            let mut life = lock(&self.core.life);
            if !matches!(life.phase, Phase::Created) {
                drop(life);
                // Foreign code, on the caller's thread.
                if let Err(reason) = GuardedSink::new(sink).close() {
                    tracing::error!(session = %self.core.id, ?reason, "the sink of a session that had ended panicked");
                }
                return;
            }
            life.phase = Phase::Started;
        }
        if let Err(error) = drain::spawn(Arc::clone(&self.core), sink) {
            let reason = EndReason::DrainNotStarted(error.to_string());
            self.core.begin_stop(reason.clone());
            self.core.finish(reason);
        }
    }

    /// Asks it to end: parked producers are released now, the drain writes what is buffered, the rundown and the end of the
    /// stream. Does not wait. A second request does nothing.
    pub fn request_stop(&self) {
        self.core.begin_stop(EndReason::Stopped);
        self.core.finish_if_not_started();
    }

    /// Gives it up: parked producers are released now, the stream is cut where it is, what is buffered is lost and counted.
    /// Does not wait, but within one slice of its sink (50 ms) the drain notices; or when it is done with its last look at threads that are inside an event, a second
    /// at most.
    pub fn abort(&self, reason: impl Into<String>) {
        let reason = EndReason::Aborted(reason.into());
        self.core.cut(&reason);
        self.core.begin_stop(reason);
        self.core.finish_if_not_started();
    }

    /// Blocks until it has ended or `limit` is over. It does not end by itself because of the waiting.
    pub fn wait_finished(&self, limit: Duration) -> WaitFinished {
        let begin = Instant::now();
        let mut life = lock(&self.core.life);
        loop {
            if let Phase::Finished(end) = &life.phase {
                return WaitFinished::Finished(end.clone());
            }
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return WaitFinished::TimedOut;
            }
            life = self.core.ended.wait_timeout(life, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Calls back once when it has ended (sink closed, slot free): on its drain thread, or here and now if it is over already.
    /// A panic is logged and contained.
    pub fn on_finished(&self, callback: Box<dyn FnOnce(SessionEnd) + Send>) {
        let mut life = lock(&self.core.life);
        if let Phase::Finished(end) = &life.phase {
            let end = end.clone();
            drop(life);
            call_finished(callback, end);
        } else {
            life.on_finished.push(callback);
        }
    }

    /// What its producers tried, and what became of it so far.
    #[must_use]
    pub fn statistics(&self) -> SessionStatistics {
        self.core.statistics()
    }

    /// Threads that have a lane in it now: live ones that wrote to it, and ended ones that were not read to the end yet.
    #[must_use]
    pub fn lane_count(&self) -> usize {
        self.core.buffer.lane_count()
    }

    /// Threads that wait for capacity of it now.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.core.buffer.waiting_count()
    }

    /// Bytes of event buffers it holds now; never above its budget.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.core.buffer.held_bytes()
    }
}

impl SessionCore {
    pub(crate) fn new(id: SessionId, slot: usize, config: SessionConfig, pipe: Arc<PipeInner>) -> Self {
        let signal = Arc::new(ReaderSignal::default());
        let budget_bytes = usize::try_from(config.budget_bytes).unwrap_or(usize::MAX);
        // The rest is for what the drain holds besides: encoded bytes on their way, stacks that were written already.
        // spec: SES-MEMORY-1
        let chunk_bytes = budget_bytes - budget_bytes / 16;
        let reader: Arc<ReaderSignal> = Arc::clone(&signal);
        // The ticks first: no event may be older than the start that the stream states.
        let (start, start_utc_millis) = (pipe.time.now(), pipe.time.utc_unix_millis());
        Self {
            id,
            slot,
            buffer: EventBuffer::new(config.buffering_mode, chunk_bytes, reader),
            config,
            pipe,
            signal,
            start,
            start_utc_millis,
            delivered: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            stop: Mutex::new(None),
            life: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Starts the end of the session, whoever wants it; only the first reason is kept. Releases parked producers and takes the
    /// session out of the providers before anybody waits for the drain.
    // spec: SES-STOP-1
    pub(crate) fn begin_stop(&self, reason: EndReason) {
        {
            let mut stop = lock(&self.stop);
            if stop.is_none() {
                *stop = Some(StopRequest { reason, at_ticks: self.pipe.time.ticks() });
            }
        }
        self.stopping.store(true, Ordering::Release);
        self.buffer.abort();
        self.pipe.disable(self);
        self.signal.ring_now();
    }

    /// Before `begin_stop`, so that a drain that sees the stop sees the cut; and a stop that was under way does not end as one.
    fn cut(&self, reason: &EndReason) {
        let mut stop = lock(&self.stop);
        let at_ticks = stop.as_ref().map_or_else(|| self.pipe.time.ticks(), |stop| stop.at_ticks);
        *stop = Some(StopRequest { reason: reason.clone(), at_ticks });
        self.cut.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    pub(crate) fn stop_request(&self) -> Option<StopRequest> {
        lock(&self.stop).clone()
    }

    fn finish_if_not_started(&self) {
        let unstarted = {
            let mut life = lock(&self.life);
            let unstarted = matches!(life.phase, Phase::Created);
            if unstarted {
                // Whoever sets this ends it; a start that comes later finds it taken.
                life.phase = Phase::Started;
            }
            unstarted
        };
        if unstarted {
            let reason = self.stop_request().map_or(EndReason::Stopped, |stop| stop.reason);
            self.finish(reason);
        }
    }

    /// The last step: counts what is left as dropped, frees the slot, tells everybody. The sink is closed already.
    pub(crate) fn finish(&self, reason: EndReason) {
        self.buffer.close();
        self.buffer.collect(|_| {});
        let emitted = self.buffer.totals().attempts;
        let written = self.delivered.load(Ordering::Acquire);
        let statistics = SessionStatistics { emitted, written, dropped: emitted - written };
        let end = SessionEnd { session_id: self.id, reason, statistics };
        let callbacks = {
            let mut life = lock(&self.life);
            // Under the lock, so that a waiter who sees the end finds the slot free, and sums count the session once.
            self.pipe.free(self, statistics);
            life.phase = Phase::Finished(end.clone());
            std::mem::take(&mut life.on_finished)
        };
        self.ended.notify_all();
        for callback in callbacks {
            call_finished(callback, end.clone());
        }
    }

    pub(crate) fn statistics(&self) -> SessionStatistics {
        if let Phase::Finished(end) = &lock(&self.life).phase {
            return end.statistics;
        }
        let totals = self.buffer.totals();
        SessionStatistics {
            emitted: totals.attempts,
            written: totals.attempts - totals.drops,
            dropped: totals.drops,
        }
    }
}

// spec: SES-FAIL-3
fn call_finished(callback: FinishedCallback, end: SessionEnd) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| callback(end))) {
        tracing::error!(panic = panic_text(&*panic), "a session's end callback panicked");
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.core).finish()
    }
}

impl fmt::Debug for SessionCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCore").field("id", &self.id).field("slot", &self.slot).finish_non_exhaustive()
    }
}

//! The entry of the crate: one per process, usually.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diagport_buffer::{Lane, LaneWrite, ProducerThread};
use diagport_nettrace::Field;

use crate::clock::Clock;
use crate::dispatcher::Dispatcher;
use crate::event::{DefineEventError, EventCore, EventDefinition};
use crate::lock::lock;
use crate::pipe_state::PipeState;
use crate::process_info::ProcessDescription;
use crate::provider::{EnableCallback, Provider};
use crate::rundown::RundownWriter;
use crate::session::{Session, SessionCore, SessionId};
use crate::session_config::{SessionConfig, StackWalk, StartSessionError};
use crate::statistics::{PipeStatistics, SessionStatistics};
use crate::time_source::TimeSource;

/// Providers, their events, and the sessions that record them. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct EventPipe {
    inner: Arc<PipeInner>,
}

pub(crate) type RundownHook = Arc<dyn Fn(&mut RundownWriter<'_>) + Send + Sync>;

pub(crate) struct PipeInner {
    /// Tells the pipes of a process apart in what threads remember.
    pub(crate) id: u64,
    pub(crate) process: ProcessDescription,
    pub(crate) time: TimeSource,
    /// A bit for each slot whose session wants stacks.
    stack_slots: AtomicU64,
    /// Of the process that made the pipe.
    fork_generation: u32,
    state: Mutex<PipeState>,
    rundown_hooks: Mutex<Vec<RundownHook>>,
    dispatcher: Dispatcher,
}

/// What a thread gets that has no lane in a session.
pub(crate) enum NewLane {
    Open(Arc<Lane>),
    /// None, and the event is counted as lost.
    EventDropped,
    /// The session does not want the event any more.
    NotWanted,
}

static NEXT_PIPE_ID: AtomicU64 = AtomicU64::new(1);
/// Never reused in the process, whatever the pipe. // spec: SES-LIFE-2
static NEXT_SESSION_ID: AtomicU64 = AtomicU64::new(1);

impl EventPipe {
    /// A pipe with the system's clock.
    #[must_use]
    pub fn new(process: ProcessDescription) -> Self {
        Self::with_time(process, TimeSource::system())
    }

    /// A pipe whose time the caller makes.
    #[must_use]
    pub fn with_clock(process: ProcessDescription, clock: Arc<dyn Clock>) -> Self {
        Self::with_time(process, TimeSource::Custom(clock))
    }

    fn with_time(process: ProcessDescription, time: TimeSource) -> Self {
        if let Err(error) = diagport_sys::fork::watch_forks() {
            tracing::warn!(%error, "forks go unseen: a forked child must write no events");
        }
        Self {
            inner: Arc::new(PipeInner {
                id: NEXT_PIPE_ID.fetch_add(1, Ordering::Relaxed),
                process,
                time,
                stack_slots: AtomicU64::new(0),
                fork_generation: diagport_sys::fork::generation(),
                state: Mutex::default(),
                rundown_hooks: Mutex::default(),
                dispatcher: Dispatcher::default(),
            }),
        }
    }

    /// The provider of this name, registered if it is new. Sessions that name it already have it from now on.
    #[must_use]
    pub fn provider(&self, name: &str) -> Provider {
        let (index, name) = lock(&self.inner.state).provider(name);
        Provider { pipe: Arc::clone(&self.inner), name, index }
    }

    /// Takes a slot and an id for a session that does nothing yet: [`Session::enable`], then [`Session::start`]. A session that is not to
    /// be started after all is given up by [`Session::abort`]; otherwise it holds its slot.
    ///
    /// # Errors
    /// See [`StartSessionError`].
    pub fn create_session(&self, config: SessionConfig) -> Result<Session, StartSessionError> {
        config.check()?;
        let mut state = lock(&self.inner.state);
        if state.shutting_down {
            return Err(StartSessionError::ShuttingDown);
        }
        // spec: SES-LIFE-1
        let slot = state.free_slot().ok_or(StartSessionError::TooManySessions)?;
        let id = SessionId::new(NEXT_SESSION_ID.fetch_add(1, Ordering::Relaxed));
        let session = Arc::new(SessionCore::new(id, slot, config, Arc::clone(&self.inner)));
        state.hold_slot(Arc::clone(&session));
        Ok(Session::new(session))
    }

    /// The session with this id, while it holds a slot.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<Session> {
        let state = lock(&self.inner.state);
        state.sessions().find(|session| session.id == id).map(|session| Session::new(Arc::clone(session)))
    }

    /// Sums over the sessions that ended and those that run.
    #[must_use]
    pub fn statistics(&self) -> PipeStatistics {
        // One critical section, so that a session that is just ending counts once.
        let (sessions, mut sums) = {
            let state = lock(&self.inner.state);
            let sums = PipeStatistics { live_sessions: state.enabled_sessions(), ..state.finished };
            (state.sessions().cloned().collect::<Vec<_>>(), sums)
        };
        sessions.iter().for_each(|session| sums.add(session.statistics()));
        sums
    }

    /// Adds a writer of rundown events, called in the order added for each session that ends with a rundown keyword.
    pub fn on_rundown(&self, hook: impl Fn(&mut RundownWriter<'_>) + Send + Sync + 'static) {
        lock(&self.inner.rundown_hooks).push(Arc::new(hook));
    }

    /// Stops every session and refuses new ones. Returns when all streams have ended, or at the deadline.
    pub fn shutdown(&self, deadline: Duration) {
        let begin = Instant::now();
        let sessions: Vec<_> = {
            let mut state = lock(&self.inner.state);
            state.shutting_down = true;
            state.sessions().map(|session| Session::new(Arc::clone(session))).collect()
        };
        sessions.iter().for_each(Session::request_stop);
        for session in sessions {
            let _ = session.wait_finished(deadline.saturating_sub(begin.elapsed()));
        }
    }
}

impl PipeInner {
    pub(crate) fn define_event(
        &self,
        provider: &Provider,
        definition: EventDefinition,
        fields: Vec<Field>,
    ) -> Result<Arc<EventCore>, DefineEventError> {
        lock(&self.state).define_event(provider.index, definition, fields)
    }

    pub(crate) fn event(&self, key: u32) -> Arc<EventCore> {
        lock(&self.state).event(key)
    }

    pub(crate) fn add_callback(&self, provider: usize, callback: EnableCallback) {
        lock(&self.state).add_callback(provider, callback, &self.dispatcher);
        self.dispatcher.run_queued();
    }

    /// A lane of the thread in the session that has the slot, if that session wants the event.
    pub(crate) fn add_lane(&self, slot: usize, event: &EventCore, thread: &Arc<ProducerThread>) -> NewLane {
        let state = lock(&self.state);
        let Some(session) = state.session_for(slot, event) else { return NewLane::NotWanted };
        let buffer = &session.buffer;
        match buffer.add_lane(thread) {
            Some(lane) => NewLane::Open(lane),
            None if buffer.drop_without_lane() == LaneWrite::Dropped => NewLane::EventDropped,
            None => NewLane::NotWanted,
        }
    }

    pub(crate) fn enable(&self, session: &SessionCore) {
        let mut state = lock(&self.state);
        if state.enable(session).is_some() && session.config.stack_walk == StackWalk::On {
            // Relaxed, as the bits of the events: a thread that sees it late leaves a first stack out.
            self.stack_slots.fetch_or(1 << session.slot, Ordering::Relaxed);
        }
    }

    /// The slots whose sessions want stacks.
    #[inline]
    pub(crate) fn stack_slots(&self) -> u64 {
        self.stack_slots.load(Ordering::Relaxed)
    }

    /// Whether this process was forked after the pipe was made: then it has the pipe's memory and none of its threads.
    #[inline]
    pub(crate) fn is_of_another_process(&self) -> bool {
        diagport_sys::fork::generation() != self.fork_generation
    }

    pub(crate) fn announce(&self, session: &SessionCore) {
        lock(&self.state).announce(session, &self.dispatcher);
        self.dispatcher.run_queued();
    }

    pub(crate) fn disable(&self, session: &SessionCore) {
        lock(&self.state).disable(session, &self.dispatcher);
        self.dispatcher.run_queued();
    }

    pub(crate) fn free(&self, session: &SessionCore, statistics: SessionStatistics) {
        let mut state = lock(&self.state);
        self.stack_slots.fetch_and(!(1 << session.slot), Ordering::Relaxed);
        state.free(session);
        state.finished.add(statistics);
    }

    pub(crate) fn rundown_hooks(&self) -> Vec<RundownHook> {
        lock(&self.rundown_hooks).clone()
    }
}

impl fmt::Debug for EventPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventPipe").field("process", &self.inner.process).finish_non_exhaustive()
    }
}

impl fmt::Debug for PipeInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeInner").field("id", &self.id).finish_non_exhaustive()
    }
}

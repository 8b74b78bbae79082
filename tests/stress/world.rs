//! Everything the threads of one iteration share, and what the oracle knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diagport_session::{Event, EventDefinition, EventPipe, ProcessDescription, Session, SessionId};

use crate::plan::{KindPlan, PROVIDERS, Plan, SessionPlan};

/// An index, the number of the life that wrote it, and bytes that follow from both.
pub(crate) type Work = Event<(i64, i64, Vec<u8>)>;
pub(crate) const WORK: &str = "Work";
/// An event without fields.
pub(crate) const NOTHING: &str = "Nothing";
/// In place of a life.
pub(crate) const RUNDOWN_LIFE: i64 = -1;
/// Four controlling threads with three sessions each.
pub(crate) const MAX_SESSIONS: usize = 12;

#[derive(Clone)]
pub(crate) enum Kind {
    Work(Work),
    Nothing(Event<()>),
}

/// How sure it is that a session sees an attempt. 0, before anything was done, is sure that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Perhaps = 1,
    Enabled = 2,
    Over = 3,
}

/// Attempts that a session wants, by what is known of them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    phase: AtomicU8,
    /// Seen for sure.
    pub(crate) certain: AtomicU64,
    /// Perhaps seen: made around a start or an end.
    pub(crate) uncertain: AtomicU64,
    /// Of both, those that a Block session with a live reader may lose: too large, or on a drain thread.
    pub(crate) may_be_lost: AtomicU64,
    /// Events that rundown hooks wrote to it.
    pub(crate) rundown: AtomicU64,
}

impl Tally {
    pub(crate) fn phase(&self) -> u8 {
        // Acquire pairs with the Release of `set`: who sees Over sees the session's end, too.
        self.phase.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Enabled, unless its end has begun.
    pub(crate) fn set_enabled(&self) {
        let (from, to) = (Phase::Perhaps as u8, Phase::Enabled as u8);
        let _ = self.phase.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }
}

/// What a provider was told of one session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) starts: u32,
    pub(crate) stops: u32,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) pipe: EventPipe,
    kinds: Vec<Mutex<Option<Kind>>>,
    early: Vec<Option<Kind>>,
    pub(crate) tallies: Vec<Tally>,
    /// A bit for each kind, by session.
    pub(crate) wants: Vec<u64>,
    /// Bytes below which a payload surely fits the budget, by session.
    pub(crate) rooms: Vec<u64>,
    pub(crate) attempts: AtomicU64,
    next_life: AtomicI64,
    pub(crate) producers_over: AtomicBool,
    /// Sessions that start before the first producer and have not yet.
    pub(crate) edge_sessions_left: AtomicUsize,
    pub(crate) callbacks_running: AtomicUsize,
    pub(crate) index_of: Mutex<HashMap<SessionId, usize>>,
    pub(crate) told: Mutex<HashMap<(usize, SessionId), Told>>,
    wrong: Mutex<Vec<String>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let pipe = EventPipe::new(ProcessDescription::of_this_process());
        let sessions: Vec<&SessionPlan> = plan.sessions.iter().flatten().collect();
        let wants = sessions
            .iter()
            .map(|session| {
                let wanted = plan.kinds.iter().enumerate().filter(|(_, kind)| session.wants(kind));
                wanted.fold(0, |bits, (index, _)| bits | 1 << index)
            })
            .collect();
        let is_edge = |session: &&&SessionPlan| session.begin == crate::plan::Moment::Edge;
        let early = plan.kinds.iter().map(|kind| (!kind.late).then(|| define(&pipe, kind))).collect();
        Self {
            kinds: plan.kinds.iter().map(|_| Mutex::new(None)).collect(),
            early,
            tallies: sessions.iter().map(|_| Tally::default()).collect(),
            wants,
            rooms: sessions.iter().map(|session| session.config.budget_bytes * 3 / 4 - 1_024).collect(),
            attempts: AtomicU64::new(0),
            next_life: AtomicI64::new(0),
            producers_over: AtomicBool::new(false),
            edge_sessions_left: AtomicUsize::new(sessions.iter().filter(is_edge).count()),
            callbacks_running: AtomicUsize::new(0),
            index_of: Mutex::default(),
            told: Mutex::default(),
            wrong: Mutex::default(),
            pipe,
            plan,
        }
    }

    /// The kind with this number, defined now if nobody has written it yet.
    pub(crate) fn kind(&self, index: usize) -> Kind {
        if let Some(kind) = &self.early[index] {
            return kind.clone();
        }
        let mut late = lock(&self.kinds[index]);
        late.get_or_insert_with(|| define(&self.pipe, &self.plan.kinds[index])).clone()
    }

    pub(crate) fn next_life(&self) -> i64 {
        self.next_life.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn session_plan(&self, index: usize) -> Option<&SessionPlan> {
        self.plan.sessions.iter().flatten().nth(index)
    }

    /// Nobody knows when `shutdown` ends a session.
    pub(crate) fn is_foreseen(&self, plan: &SessionPlan) -> bool {
        plan.is_foreseen() && self.plan.shutdown_at.is_none()
    }

    pub(crate) fn know(&self, session: &Session, index: usize) {
        lock(&self.index_of).insert(session.id(), index);
    }

    pub(crate) fn blame(&self, what: String) {
        lock(&self.wrong).push(what);
    }

    pub(crate) fn blamed(&self) -> Vec<String> {
        lock(&self.wrong).clone()
    }

    /// Waits until producers have tried `attempts` events in all, or are over, or move no more.
    pub(crate) fn await_attempts(&self, attempts: u64) {
        let (mut last, mut since) = (self.attempts.load(Ordering::Relaxed), Instant::now());
        while last < attempts
            && !self.producers_over.load(Ordering::Acquire)
            && since.elapsed() < Duration::from_millis(30)
        {
            thread::sleep(Duration::from_micros(200));
            let now = self.attempts.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }
}

fn define(pipe: &EventPipe, kind: &KindPlan) -> Kind {
    let provider = pipe.provider(PROVIDERS[kind.provider]);
    let definition =
        |name: &str| EventDefinition::new(kind.id, name).keywords(kind.keywords).level(kind.level);
    let conflict = "each kind has an id of its own";
    if kind.empty {
        Kind::Nothing(provider.define(definition(NOTHING), []).expect(conflict))
    } else {
        Kind::Work(provider.define(definition(WORK), ["index", "life", "bytes"]).expect(conflict))
    }
}

/// Waits, by looking. The watchdog catches what never comes.
pub(crate) fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        thread::sleep(Duration::from_micros(200));
    }
}

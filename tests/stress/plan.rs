//! What one iteration does, drawn from its seed before any of it runs.

use std::time::Duration;

use diagport_session::{
    BufferingMode, EventFilter, EventLevel, FilterSense, ProviderConfig, SessionConfig, SessionType,
    StackWalk,
};

use crate::random::Random;

pub(crate) const PROVIDERS: [&str; 3] = ["Stress-One", "Stress-Two", "Stress-Three"];
const LEVELS: [EventLevel; 4] =
    [EventLevel::LogAlways, EventLevel::Error, EventLevel::Informational, EventLevel::Verbose];
/// Readers that read at all are never taken for stuck, on whatever machine.
const NEVER_STUCK: Duration = Duration::from_secs(120);
/// Bytes that a fixed-size part takes beside the varying one: two numbers and a count.
pub(crate) const FIXED_PAYLOAD_BYTES: u64 = 18;
pub(crate) const MAX_PAYLOAD_BYTES: u64 = 65_535;

/// How much one iteration writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Full,
    /// For slow builds: a tenth.
    Light,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) kinds: Vec<KindPlan>,
    /// By controlling thread, one after the other.
    pub(crate) sessions: Vec<Vec<SessionPlan>>,
    pub(crate) producers: Vec<ProducerPlan>,
    /// Attempts after which the pipe is shut down.
    pub(crate) shutdown_at: Option<u64>,
    /// Whether callbacks write ten times the budget of a small Block session.
    pub(crate) heavy_callbacks: bool,
    /// One in so many callbacks and hooks panics.
    pub(crate) panic_odds: u64,
    pub(crate) rundown_events: u64,
    /// All 64 slots are taken and given back at the end.
    pub(crate) fills_slots: bool,
}

#[derive(Debug)]
pub(crate) struct KindPlan {
    pub(crate) provider: usize,
    pub(crate) id: u32,
    pub(crate) keywords: u64,
    pub(crate) level: EventLevel,
    /// Defined by whoever writes it first.
    pub(crate) late: bool,
    /// Without any field.
    pub(crate) empty: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ProducerPlan {
    pub(crate) seed: u64,
    /// Threads, one after the other.
    pub(crate) lives: u64,
    pub(crate) events: u64,
    pub(crate) sizes: Sizes,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    Small,
    Mixed,
    Large,
}

impl Sizes {
    /// Bytes of the varying part; some are too many for an event.
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        let largest = MAX_PAYLOAD_BYTES - FIXED_PAYLOAD_BYTES;
        match (self, random.below(400)) {
            (_, 0) => largest + random.between(0, 1),
            (_, 1) => largest + random.between(1, 20_000),
            (Self::Small, _) => random.below(64),
            (Self::Mixed, 2..40) => random.below(8_000),
            (Self::Mixed, 40..44) => random.between(30_000, largest),
            (Self::Mixed, _) => random.below(400),
            (Self::Large, _) => random.between(4_000, 40_000),
        }
    }

    fn mean(self) -> u64 {
        match self {
            Self::Small => 450,
            Self::Mixed => 1_500,
            Self::Large => 22_000,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SessionPlan {
    pub(crate) config: SessionConfig,
    pub(crate) reader: ReaderPlan,
    pub(crate) begin: Moment,
    pub(crate) end: Moment,
    pub(crate) enabling: Enabling,
    pub(crate) ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the first producer, or after the last one.
    Edge,
    /// After so many attempts in all, or when nothing moves.
    At(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enabling {
    ByStart,
    BeforeStart,
    NeverStarted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Stop,
    StopTwiceAtOnce,
    StopWhileStarting,
    Abort,
    StopThenAbort,
    StopAndAbortAtOnce,
    /// The enable callback asks for it.
    ByCallback,
    /// Whatever the reader does; a stop if it does nothing.
    ByReader,
}

/// What the far end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderPlan {
    Reads,
    Slow,
    Tiny,
    StopsAfter(u64),
    FailsAfter(u64),
    PanicsAfter(u64),
    ClosesAfter(u64),
    PanicsInClose,
}

impl ReaderPlan {
    /// Reads to the end.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Reads | Self::Slow | Self::Tiny)
    }

    fn draw(random: &mut Random) -> Self {
        let after = random.magnitude(1, 1 << 20);
        match random.below(20) {
            0 => Self::StopsAfter(after),
            1 => Self::FailsAfter(after),
            2 => Self::PanicsAfter(after),
            3 => Self::ClosesAfter(after),
            4 => Self::PanicsInClose,
            5..8 => Self::Slow,
            8..10 => Self::Tiny,
            _ => Self::Reads,
        }
    }
}

impl SessionPlan {
    /// Whether nobody but its controlling thread ends it.
    pub(crate) fn is_foreseen(&self) -> bool {
        let by_controller =
            !matches!(self.ending, Ending::ByCallback | Ending::ByReader | Ending::StopWhileStarting);
        by_controller && self.reader.is_live()
    }

    pub(crate) fn wants(&self, kind: &KindPlan) -> bool {
        self.config.providers.iter().any(|entry| {
            (entry.name == "*" || entry.name == PROVIDERS[kind.provider])
                && (kind.keywords == 0 || kind.keywords & entry.keywords != 0)
                && (kind.level == EventLevel::LogAlways
                    || entry.level == EventLevel::LogAlways
                    || kind.level <= entry.level)
                && entry.filter.passes(kind.id)
        })
    }
}

impl Plan {
    pub(crate) fn draw(seed: u64, load: Load) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let kinds = (0..8)
            .map(|id| KindPlan {
                provider: usize::try_from(random.below(3)).unwrap_or(0),
                id,
                keywords: random.below(8),
                level: random.pick(&LEVELS),
                // The first one is there for callbacks.
                late: id > 0 && random.one_in(4),
                empty: id == 7,
            })
            .collect();
        let producers = draw_producers(random, load);
        let attempts = producers.iter().map(|producer| producer.lives * producer.events).sum();
        let sessions = (0..random.between(1, 4)).map(|_| draw_sessions(random, attempts)).collect();
        Self {
            seed,
            kinds,
            sessions,
            producers,
            shutdown_at: random.one_in(6).then(|| random.below(attempts + 1)),
            heavy_callbacks: random.one_in(3),
            panic_odds: random.pick(&[2, 5, u64::MAX]),
            rundown_events: random.magnitude(1, 400),
            fills_slots: random.one_in(8),
        }
    }
}

fn draw_producers(random: &mut Random, load: Load) -> Vec<ProducerPlan> {
    let bytes = random.magnitude(1 << 16, 1 << 24) / if load == Load::Light { 8 } else { 1 };
    let count = random.between(1, 8);
    (0..count)
        .map(|_| {
            let sizes = random.pick(&[Sizes::Small, Sizes::Small, Sizes::Mixed, Sizes::Large]);
            let events = (bytes / count / sizes.mean()).max(1);
            let lives = if random.one_in(3) { random.magnitude(1, 256).min(events) } else { 1 };
            ProducerPlan { seed: random.next(), lives, events: events / lives, sizes }
        })
        .collect()
}

fn draw_sessions(random: &mut Random, attempts: u64) -> Vec<SessionPlan> {
    let count = random.between(1, 3);
    let mut moments: Vec<u64> = (0..2 * count).map(|_| random.below(attempts + 1)).collect();
    moments.sort_unstable();
    (0..count)
        .map(|index| {
            let reader = ReaderPlan::draw(random);
            let at = |offset| Moment::At(moments[usize::try_from(2 * index + offset).unwrap_or(0)]);
            let edge = |random: &mut Random, is_outermost: bool| is_outermost && random.one_in(2);
            let begin = if edge(random, index == 0) { Moment::Edge } else { at(0) };
            let end = if edge(random, index + 1 == count) { Moment::Edge } else { at(1) };
            let enabling = match random.below(10) {
                0 => Enabling::NeverStarted,
                1..5 => Enabling::BeforeStart,
                _ => Enabling::ByStart,
            };
            let ending = match random.below(12) {
                0 => Ending::Abort,
                1 => Ending::StopThenAbort,
                2 => Ending::StopAndAbortAtOnce,
                3 => Ending::StopTwiceAtOnce,
                4 => Ending::ByCallback,
                5 => Ending::StopWhileStarting,
                6 if !reader.is_live() => Ending::ByReader,
                _ => Ending::Stop,
            };
            let mut plan =
                SessionPlan { config: draw_config(random, reader), reader, begin, end, enabling, ending };
            // With nobody who reads, a Block session keeps all producers until its end: that must not wait for them.
            if plan.enabling == Enabling::NeverStarted && plan.end == Moment::Edge {
                plan.end = Moment::At(u64::MAX);
            }
            plan
        })
        .collect()
}

fn draw_config(random: &mut Random, reader: ReaderPlan) -> SessionConfig {
    let mut providers = Vec::new();
    for provider in PROVIDERS {
        if random.one_in(2) {
            let filter = match random.below(4) {
                0 => EventFilter::new(FilterSense::Allow, vec![0, 2, 4, 6]),
                1 => EventFilter::new(FilterSense::Deny, vec![1, 3]),
                _ => EventFilter::ALL,
            };
            let level = random.pick(&LEVELS);
            providers
                .push(ProviderConfig { filter, ..ProviderConfig::new(provider, random.below(8), level) });
        }
    }
    if providers.is_empty() {
        providers.push(ProviderConfig::everything("*"));
    }
    let short = Duration::from_millis(random.between(5, 60));
    SessionConfig {
        buffering_mode: random.pick(&[BufferingMode::Drop, BufferingMode::Block]),
        budget_bytes: if random.one_in(3) {
            random.magnitude(64 << 10, 64 << 20)
        } else {
            random.between(64 << 10, 256 << 10)
        },
        rundown_keyword: if random.one_in(2) { 0xFF } else { 0 },
        stack_walk: random.pick(&[StackWalk::On, StackWalk::Off]),
        stall_limit: Some(if reader.is_live() { NEVER_STUCK } else { short }),
        stop_grace: if reader.is_live() { NEVER_STUCK } else { short },
        ..SessionConfig::new(SessionType::IpcStream, providers)
    }
}

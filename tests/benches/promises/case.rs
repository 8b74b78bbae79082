//! What is measured: a case has figures, a round of a case gives one reading of each.

use std::time::Duration;

use support::load::{Load, LoadSetup, Target};
use support::{HANG, await_condition};

/// The real runtime that everything is held against.
pub(crate) const PEER: &str = "11.0.0";

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Peer,
}

impl Side {
    pub(crate) fn target(self) -> Target {
        match self {
            Self::Ours => Target::Ours,
            Self::Peer => Target::Dotnet(PEER),
        }
    }

    /// A fresh target, ready.
    pub(crate) fn start(self) -> anyhow::Result<Load> {
        LoadSetup::new(self.target()).start()
    }
}

/// One figure of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reading {
    /// In the unit of the figure: seconds, events a second, times.
    Value(f64),
    /// What was awaited did not happen within so many seconds.
    Never(f64),
    /// Makes no sense for this side.
    Skipped,
}

impl From<Duration> for Reading {
    fn from(time: Duration) -> Self {
        Self::Value(time.as_secs_f64())
    }
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds, less is better.
    Time,
    /// Things a second, more is better.
    Rate,
    /// Multiples of the floor's time, less is better.
    TimesFloor,
    /// Shares of the floor's rate, more is better.
    ShareOfFloor,
}

impl Unit {
    /// How many times better `ours` is than `peer`; above 1 is better.
    pub(crate) fn advantage(self, ours: f64, peer: f64) -> f64 {
        match self {
            Self::Time | Self::TimesFloor => peer / ours,
            Self::Rate | Self::ShareOfFloor => ours / peer,
        }
    }
}

/// What is promised of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// Nothing; the figure explains another one.
    Nothing,
    /// A promise: no more than this.
    AtMost(f64),
    /// A promise: this, give or take.
    Near { figure: f64, slack: f64 },
    /// The peer's figure is to be beaten.
    BeatsPeer,
    /// A goal: both do the least that the system allows, and ours is not slower beyond noise (a tenth).
    NotSlowerThanPeer,
    /// A goal of the engine, no promise yet: no more than this.
    GoalAtMost(f64),
    /// A goal, no promise yet: no less than this.
    GoalAtLeast(f64),
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) bound: Bound,
}

impl Figure {
    pub(crate) fn new(title: &'static str, unit: Unit, bound: Bound) -> Self {
        Self { title, unit, bound }
    }

    pub(crate) fn time(title: &'static str, bound: Bound) -> Self {
        Self::new(title, Unit::Time, bound)
    }
}

/// One round of one side: a reading for each figure of the case, in their order.
pub(crate) type Measure = Box<dyn FnMut() -> anyhow::Result<Vec<Reading>>>;

/// Starts what a side needs for all rounds.
pub(crate) type Prepare = Box<dyn Fn(Side) -> anyhow::Result<Measure>>;

/// Does a case have a meaning for the peer?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    SideBySide,
    OursAlone,
}

/// Figures that one measurement gives.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) figures: Vec<Figure>,
    pub(crate) rounds: usize,
    pub(crate) comparison: Comparison,
    pub(crate) prepare: Prepare,
}

/// Waits until what `load` emits is recorded: a runtime enables its providers some time after its reply.
pub(crate) fn await_enabled(load: &mut Load) -> anyhow::Result<()> {
    await_condition("a provider that is enabled", HANG, || {
        load.command("burst 1 1").is_ok_and(|line| line.contains("enabled=True"))
    })?;
    Ok(())
}

/// The value below which `share` (0 to 1) of `times` lie, in seconds; 0 where there are none.
pub(crate) fn quantile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    // A position in a list: no precision is lost that matters.
    let at = (last as f64 * share).round() as usize;
    times.get(at).map_or(0.0, Duration::as_secs_f64)
}

//! What is measured: a case has figures, a round of a case gives one reading of each.

use std::time::Duration;

use support::load::{Load, LoadSetup, Target};
use support::{HANG, await_condition};

/// The version of the real runtime.
pub(crate) const DOTNET: &str = "11.0.0";

/// Whom a case is compared with, in alternating rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The real .NET target.
    Dotnet,
    /// LTTng-UST.
    Lttng,
    /// The thing itself in another setting, which the case names: always here.
    Floor,
}

impl Peer {
    /// As the table says it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Dotnet => format!(".NET {DOTNET}"),
            Self::Lttng => "LTTng-UST".to_owned(),
            Self::Floor => "itself".to_owned(),
        }
    }
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Peer(Peer),
}

impl Side {
    /// A fresh scripted target, ready. What is ours in another setting is ours; LTTng has no such target.
    pub(crate) fn start(self) -> anyhow::Result<Load> {
        self.setup()?.start()
    }

    /// The same, not started yet.
    pub(crate) fn setup(self) -> anyhow::Result<LoadSetup> {
        match self {
            Self::Ours | Self::Peer(Peer::Floor) => Ok(LoadSetup::new(Target::Ours)),
            Self::Peer(Peer::Dotnet) => Ok(LoadSetup::new(Target::Dotnet(DOTNET))),
            Self::Peer(Peer::Lttng) => anyhow::bail!("LTTng has no scripted target"),
        }
    }

    /// `ours`, or `peers` for whoever it is compared with.
    pub(crate) fn pick<T>(self, ours: T, peers: T) -> T {
        if self == Self::Ours { ours } else { peers }
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
    /// Bytes, less is better.
    Memory,
    /// How many times something else, as the title says; less is better.
    Times,
    /// Things, as the title says; less is better.
    Count,
    /// Multiples of the floor's time, less is better.
    TimesFloor,
    /// Shares of the floor's rate, more is better.
    ShareOfFloor,
}

impl Unit {
    /// How many times better `ours` is than `peer`; above 1 is better.
    pub(crate) fn advantage(self, ours: f64, peer: f64) -> f64 {
        if self.more_is_better() { ours / peer } else { peer / ours }
    }

    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Self::Rate | Self::ShareOfFloor)
    }
}

/// What is asked of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// Nothing; the figure explains another one.
    Nothing,
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// This, give or take.
    Near { figure: f64, slack: f64 },
    /// So many times better than the peer, in the median of the rounds; below 1 it may be worse by that.
    TimesPeer(f64),
}

impl Bound {
    pub(crate) const BEATS_PEER: Self = Self::TimesPeer(1.0);
    /// Both do the least that the system allows, and ours is not slower beyond noise (a tenth).
    pub(crate) const NOT_SLOWER: Self = Self::TimesPeer(0.9);
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    /// Must hold.
    pub(crate) gate: Bound,
    /// Wanted, and no failure where it is missed.
    pub(crate) aim: Bound,
}

impl Figure {
    pub(crate) fn new(title: &'static str, unit: Unit, gate: Bound) -> Self {
        Self { title, unit, gate, aim: Bound::Nothing }
    }

    pub(crate) fn time(title: &'static str, gate: Bound) -> Self {
        Self::new(title, Unit::Time, gate)
    }

    pub(crate) fn aim(self, aim: Bound) -> Self {
        Self { aim, ..self }
    }
}

/// One round of one side: a reading for each figure of the case, in their order.
pub(crate) type Measure = Box<dyn FnMut() -> anyhow::Result<Vec<Reading>>>;

/// Starts what a side needs for all rounds.
pub(crate) type Prepare = Box<dyn Fn(Side) -> anyhow::Result<Measure>>;

/// Figures that one measurement gives.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) figures: Vec<Figure>,
    pub(crate) rounds: usize,
    /// `None`: it has a meaning for ours alone.
    pub(crate) peer: Option<Peer>,
    pub(crate) prepare: Prepare,
}

/// Waits until what `load` emits is recorded: a runtime enables its providers some time after its reply. Returns how many
/// events it took to find out; the last of them is recorded.
pub(crate) fn await_enabled(load: &mut Load) -> anyhow::Result<u64> {
    let mut emitted = 0;
    await_condition("a provider that is enabled", HANG, || {
        emitted += 1;
        load.command("burst 1 1").is_ok_and(|line| line.contains("enabled=True"))
    })?;
    Ok(emitted)
}

/// The value below which `share` (0 to 1) of `times` lie, in seconds; 0 where there are none.
pub(crate) fn quantile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    // A position in a list: no precision is lost that matters.
    let at = (last as f64 * share).round() as usize;
    times.get(at).map_or(0.0, Duration::as_secs_f64)
}

//! One figure over all its rounds, and what became of its gate.

use crate::case::{Bound, Case, Figure, Peer, Reading};
use crate::rounds::Round;

/// What became of a gate or an aim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is asked, or the peer it is held against is not here.
    Open,
    /// In every round.
    Held,
    /// The median holds, some round did not.
    HeldInTheMedian,
    /// Too few quiet rounds to say that it is over its bound, or too few of both sides to compare them: no result.
    Busy,
    /// Not.
    Broken,
    /// It could not be measured.
    Failed,
    /// The peer could not, which was asked for by name.
    PeerFailed,
}

impl Verdict {
    pub(crate) fn is_bad(self) -> bool {
        matches!(self, Self::Broken | Self::Failed | Self::PeerFailed)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "-",
            Self::Held => "yes",
            Self::HeldInTheMedian => "median",
            Self::Busy => "busy",
            Self::Broken => "NO",
            Self::Failed => "FAILED",
            Self::PeerFailed => "PEER FAILED",
        }
    }
}

/// What the run makes of a peer that could not be measured to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerLoss {
    /// Nobody has asked for it by name: a note.
    IsNoted,
    /// It fails.
    Fails,
}

/// One figure over all its rounds.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) figure: Figure,
    /// Whom it is compared with, here or not.
    pub(crate) against: Option<Peer>,
    pub(crate) ours: Vec<Reading>,
    pub(crate) peer: Vec<Reading>,
    /// Round by round, above 1 where ours is better.
    pub(crate) ratios: Vec<f64>,
    /// How many of the rounds had the machine to themselves; 0 where too few had.
    pub(crate) quiet_rounds: usize,
    /// In how many quiet rounds both sides have a value.
    pub(crate) peer_rounds: usize,
    /// So many of either make a median.
    needed: usize,
    pub(crate) gate: Verdict,
    pub(crate) aim: Verdict,
    pub(crate) note: Option<String>,
}

impl Row {
    pub(crate) fn new(case: &Case, index: usize, rounds: &[&Round], needed: usize) -> Self {
        let figure = case.figures[index].clone();
        let peer_reading = |round: &Round| round.peer.as_ref().map(|readings| readings[index]);
        let ratio = |round: &Round| match (round.ours[index], peer_reading(round)?) {
            (Reading::Value(ours), Reading::Value(peer)) if ours > 0.0 && peer > 0.0 => {
                Some(figure.unit.advantage(ours, peer))
            }
            _ => None,
        };
        let ratios = rounds.iter().filter_map(|round| ratio(round)).collect();
        let quiet_rounds = rounds.iter().filter(|round| round.quiet).count();
        let of_both = |round: &Round| {
            let both = [Some(round.ours[index]), peer_reading(round)];
            round.quiet && both.iter().all(|reading| matches!(reading, Some(Reading::Value(_))))
        };
        let peer_rounds = rounds.iter().filter(|round| of_both(round)).count();
        let mut row = Self {
            case: case.name,
            figure,
            against: case.peer,
            ours: rounds.iter().map(|round| round.ours[index]).collect(),
            peer: rounds.iter().filter_map(|round| peer_reading(round)).collect(),
            ratios,
            quiet_rounds: if quiet_rounds >= needed { quiet_rounds } else { 0 },
            peer_rounds,
            needed,
            gate: Verdict::Open,
            aim: Verdict::Open,
            note: None,
        };
        row.gate = row.judge(row.figure.gate);
        row.aim = row.judge(row.figure.aim);
        row
    }

    pub(crate) fn failed(case: &Case, reason: &str) -> Self {
        Self {
            case: case.name,
            figure: Figure::time("", Bound::Nothing),
            against: case.peer,
            ours: Vec::new(),
            peer: Vec::new(),
            ratios: Vec::new(),
            quiet_rounds: 0,
            peer_rounds: 0,
            needed: 0,
            gate: Verdict::Failed,
            aim: Verdict::Open,
            note: Some(reason.to_owned()),
        }
    }

    /// The peer could not be measured to the end, and had to be.
    pub(crate) fn fail_for_peer(&mut self) {
        if !self.gate.is_bad() {
            self.gate = Verdict::PeerFailed;
        }
    }

    fn judge(&self, bound: Bound) -> Verdict {
        if self.ours.iter().all(|reading| *reading == Reading::Skipped) {
            return Verdict::Open;
        }
        match bound {
            Bound::Nothing => Verdict::Open,
            Bound::AtMost(most) => self.judge_rounds(&|value| value <= most),
            Bound::AtLeast(least) => self.judge_rounds(&|value| value >= least),
            Bound::Near { figure, slack } => self.judge_rounds(&|value| (value - figure).abs() <= slack),
            // A peer that never answers is beaten by any answer, and asked once only.
            Bound::TimesPeer(_) if self.peer.iter().any(|reading| matches!(reading, Reading::Never(_))) => {
                Verdict::Held
            }
            Bound::TimesPeer(_) if self.peer_rounds < self.needed && !self.peer.is_empty() => Verdict::Busy,
            Bound::TimesPeer(least) => match median(&self.ratios) {
                Some(_) if self.ratios.iter().all(|ratio| *ratio >= least) => Verdict::Held,
                Some(median) if median >= least => Verdict::HeldInTheMedian,
                Some(_) => self.over(),
                None => Verdict::Open,
            },
        }
    }

    fn judge_rounds(&self, holds: &dyn Fn(f64) -> bool) -> Verdict {
        let values = values(&self.ours);
        let all = values.len() == self.ours.len() && values.iter().all(|value| holds(*value));
        match median(&values) {
            Some(_) if all => Verdict::Held,
            Some(median) if holds(median) => Verdict::HeldInTheMedian,
            _ => self.over(),
        }
    }

    fn over(&self) -> Verdict {
        if self.quiet_rounds == 0 { Verdict::Busy } else { Verdict::Broken }
    }
}

/// What was read, without what never came.
pub(crate) fn values(readings: &[Reading]) -> Vec<f64> {
    readings
        .iter()
        .filter_map(|reading| match reading {
            Reading::Value(value) => Some(*value),
            _ => None,
        })
        .collect()
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

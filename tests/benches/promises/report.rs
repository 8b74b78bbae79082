//! The table, and the same as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::case::{Bound, Case, Figure, PEER, Reading, Unit};
use crate::machine::Facts;
use crate::rounds::Round;

/// The part of the peer's figure that ours may fall behind before it counts as slower.
const NOISE: f64 = 0.9;

/// What became of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is promised, or the peer it is held against is not here.
    Open,
    /// In every round.
    Held,
    /// The median holds, some round did not.
    HeldInTheMedian,
    /// The machine was not at rest and the figure is over its bound: no result.
    Busy,
    /// Not.
    Broken,
    /// A goal, no promise, that is not reached yet.
    Short,
    /// It could not be measured.
    Failed,
}

impl Verdict {
    pub(crate) fn is_bad(self) -> bool {
        matches!(self, Self::Broken | Self::Failed)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Open => "-",
            Self::Held => "yes",
            Self::HeldInTheMedian => "median",
            Self::Busy => "busy",
            Self::Broken => "NO",
            Self::Short => "short",
            Self::Failed => "FAILED",
        }
    }
}

/// One figure over all its rounds.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) figure: Figure,
    pub(crate) ours: Vec<Reading>,
    pub(crate) peer: Vec<Reading>,
    /// Round by round, above 1 where ours is better.
    pub(crate) ratios: Vec<f64>,
    /// How many of the rounds had the machine to themselves; 0 where too few had.
    pub(crate) quiet_rounds: usize,
    pub(crate) verdict: Verdict,
    pub(crate) note: Option<String>,
}

impl Row {
    pub(crate) fn new(case: &Case, index: usize, rounds: &[&Round], quiet_rounds: usize) -> Self {
        let figure = case.figures[index].clone();
        let ours: Vec<Reading> = rounds.iter().map(|round| round.ours[index]).collect();
        let peer: Vec<Reading> =
            rounds.iter().filter_map(|round| Some(round.peer.as_ref()?[index])).collect();
        let ratios = rounds
            .iter()
            .filter_map(|round| match (round.ours[index], round.peer.as_ref()?[index]) {
                (Reading::Value(ours), Reading::Value(peer)) if ours > 0.0 && peer > 0.0 => {
                    Some(figure.unit.advantage(ours, peer))
                }
                _ => None,
            })
            .collect();
        let mut row = Self {
            case: case.name,
            figure,
            ours,
            peer,
            ratios,
            quiet_rounds,
            verdict: Verdict::Open,
            note: None,
        };
        row.verdict = row.judge();
        row
    }

    pub(crate) fn failed(case: &Case, reason: &str) -> Self {
        Self {
            case: case.name,
            figure: Figure::time("", Bound::Nothing),
            ours: Vec::new(),
            peer: Vec::new(),
            ratios: Vec::new(),
            quiet_rounds: 0,
            verdict: Verdict::Failed,
            note: Some(reason.to_owned()),
        }
    }

    fn judge(&self) -> Verdict {
        let over = if self.quiet_rounds == 0 { Verdict::Busy } else { Verdict::Broken };
        let by = |holds: &dyn Fn(f64) -> bool, over: Verdict| {
            let values = values(&self.ours);
            let all = values.len() == self.ours.len() && values.iter().all(|value| holds(*value));
            match median(&values) {
                Some(_) if all => Verdict::Held,
                Some(median) if holds(median) => Verdict::HeldInTheMedian,
                _ => over,
            }
        };
        let against_peer = |least: f64, over: Verdict| match median(&self.ratios) {
            Some(ratio) if ratio >= least => Verdict::Held,
            Some(_) => over,
            // A peer that never answers is beaten by any answer.
            None if self.peer.iter().any(|reading| matches!(reading, Reading::Never(_))) => Verdict::Held,
            None => Verdict::Open,
        };
        match self.figure.bound {
            _ if self.ours.iter().all(|reading| *reading == Reading::Skipped) => Verdict::Open,
            Bound::Nothing => Verdict::Open,
            Bound::AtMost(most) => by(&|value| value <= most, over),
            Bound::Near { figure, slack } => by(&|value| (value - figure).abs() <= slack, over),
            Bound::GoalAtMost(most) => by(&|value| value <= most, Verdict::Short),
            Bound::GoalAtLeast(least) => by(&|value| value >= least, Verdict::Short),
            Bound::BeatsPeer => against_peer(1.0, over),
            Bound::NotSlowerThanPeer => against_peer(NOISE, Verdict::Short),
        }
    }

    fn promise(&self) -> String {
        let unit = self.figure.unit;
        match self.figure.bound {
            Bound::Nothing => String::new(),
            Bound::AtMost(most) => format!("<= {}", amount(unit, most)),
            Bound::Near { figure, slack } => format!("{} +- {}", amount(unit, figure), amount(unit, slack)),
            Bound::BeatsPeer => "beats .NET".to_owned(),
            Bound::NotSlowerThanPeer => "goal: not slower".to_owned(),
            Bound::GoalAtMost(most) => format!("goal <= {}", amount(unit, most)),
            Bound::GoalAtLeast(least) => format!("goal >= {}", amount(unit, least)),
        }
    }

    fn ratio_text(&self) -> String {
        if let Some(median) = median(&self.ratios) {
            return format!("{median:.2}{}", range(&self.ratios, |value| format!("{value:.2}")));
        }
        let never = self.peer.iter().find_map(|reading| match reading {
            Reading::Never(limit) => Some(*limit),
            _ => None,
        });
        match (never, median(&values(&self.ours))) {
            (Some(limit), Some(ours)) if self.figure.unit == Unit::Time && ours > 0.0 => {
                format!("> {:.0}", limit / ours)
            }
            _ => String::new(),
        }
    }

    fn cells(&self) -> [String; 8] {
        let rounds = match self.quiet_rounds {
            0 => format!("{} busy", self.ours.len()),
            quiet => quiet.to_string(),
        };
        [
            self.case.to_owned(),
            self.figure.title.to_owned(),
            series(self.figure.unit, &self.ours),
            self.promise(),
            series(self.figure.unit, &self.peer),
            self.ratio_text(),
            self.verdict.word().to_owned(),
            if self.verdict == Verdict::Failed { String::new() } else { rounds },
        ]
    }

    fn json(&self) -> Value {
        let list = |readings: &[Reading]| -> Vec<Value> {
            readings
                .iter()
                .map(|reading| match reading {
                    Reading::Value(value) => json!(value),
                    Reading::Never(limit) => json!({ "never_within": limit }),
                    Reading::Skipped => Value::Null,
                })
                .collect()
        };
        let unit = match self.figure.unit {
            Unit::Time => "seconds",
            Unit::Rate => "per second",
            Unit::TimesFloor => "times the floor's time",
            Unit::ShareOfFloor => "share of the floor's rate",
        };
        json!({
            "case": self.case, "figure": self.figure.title, "unit": unit, "promise": self.promise(),
            "ours": list(&self.ours), "ours_median": median(&values(&self.ours)),
            "peer": list(&self.peer), "peer_median": median(&values(&self.peer)),
            "ratios": self.ratios, "ratio_median": median(&self.ratios),
            "quiet_rounds": self.quiet_rounds, "held": self.verdict.word(), "note": self.note,
        })
    }
}

/// Prints the table to standard output.
pub(crate) fn print(rows: &[Row]) {
    let peer = format!(".NET {PEER}");
    let head = ["case", "figure", "ours", "promise", &peer, "ratio", "held", "rounds"].map(str::to_owned);
    let mut lines = vec![head];
    let mut last_case = "";
    for row in rows {
        let mut cells = row.cells();
        if row.case == last_case {
            cells[0].clear();
        }
        last_case = row.case;
        lines.push(cells);
    }
    let widths: Vec<usize> = (0..8)
        .map(|column| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0))
        .collect();
    println!();
    for (index, cells) in lines.iter().enumerate() {
        let mut line = String::from("|");
        for (cell, width) in cells.iter().zip(&widths) {
            // Writing into a String cannot fail.
            write!(line, " {cell:<width$} |").ok();
        }
        println!("{line}");
        if index == 0 {
            let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
            println!("|{}|", dashes.join("|"));
        }
    }
    println!(
        "\nmedian (min-max) of the rounds; ratio round by round, above 1 = ours is better; held: yes in every round, median in the median only,"
    );
    println!(
        "busy = over the bound on a machine that others used, short = a goal, no promise, not reached yet. `none in T`: it never came."
    );
    for row in rows {
        if let Some(note) = &row.note {
            println!("note: {}: {note}", row.case);
        }
    }
}

/// The whole run.
pub(crate) fn json(rows: &[Row], machine: &Facts, peer_absent: Option<&str>) -> Value {
    json!({
        "machine": { "processors": machine.processors, "kernel": machine.kernel, "load_average": machine.load_average,
                     "ping_pong_ns": machine.ping_pong_ns },
        "peer": { "name": format!(".NET {PEER} epload"), "absent": peer_absent },
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
}

fn values(readings: &[Reading]) -> Vec<f64> {
    readings
        .iter()
        .filter_map(|reading| match reading {
            Reading::Value(value) => Some(*value),
            _ => None,
        })
        .collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

fn series(unit: Unit, readings: &[Reading]) -> String {
    let values = values(readings);
    let never = readings.iter().find_map(|reading| match reading {
        Reading::Never(limit) => Some(format!("none in {}", amount(Unit::Time, *limit))),
        _ => None,
    });
    match (median(&values), never) {
        (Some(median), None) => {
            format!("{}{}", amount(unit, median), range(&values, |value| amount(unit, value)))
        }
        (Some(median), Some(never)) => format!("{}, or {never}", amount(unit, median)),
        (None, Some(never)) => never,
        (None, None) => String::new(),
    }
}

fn range(values: &[f64], text: impl Fn(f64) -> String) -> String {
    let least = values.iter().copied().min_by(f64::total_cmp);
    let most = values.iter().copied().max_by(f64::total_cmp);
    match (least, most) {
        (Some(least), Some(most)) if values.len() > 1 => format!(" ({}-{})", text(least), text(most)),
        _ => String::new(),
    }
}

/// Three digits and the unit that fits.
fn amount(unit: Unit, value: f64) -> String {
    let digits = |value: f64| match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match unit {
        Unit::Time if value >= 1.0 => format!("{} s", digits(value)),
        Unit::Time if value >= 1e-3 => format!("{} ms", digits(value * 1e3)),
        Unit::Time if value >= 1e-6 => format!("{} us", digits(value * 1e6)),
        Unit::Time => format!("{} ns", digits(value * 1e9)),
        Unit::Rate if value >= 1e6 => format!("{} M/s", digits(value / 1e6)),
        Unit::Rate if value >= 1e3 => format!("{} k/s", digits(value / 1e3)),
        Unit::Rate => format!("{} /s", digits(value)),
        Unit::TimesFloor | Unit::ShareOfFloor => format!("{value:.2} x"),
    }
}

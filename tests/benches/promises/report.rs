//! The table, and the same as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::case::{Bound, Peer, Reading, Unit};
use crate::machine::Facts;
use crate::peers::Present;
use crate::row::{Row, Verdict, median, values};

const HEAD: [&str; 9] = ["case", "figure", "ours", "peer", "ratio", "gate", "held", "aim", "rounds"];

impl Row {
    fn bound_text(&self, bound: Bound) -> String {
        let unit = self.figure.unit;
        match bound {
            Bound::Nothing => String::new(),
            Bound::AtMost(most) => format!("<= {}", amount(unit, most)),
            Bound::AtLeast(least) => format!(">= {}", amount(unit, least)),
            Bound::Near { figure, slack } => format!("{} +- {}", amount(unit, figure), amount(unit, slack)),
            Bound::TimesPeer(times) => times_peer(unit, times, self.against),
        }
    }

    fn aim_text(&self) -> String {
        match self.aim {
            Verdict::Open => self.bound_text(self.figure.aim),
            verdict => format!("{}: {}", self.bound_text(self.figure.aim), verdict.word()),
        }
    }

    fn peer_text(&self) -> String {
        match (self.against, series(self.figure.unit, &self.peer)) {
            (Some(peer), text) if !text.is_empty() => format!("{}: {text}", peer.name()),
            (_, text) => text,
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

    fn cells(&self) -> [String; HEAD.len()] {
        let rounds = match (self.gate, self.quiet_rounds) {
            (Verdict::Failed, _) => String::new(),
            (_, 0) => format!("{} busy", self.ours.len()),
            (_, quiet) if values(&self.peer).is_empty() => quiet.to_string(),
            (_, quiet) => format!("{quiet}, peer {}", self.peer_rounds),
        };
        [
            self.case.to_owned(),
            self.figure.title.to_owned(),
            series(self.figure.unit, &self.ours),
            self.peer_text(),
            self.ratio_text(),
            self.bound_text(self.figure.gate),
            self.gate.word().to_owned(),
            self.aim_text(),
            rounds,
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
            Unit::Memory => "bytes",
            Unit::Times => "times",
            Unit::Count => "count",
            Unit::TimesFloor => "times the floor's time",
            Unit::ShareOfFloor => "share of the floor's rate",
        };
        json!({
            "case": self.case, "figure": self.figure.title, "unit": unit,
            "peer_name": self.against.map(Peer::name),
            "ours": list(&self.ours), "ours_median": median(&values(&self.ours)),
            "peer": list(&self.peer), "peer_median": median(&values(&self.peer)),
            "ratios": self.ratios, "ratio_median": median(&self.ratios),
            "gate": self.bound_text(self.figure.gate), "held": self.gate.word(),
            "aim": self.bound_text(self.figure.aim), "aim_reached": self.aim.word(),
            "quiet_rounds": self.quiet_rounds, "peer_rounds": self.peer_rounds, "note": self.note,
        })
    }
}

/// A ratio as people say it: `<= 1/8 of .NET`, `<= 1.5 x itself`, `>= 50 x .NET`.
fn times_peer(unit: Unit, times: f64, peer: Option<Peer>) -> String {
    let name = peer.map(Peer::name).unwrap_or_default();
    match (unit.more_is_better(), times) {
        (true, 1.0) => format!(">= {name}"),
        (false, 1.0) => format!("<= {name}"),
        (true, _) => format!(">= {times} x {name}"),
        (false, times) if times > 1.0 && times.fract() == 0.0 => format!("<= 1/{times} of {name}"),
        (false, times) => format!("<= {:.2} x {name}", 1.0 / times),
    }
}

/// Prints the table to standard output.
pub(crate) fn print(rows: &[Row]) {
    let mut lines = vec![HEAD.map(str::to_owned)];
    let mut last_case = "";
    for row in rows {
        let mut cells = row.cells();
        if row.case == last_case {
            cells[0].clear();
        }
        last_case = row.case;
        lines.push(cells);
    }
    let widths: Vec<usize> = (0..HEAD.len())
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
        "\nmedian (min..max) of the rounds; ratio round by round, above 1 = ours is better; held: yes in every round, median in the median only,"
    );
    println!(
        "busy = no result, the machine gave too few rounds, of both sides for a comparison; an aim is no gate. `none in T`: it never came."
    );
    for row in rows {
        if let Some(note) = &row.note {
            println!("note: {}: {note}", row.case);
        }
    }
}

/// The whole run.
pub(crate) fn json(rows: &[Row], machine: &Facts, present: &Present) -> Value {
    json!({
        "machine": { "processors": machine.processors, "kernel": machine.kernel, "load_average": machine.load_average,
                     "ping_pong_ns": machine.ping_pong_ns },
        "peers": present.json(),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
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
        (Some(least), Some(most)) if values.len() > 1 => format!(" ({}..{})", text(least), text(most)),
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
        Unit::Memory => format!("{} MB", digits(value / 1e6)),
        // A whole number, or a mean of such.
        Unit::Count if value == 0.0 => "0".to_owned(),
        Unit::Count if value.fract() == 0.0 => format!("{value:.0}"),
        Unit::Count => digits(value),
        Unit::Times | Unit::TimesFloor | Unit::ShareOfFloor => format!("{value:.2} x"),
    }
}

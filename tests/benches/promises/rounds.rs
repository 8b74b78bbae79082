//! Rounds: ours, peer, peer, ours, … and which of them count.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::case::{Case, Measure, Reading, Side};
use crate::machine::{Disturbance, Watch};
use crate::options::Options;
use crate::peers::Present;
use crate::row::{PeerLoss, Row};

/// A peer is measured no longer than this in one case, but once at least.
const PEER_PATIENCE: Duration = Duration::from_secs(150);
/// A median stands on so many quiet rounds, of both sides where there are two; fewer are enough where fewer were asked for.
const MEDIAN_OF: usize = 5;
/// A disturbed round is repeated, up to so many times the rounds asked for.
const ATTEMPTS: usize = 2;

/// One round of both sides.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) ours: Vec<Reading>,
    /// None where there is no peer, or it was not asked again.
    pub(crate) peer: Option<Vec<Reading>>,
    pub(crate) quiet: bool,
}

/// Measures `case`; an error of ours is a row that says so.
pub(crate) fn run(case: &Case, present: &Present, options: &Options) -> Vec<Row> {
    let against = case.peer.filter(|peer| present.has(*peer));
    let rounds = options.rounds.unwrap_or(case.rounds);
    let mut sides = match Sides::prepare(case, against.map(Side::Peer)) {
        Ok(sides) => sides,
        Err(error) => return vec![Row::failed(case, &format!("{error:#}"))],
    };
    let attempts = if options.quick { rounds } else { ATTEMPTS * rounds };
    let mut done: Vec<Round> = Vec::new();
    for attempt in 0..attempts {
        match sides.round(case, attempt) {
            Ok(round) => done.push(round),
            Err(error) => return vec![Row::failed(case, &format!("round {}: {error:#}", attempt + 1))],
        }
        if done.iter().filter(|round| round.quiet).count() >= rounds {
            break;
        }
    }
    // Where the machine gave too few quiet rounds, all of them are shown, and marked.
    let needed = rounds.min(MEDIAN_OF);
    let enough = done.iter().filter(|round| round.quiet).count() >= needed;
    let counted: Vec<&Round> = done.iter().filter(|round| round.quiet || !enough).collect();
    let mut rows: Vec<Row> =
        (0..case.figures.len()).map(|index| Row::new(case, index, &counted, needed)).collect();
    if let (Some(reason), Some(peer)) = (sides.peer_error, against) {
        if let Some(first) = rows.first_mut() {
            first.note = Some(format!("the peer could not be measured: {reason}"));
        }
        if present.loss_of(peer) == PeerLoss::Fails {
            rows.iter_mut().for_each(Row::fail_for_peer);
        }
    }
    rows
}

struct Sides {
    ours: Measure,
    peer: Option<Measure>,
    peer_error: Option<String>,
    peer_took: Duration,
}

impl Sides {
    fn prepare(case: &Case, peer: Option<Side>) -> anyhow::Result<Self> {
        let ours = (case.prepare)(Side::Ours)?;
        let (peer, peer_error) = match peer.map(|peer| (case.prepare)(peer)).transpose() {
            Ok(peer) => (peer, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Ok(Self { ours, peer, peer_error, peer_took: Duration::ZERO })
    }

    fn round(&mut self, case: &Case, attempt: usize) -> anyhow::Result<Round> {
        // Alternating who is first: what the first side leaves behind falls on both.
        let peer_first = !attempt.is_multiple_of(2);
        let early = if peer_first { self.peer_readings(case) } else { None };
        let (ours, disturbance) = watched(&mut self.ours)?;
        ensure!(
            ours.len() == case.figures.len(),
            "{} readings for {} figures",
            ours.len(),
            case.figures.len()
        );
        let late = if peer_first { None } else { self.peer_readings(case) };
        let peer = early.or(late);
        let quiet =
            disturbance.is_quiet() && peer.as_ref().is_none_or(|(_, disturbance)| disturbance.is_quiet());
        Ok(Round { ours, peer: peer.map(|(readings, _)| readings), quiet })
    }

    fn peer_readings(&mut self, case: &Case) -> Option<(Vec<Reading>, Disturbance)> {
        let measure = self.peer.as_mut()?;
        let from = Instant::now();
        let outcome = watched(measure);
        self.peer_took += from.elapsed();
        match outcome {
            Ok((readings, disturbance)) if readings.len() == case.figures.len() => {
                // What never comes is not awaited again and again.
                let never = readings.iter().any(|reading| matches!(reading, Reading::Never(_)));
                if never || self.peer_took > PEER_PATIENCE {
                    self.peer = None;
                }
                Some((readings, disturbance))
            }
            Ok((readings, _)) => self.give_peer_up(format!("{} readings", readings.len())),
            Err(error) => self.give_peer_up(format!("{error:#}")),
        }
    }

    fn give_peer_up<T>(&mut self, reason: String) -> Option<T> {
        self.peer_error = Some(reason);
        self.peer = None;
        None
    }
}

fn watched(measure: &mut Measure) -> anyhow::Result<(Vec<Reading>, Disturbance)> {
    let watch = Watch::begin();
    let readings = measure()?;
    Ok((readings, watch.end()))
}

//! What the command line asks for.

use std::path::PathBuf;

use crate::case::Peer;

pub(crate) const USAGE: &str = "usage: cargo xtask bench [--quick] [--json FILE] [--case TEXT]... [--rounds N] \
[--pace MB_PER_S] [--peer dotnet|lttng|none]... [--list]";

/// What to do.
#[derive(Debug)]
pub(crate) enum Order {
    Measure(Options),
    List,
    /// The yardstick that this program starts of itself.
    ServeFloor(PathBuf),
    /// The target that this program starts of itself.
    ServeTarget,
    /// The client that this program starts of itself, to be killed.
    ServeReader(PathBuf),
    /// The emitter of 40-byte events that this program starts of itself.
    ServeEmitter,
    /// Somebody runs all targets as tests: a benchmark is none.
    Nothing,
}

/// How to measure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// Small counts and few rounds: does it run at all?
    pub(crate) quick: bool,
    pub(crate) json: Option<PathBuf>,
    /// Parts of the names of the cases to run; all where empty.
    pub(crate) chosen: Vec<String>,
    /// Rounds of every case, in place of the case's own number.
    pub(crate) rounds: Option<usize>,
    /// Readers of the burst cases take no more than this many million bytes a second.
    pub(crate) pace_mb: Option<f64>,
    /// `--peer`, as often as it was given; `None` where it was not: every peer that is found.
    pub(crate) peers: Option<Vec<Peer>>,
}

impl Options {
    /// `full`, or `quick` in a quick run.
    pub(crate) fn scale<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.chosen.is_empty() || self.chosen.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Reads the words behind the program's name.
///
/// # Errors
/// One line about the word that makes no sense.
pub(crate) fn parse(words: &[String]) -> Result<Order, String> {
    let mut options = Options::default();
    let mut called_as_bench = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or_else(|| format!("{word} wants a value"));
        match word.as_str() {
            // cargo says so to every benchmark.
            "--bench" => called_as_bench = true,
            "--quick" => options.quick = true,
            "--peer" => options.peers.get_or_insert_default().extend(peer(&value()?)?),
            "--json" => options.json = Some(PathBuf::from(value()?)),
            "--case" => options.chosen.push(value()?),
            "--rounds" => options.rounds = Some(number(word, &value()?)?),
            "--pace" => options.pace_mb = Some(number(word, &value()?)?),
            "--native-emitter" => return Ok(Order::ServeEmitter),
            "--list" => return Ok(Order::List),
            "--target" => return Ok(Order::ServeTarget),
            "--slow-reader" => return Ok(Order::ServeReader(PathBuf::from(value()?))),
            "--floor" => return Ok(Order::ServeFloor(PathBuf::from(value()?))),
            other => return Err(format!("{other:?} is not known")),
        }
    }
    if options.rounds == Some(0) || options.pace_mb.is_some_and(|pace| pace <= 0.0) {
        return Err("numbers are above zero".to_owned());
    }
    Ok(if called_as_bench { Order::Measure(options) } else { Order::Nothing })
}

/// `none` names no peer.
fn peer(name: &str) -> Result<Option<Peer>, String> {
    match name {
        "dotnet" => Ok(Some(Peer::Dotnet)),
        "lttng" => Ok(Some(Peer::Lttng)),
        "none" => Ok(None),
        other => Err(format!("--peer {other:?} is not known: dotnet, lttng, none")),
    }
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} {text:?} is no number"))
}

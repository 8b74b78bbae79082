//! What an emitter says of one run, native or LTTng's: one line, in the same words with the same meaning.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, ensure};

/// One run of producers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Emitted {
    /// Of all producers.
    pub(crate) events: u64,
    /// Thread CPU time an event, the mean of the producers.
    pub(crate) cpu_ns: f64,
    /// Elapsed time an event within a producer, the mean of the producers.
    pub(crate) wall_ns: f64,
    /// From the first producer's begin to the last one's end.
    pub(crate) seconds: f64,
    /// Page faults without input, of all producers.
    pub(crate) minor_faults: u64,
    /// Where each event was timed.
    pub(crate) tail: Option<Tail>,
}

/// How long single events took; the clock is part of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tail {
    pub(crate) p50_ns: f64,
    pub(crate) p999_ns: f64,
    pub(crate) p9999_ns: f64,
    pub(crate) max_ns: f64,
}

impl fmt::Display for Emitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, cpu_ns, wall_ns, seconds, minor_faults, tail } = self;
        write!(f, "emitted events={events} cpu_ns={cpu_ns:.3} wall_ns={wall_ns:.3} ")?;
        write!(f, "seconds={seconds:.6} minor_faults={minor_faults}")?;
        let Some(Tail { p50_ns, p999_ns, p9999_ns, max_ns }) = tail else { return Ok(()) };
        write!(f, " p50_ns={p50_ns:.0} p999_ns={p999_ns:.0} p9999_ns={p9999_ns:.0} max_ns={max_ns:.0}")
    }
}

impl FromStr for Emitted {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        ensure!(line.starts_with("emitted "), "the emitter said {line:?}");
        let tail = match optional_field(line, "p50_ns")? {
            None => None,
            Some(p50_ns) => Some(Tail {
                p50_ns,
                p999_ns: field(line, "p999_ns")?,
                p9999_ns: field(line, "p9999_ns")?,
                max_ns: field(line, "max_ns")?,
            }),
        };
        Ok(Self {
            events: field(line, "events")?,
            cpu_ns: field(line, "cpu_ns")?,
            wall_ns: field(line, "wall_ns")?,
            seconds: field(line, "seconds")?,
            minor_faults: field(line, "minor_faults")?,
            tail,
        })
    }
}

/// `NAME=number` of a line.
pub(crate) fn field<T>(line: &str, name: &str) -> anyhow::Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    optional_field(line, name)?.with_context(|| format!("no {name}= in {line:?}"))
}

fn optional_field<T>(line: &str, name: &str) -> anyhow::Result<Option<T>>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.map(|word| word.parse().with_context(|| line.to_owned())).transpose()
}

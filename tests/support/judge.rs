//! TraceEvent as a judge: the library behind the released tools says what it saw in a trace.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::peers::Peers;

/// What one version of TraceEvent made of a trace.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The whole answer.
    pub summary: Value,
    /// With `--payload`: one value an event.
    pub payloads: Vec<Value>,
}

impl Judgement {
    /// Runs `program` (`tracecheck` or `tracecheck@VERSION`) on `trace`.
    ///
    /// # Errors
    /// When it cannot be run, hangs, or does not print JSON. A trace it cannot read is no error: see [`Judgement::error`].
    pub fn of(peers: &Peers, program: &str, trace: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let home = crate::temp_folder()?;
        let file = trace.to_str().context("a trace path that is not UTF-8")?;
        let mut arguments = vec![file];
        arguments.extend(options);
        let finished = peers.run(program, &arguments, home.path())?;
        let mut values = serde_json::Deserializer::from_slice(&finished.stdout)
            .into_iter::<Value>()
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| format!("{program} {file} printed:\n{}", finished.text()))?;
        let summary = values.pop().with_context(|| format!("{program} {file}: {}", finished.text()))?;
        Ok(Self { summary, payloads: values })
    }

    /// Why the trace could not be read to its end.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.summary["error"].as_str()
    }

    /// How many events `provider/id/name` it saw.
    #[must_use]
    pub fn count(&self, key: &str) -> u64 {
        self.summary["counts"][key].as_u64().unwrap_or(0)
    }

    /// Events of `provider`, whatever their id. Older versions name events in other ways.
    #[must_use]
    pub fn count_id(&self, provider: &str, id: u32) -> u64 {
        let prefix = format!("{provider}/{id}/");
        let counts = self.summary["counts"].as_object();
        counts
            .into_iter()
            .flatten()
            .filter(|(key, _)| key.starts_with(&prefix))
            .filter_map(|(_, n)| n.as_u64())
            .sum()
    }

    /// What it reports as lost; what every tool built on it reports too.
    #[must_use]
    pub fn lost(&self) -> i64 {
        self.summary["eventsLost"].as_i64().unwrap_or(-1)
    }

    /// Events that came with an earlier time than one before them.
    #[must_use]
    pub fn out_of_order(&self) -> u64 {
        self.summary["outOfOrder"].as_u64().unwrap_or(u64::MAX)
    }

    /// A figure of `--contiguous`: `events`, `threads`, `gaps`, `repeats`, `back`, `notFromZero`.
    #[must_use]
    pub fn contiguous(&self, name: &str) -> u64 {
        self.summary["contiguous"][name].as_u64().unwrap_or(u64::MAX)
    }
}

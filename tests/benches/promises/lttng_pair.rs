//! The same burst on both sides: a session of ours and a channel of LTTng's that are to be compared.

use anyhow::bail;

use crate::case::{Peer, Side};
use crate::lttng_peer::{Channel, Lttng};
use crate::native_emitter::Shape;
use crate::native_producers::Burst;
use crate::native_report::Emitted;
use crate::native_target::{Buffers, Native};

/// Buffers of both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) ours: Buffers,
    pub(crate) lttng: Channel,
}

/// What a burst cost, and how much of it was lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) emitted: Emitted,
    /// Of all events, those of the warm-up included.
    pub(crate) lost_share: f64,
}

/// The emitter of one side, for all rounds of a case.
#[derive(Debug)]
pub(crate) enum Emitter {
    Native(Box<Native>),
    Lttng(Box<Lttng>),
}

impl Emitter {
    pub(crate) fn start(side: Side) -> anyhow::Result<Self> {
        match side {
            Side::Ours => Ok(Self::Native(Box::new(Native::start()?))),
            Side::Peer(Peer::Lttng) => Ok(Self::Lttng(Box::new(Lttng::start()?))),
            Side::Peer(other) => bail!("{} has no such emitter", other.name()),
        }
    }

    pub(crate) fn record(&mut self, pair: &Pair, burst: &Burst) -> anyhow::Result<Outcome> {
        let (emitted, lost) = match self {
            Self::Native(native) => {
                let recorded = native.record(1, pair.ours, burst, Shape::Bytes40)?;
                (recorded.emitted, recorded.lost)
            }
            Self::Lttng(lttng) => {
                let recorded = lttng.record(pair.lttng, burst)?;
                (recorded.emitted, recorded.lost)
            }
        };
        Ok(Outcome { emitted, lost_share: lost as f64 / burst.attempts() as f64 })
    }
}

//! A large rundown through a small budget.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use support::HANG;
use support::requests::{Collect, message};

use crate::case::{Bound, Case, Figure, Measure, Reading, Side, Unit};
use crate::embedded::{Embedded, PROVIDER, RUNDOWN_PROVIDER};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};
use crate::recording::Counts;

const EVENTS: u64 = 33_000;
/// What .NET reaches: 6.8 MB in 81 to 116 ms after its sleep.
const RATE: f64 = 0.4e6;
const RATE_AIM: f64 = 5e6;
/// CollectTracing6: session kind, budget and format stand before it.
const RUNDOWN_KEYWORD_AT: usize = 12;

pub(crate) fn case(options: &Options) -> Case {
    let figure =
        Figure::new("rundown events, StopTracing to last byte, complete", Unit::Rate, Bound::AtLeast(RATE));
    let prepare = |_: Side| {
        let mut target = Embedded::start()?;
        target.command(&format!("rundown {EVENTS}"))?;
        let port = target.port_file()?;
        let request = with_rundown();
        let measure = move || {
            let _ = &target;
            // Once for its completeness, once for its time: keeping the bytes costs time.
            check(&port, &request)?;
            let session = Session::start(&port, &request)?;
            let id = session.id;
            let reading = session.count(None);
            let from = Instant::now();
            PlainClient::new(&port).stop(id, HANG)?.context("StopTracing is not answered")?;
            let end = reading.finish()?;
            ensure!(end.blocks.complete, "the stream has no end");
            let seconds = end.last_byte.saturating_duration_since(from).as_secs_f64();
            Ok(vec![Reading::Value(EVENTS as f64 / seconds)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "rundown of 33,000 x 200 B, 1 MB",
        figures: vec![figure.aim(Bound::AtLeast(RATE_AIM))],
        rounds: options.scale(7, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

fn check(port: &std::path::Path, request: &[u8]) -> anyhow::Result<()> {
    let session = Session::start(port, request)?;
    let id = session.id;
    let reading = session.keep(None);
    PlainClient::new(port).stop(id, HANG)?.context("StopTracing is not answered")?;
    let (_, bytes) = reading.finish()?;
    let received = Counts::of(&bytes)?.of_event(RUNDOWN_PROVIDER, 1);
    ensure!(received == EVENTS, "{received} of {EVENTS} rundown events came");
    Ok(())
}

/// A Block session that asks for a rundown of any kind.
fn with_rundown() -> Vec<u8> {
    let mut payload = Collect::block(1).providers(&[(PROVIDER, 1, 4)]).payload();
    payload[RUNDOWN_KEYWORD_AT..RUNDOWN_KEYWORD_AT + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    message((0x02, 0x07), &payload)
}

//! More threads than processors in Block mode: how long a single emit may take.

use anyhow::{Context as _, ensure};
use support::requests::Collect;
use support::{HANG, await_condition};

use crate::case::{Bound, Case, Figure, Measure, Reading, Side, Unit};
use crate::embedded::Embedded;
use crate::native_report;
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};
use crate::recording::{Counted, Recorded, field};

const THREADS: u64 = 4;
const BUDGET_MB: u32 = 4;
const LONGEST: f64 = 0.050;
const LONGEST_AIM: f64 = 0.015;

pub(crate) fn case(options: &Options) -> Case {
    let events = options.scale(2_500_000, 100_000);
    let figures = vec![
        Figure::time("longest single emit, all received", Bound::AtMost(LONGEST))
            .aim(Bound::AtMost(LONGEST_AIM)),
        Figure::time("emit p50, two clock reads in it", Bound::Nothing),
        Figure::time("emit p99", Bound::Nothing),
        Figure::time("emit p99.99", Bound::Nothing),
        Figure::new("events received, first emit to last byte", Unit::Rate, Bound::Nothing),
    ];
    let prepare = move |_: Side| {
        let mut target = Embedded::start()?;
        target.command("timed 4 20000")?;
        let measure = move || {
            let run = record(&mut target, events)?;
            run.check_lossless(THREADS * events)?;
            let time = |name| anyhow::Ok(Reading::Value(field(&run.answer, name)? * 1e-9));
            let rate = Reading::Value((THREADS * events) as f64 / run.seconds());
            Ok(vec![time("max_ns")?, time("p50_ns")?, time("p99_ns")?, time("p9999_ns")?, rate])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "4 threads, Block 4 MB",
        figures,
        rounds: options.scale(7, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

fn record(target: &mut Embedded, events: u64) -> anyhow::Result<Recorded> {
    let port = target.port_file()?;
    let before = counts(target)?;
    let session = Session::start(&port, &Collect::block(BUDGET_MB).message())?;
    let id = session.id;
    let reading = session.count_events(None);
    await_condition("an event that is enabled", HANG, || {
        target.command("timed 1 1").is_ok_and(|line| line.contains("enabled=true"))
    })?;
    let began = std::time::Instant::now();
    let answer = target.command(&format!("timed {THREADS} {events}"))?;
    ensure!(PlainClient::new(&port).stop(id, HANG)?.is_some(), "StopTracing is not answered");
    let end = reading.finish().context("reading")?;
    let after = counts(target)?;
    let counted =
        Counted { emitted: after.emitted - before.emitted, dropped: after.dropped - before.dropped };
    Ok(Recorded { answer, began, end, counted: Some(counted) })
}

/// Over the life of the process.
fn counts(target: &mut Embedded) -> anyhow::Result<Counted> {
    let line = target.command("counts")?;
    Ok(Counted {
        emitted: native_report::field(&line, "emitted")?,
        dropped: native_report::field(&line, "dropped")?,
    })
}

//! What a session adds to a process: full, nobody reading, its producers parked. At most the budget and a tenth of it, and 128 KB for each thread
//! that emits; what the drain holds for itself is in that.

use anyhow::Context as _;
use support::HANG;
use support::process_facts::resident_bytes;
use support::requests::Collect;

use crate::case::{Bound, Case, Figure, Measure, Reading, Side, Unit, await_enabled};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};
use crate::stuck_reader::await_stillness;

const BUDGETS_MB: [(u32, &str); 4] = [
    (1, "growth beyond the budget, 1 MB; allowed: 10 % and 128 KB a thread, the drain's in it"),
    (10, "growth beyond the budget, 10 MB; the same"),
    (64, "growth beyond the budget, 64 MB; the same"),
    (256, "growth beyond the budget, 256 MB; the same"),
];
const PRODUCERS: u32 = 4;
/// The fixed amount for each thread that emits; what the session's drain holds is in it.
const BYTES_PER_THREAD: f64 = 128.0 * 1024.0;
const AIM_BYTES: f64 = 0.5e6;
const MEGABYTE: f64 = 1024.0 * 1024.0;

pub(crate) fn case(options: &Options) -> Case {
    let figures = BUDGETS_MB.map(|(megabytes, title)| {
        let allowed = 0.1 * f64::from(megabytes) * MEGABYTE + f64::from(PRODUCERS) * BYTES_PER_THREAD;
        Figure::new(title, Unit::Memory, Bound::AtMost(allowed)).aim(Bound::AtMost(AIM_BYTES))
    });
    let prepare = |_: Side| {
        let measure = || {
            let grown = BUDGETS_MB.iter().map(|(megabytes, _)| beyond_budget(*megabytes));
            grown.map(|bytes| Ok(Reading::Value(bytes?))).collect()
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "session memory, 4 parked producers (10 % and 128 KB a thread that emits, the drain's own in it)",
        figures: figures.to_vec(),
        rounds: options.scale(5, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

/// Resident growth of a target that has had a small session before, less the budget.
fn beyond_budget(megabytes: u32) -> anyhow::Result<f64> {
    let mut load = Side::Ours.start()?;
    let port = load.port_file()?;
    let mut client = PlainClient::new(&port);
    let session = Session::start(&port, &Collect::block(1).message())?;
    let id = session.id;
    let reading = session.count(None);
    await_enabled(&mut load)?;
    load.command(&format!("burst {PRODUCERS} 100000"))?;
    client.stop(id, HANG)?.context("StopTracing is not answered")?;
    reading.finish()?;
    load.await_live(0, HANG)?;

    let before = resident_bytes(load.pid())? as f64;
    let session = Session::start(&port, &Collect::block(megabytes).message())?;
    await_enabled(&mut load)?;
    load.send(&format!("burst {PRODUCERS} 5000000"))?;
    await_stillness(&load)?;
    let full = resident_bytes(load.pid())? as f64;
    // Its client leaves, and the producers go on.
    drop(session);
    load.next_line(HANG)?;
    Ok(full - before - f64::from(megabytes) * MEGABYTE)
}

//! Eight threads that compete for 1 MB in Block mode while the reader takes 100 MB a second.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use diagport_nettrace::{EventMetadata, Reader, Record};
use support::HANG;
use support::requests::Collect;

use crate::case::{Bound, Case, Figure, Measure, Reading, Side, Unit, await_enabled};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};

const THREADS: usize = 8;
/// More than they get to emit.
const EVENTS: u64 = 20_000_000;
const PACE_MB: f64 = 100.0;
/// What is looked at, behind the start.
const WINDOW: Duration = Duration::from_secs(2);
const START: Duration = Duration::from_millis(300);
const PROGRESS: f64 = 0.100;

pub(crate) fn case(options: &Options) -> Case {
    let window = options.scale(WINDOW, WINDOW / 4);
    let figures = vec![
        Figure::new("most / least events of a thread in 2 s", Unit::Times, Bound::AtMost(2.0))
            .aim(Bound::AtMost(1.2)),
        Figure::time("longest time of a thread without an event", Bound::AtMost(PROGRESS)),
        Figure::new("events received", Unit::Rate, Bound::Nothing),
    ];
    let prepare = move |_: Side| {
        let measure = move || {
            let mut load = Side::Ours.start()?;
            let port = load.port_file()?;
            let session = Session::start(&port, &Collect::block(1).message())?;
            let id = session.id;
            let reading = session.keep(Some(PACE_MB));
            await_enabled(&mut load)?;
            load.send(&format!("burst {THREADS} {EVENTS}"))?;
            std::thread::sleep(START + window + START);
            PlainClient::new(&port).stop(id, HANG)?.context("StopTracing is not answered")?;
            load.next_line(HANG)?;
            let (_, bytes) = reading.finish()?;
            let shares = Shares::of(&bytes, window)?;
            Ok(vec![
                Reading::Value(shares.most_to_least()),
                Reading::Value(shares.longest_wait),
                Reading::Value(shares.rate),
            ])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "8 threads, Block 1 MB, a reader of 100 MB/s",
        figures,
        rounds: options.scale(5, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}

/// What each thread had of a window.
#[derive(Debug)]
struct Shares {
    events: Vec<u64>,
    /// In seconds.
    longest_wait: f64,
    rate: f64,
}

impl Shares {
    /// The window begins [`START`] after the first event of the last thread to begin.
    fn of(bytes: &[u8], window: Duration) -> anyhow::Result<Self> {
        let (frequency, times) = times_by_thread(bytes)?;
        ensure!(times.len() == THREADS, "{} threads have emitted", times.len());
        let first = times.values().filter_map(|times| times.first()).max().copied().unwrap_or_default();
        let from = first + (START.as_secs_f64() * frequency) as i64;
        let to = from + (window.as_secs_f64() * frequency) as i64;
        let last = times.values().filter_map(|times| times.last()).max().copied().unwrap_or_default();
        ensure!(last >= to, "the stream ends inside the window");
        let mut shares = Self { events: Vec::new(), longest_wait: 0.0, rate: 0.0 };
        for times in times.values() {
            let inside: Vec<i64> = times.iter().copied().filter(|time| (from..to).contains(time)).collect();
            let steps =
                [from].into_iter().chain(inside.iter().copied()).zip(inside.iter().copied().chain([to]));
            let wait = steps.map(|(before, after)| after - before).max().unwrap_or_default();
            shares.longest_wait = shares.longest_wait.max(wait as f64 / frequency);
            shares.events.push(inside.len() as u64);
        }
        shares.rate = shares.events.iter().sum::<u64>() as f64 / window.as_secs_f64();
        Ok(shares)
    }

    fn most_to_least(&self) -> f64 {
        let most = self.events.iter().max().copied().unwrap_or_default();
        let least = self.events.iter().min().copied().unwrap_or_default();
        most as f64 / least as f64
    }
}

/// A thread whose events a stop has cut off leaves another event, which says so.
fn is_tick(definition: &EventMetadata) -> bool {
    definition.provider == "Peer-Load" && definition.event_id == 1
}

/// Ticks a second, and the ticks of every event, by the number that `burst` gives a thread.
fn times_by_thread(bytes: &[u8]) -> anyhow::Result<(f64, BTreeMap<i64, Vec<i64>>)> {
    let mut reader = Reader::new();
    let mut frequency = 0.0;
    let mut times: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for piece in bytes.chunks(1 << 20) {
        reader.feed(piece);
        while let Some(record) = reader.next_record()? {
            match record {
                Record::Trace(info) => frequency = info.tick_frequency as f64,
                Record::Event(event) if is_tick(&event.definition) => {
                    let number = event.payload.get(8..16).context("a Tick without its thread")?;
                    let number = number.iter().rev().fold(0, |number, byte| number << 8 | i64::from(*byte));
                    // The single events of `await_enabled` come from threads that call themselves 0 too, and earlier.
                    if event.payload.get(..8) == Some(&[0; 8]) && number == 0 {
                        times.remove(&number);
                    }
                    times.entry(number).or_default().push(event.ticks);
                }
                _ => {}
            }
        }
    }
    Ok((frequency, times))
}

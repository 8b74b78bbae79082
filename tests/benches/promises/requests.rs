//! ProcessInfo: how long one takes, how many a second, and the same beside a session that streams.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use support::HANG;
use support::requests::Collect;

use crate::case::{Bound, Case, Figure, Peer, Reading, Side, Unit, await_enabled, quantile};
use crate::floor::Floor;
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};

/// ProcessInfo is answered within this, whatever happens.
pub(crate) const INFO_PROMISE: f64 = 0.050;
const WARM_UP: usize = 200;

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    let none = [Bound::Nothing; 2];
    vec![
        alone(options),
        storm("request storm, 1 worker", 1, none, options),
        storm("request storm, 16 workers", 16, none, options),
        storm("request storm, 32 workers", 32, [Bound::AtLeast(0.8), Bound::AtMost(2.0)], options),
        beside_a_stream(options),
    ]
}

fn alone(options: &Options) -> Case {
    let count = options.scale(2000, 300);
    let figures = vec![
        Figure::time("p50", Bound::Nothing).aim(Bound::NOT_SLOWER),
        Figure::time("p99", Bound::Nothing).aim(Bound::NOT_SLOWER),
        Figure::time("max", Bound::AtMost(INFO_PROMISE)),
        Figure::new("p50 / accept loop", Unit::TimesFloor, Bound::Nothing).aim(Bound::AtMost(1.25)),
    ];
    let prepare = move |side: Side| {
        let (load, floor) = (side.start()?, Floor::start()?);
        let mut client = PlainClient::new(&load.port_file()?);
        let mut yardstick = PlainClient::new(floor.path());
        client.infos(WARM_UP, HANG)?;
        yardstick.infos(WARM_UP, HANG)?;
        let measure = move || {
            // Kept alive as long as the measurement.
            let _ = (&load, &floor);
            let mut times = client.infos(count, HANG)?;
            let mut least = yardstick.infos(count, HANG)?;
            let p50 = quantile(&mut times, 0.5);
            Ok(vec![
                Reading::Value(p50),
                Reading::Value(quantile(&mut times, 0.99)),
                Reading::Value(quantile(&mut times, 1.0)),
                Reading::Value(p50 / quantile(&mut least, 0.5)),
            ])
        };
        Ok(Box::new(measure) as crate::case::Measure)
    };
    Case {
        name: "ProcessInfo alone",
        figures,
        rounds: options.scale(7, 2),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// The gates: for the rate and for the 99th percentile, both beside the accept loop.
fn storm(name: &'static str, workers: usize, gates: [Bound; 2], options: &Options) -> Case {
    let length = options.scale(Duration::from_millis(1000), Duration::from_millis(300));
    let figures = vec![
        Figure::new("requests", Unit::Rate, Bound::Nothing).aim(Bound::NOT_SLOWER),
        Figure::time("p99", Bound::Nothing).aim(Bound::NOT_SLOWER),
        Figure::new("requests / accept loop", Unit::ShareOfFloor, gates[0]).aim(Bound::AtLeast(0.8)),
        Figure::new("p99 / accept loop", Unit::TimesFloor, gates[1]),
    ];
    let prepare = move |side: Side| {
        let (load, floor) = (side.start()?, Floor::start()?);
        let port = load.port_file()?;
        PlainClient::new(&port).infos(WARM_UP, HANG)?;
        let measure = move || {
            let _ = &load;
            let (rate, p99) = storm_once(&port, workers, length)?;
            let (most, least_p99) = storm_once(floor.path(), workers, length / 2)?;
            Ok([rate, p99, rate / most, p99 / least_p99].map(Reading::Value).to_vec())
        };
        Ok(Box::new(measure) as crate::case::Measure)
    };
    Case { name, figures, rounds: options.scale(7, 2), peer: Some(Peer::Dotnet), prepare: Box::new(prepare) }
}

/// Requests a second and p99, of so many workers that each ask as fast as they are answered.
fn storm_once(port: &Path, workers: usize, length: Duration) -> anyhow::Result<(f64, f64)> {
    let from = Instant::now();
    let mut times = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<Vec<Duration>> {
                    let mut client = PlainClient::new(port);
                    let mut times = Vec::new();
                    while from.elapsed() < length {
                        times.push(client.info(HANG)?.context("ProcessInfo is not answered")?);
                    }
                    Ok(times)
                })
            })
            .collect();
        let mut all = Vec::new();
        for worker in asking {
            all.extend(worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??);
        }
        anyhow::Ok(all)
    })?;
    let rate = times.len() as f64 / from.elapsed().as_secs_f64();
    Ok((rate, quantile(&mut times, 0.99)))
}

fn beside_a_stream(options: &Options) -> Case {
    let (ours, peers) = options.scale((1_000_000, 20_000), (200_000, 5_000));
    let figures = vec![
        Figure::time("p50", Bound::Nothing).aim(Bound::NOT_SLOWER),
        Figure::time("p99", Bound::Nothing).aim(Bound::NOT_SLOWER),
        Figure::time("max", Bound::AtMost(INFO_PROMISE)),
    ];
    let prepare = move |side: Side| {
        let mut load = side.start()?;
        let port = load.port_file()?;
        let mut client = PlainClient::new(&port);
        client.infos(WARM_UP, HANG)?;
        let count = if side == Side::Ours { ours } else { peers };
        let measure = move || {
            let session = Session::start(&port, &Collect::block(1).message())?;
            let id = session.id;
            let reading = session.count(None);
            await_enabled(&mut load)?;
            load.send(&format!("burst 2 {count}"))?;
            let answered = std::sync::atomic::AtomicBool::new(false);
            let mut times = std::thread::scope(|scope| {
                let line = scope.spawn(|| {
                    let line = load.next_line(3 * HANG);
                    answered.store(true, std::sync::atomic::Ordering::Relaxed);
                    line
                });
                let mut times = Vec::new();
                while !answered.load(std::sync::atomic::Ordering::Relaxed) {
                    times.push(client.info(HANG)?.context("ProcessInfo is not answered")?);
                }
                line.join().map_err(|_| anyhow::anyhow!("the waiting thread panicked"))??;
                anyhow::Ok(times)
            })?;
            client.stop(id, HANG)?.context("StopTracing is not answered")?;
            reading.finish()?;
            Ok([0.5, 0.99, 1.0].map(|share| Reading::Value(quantile(&mut times, share))).to_vec())
        };
        Ok(Box::new(measure) as crate::case::Measure)
    };
    Case {
        name: "ProcessInfo beside a Block session that streams",
        figures,
        rounds: options.scale(5, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

//! ProcessInfo beside a crowd of silent and half-sent connections, and a Block session that nobody reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use support::HANG;
use support::port::Conversation;
use support::requests::{Collect, PROCESS_INFO, message};

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, await_enabled, quantile};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};
use crate::requests::INFO_PROMISE;
use crate::stuck_reader::{FREE_PROMISE, STOP_PROMISE, stop_stuck};

const SILENT: usize = 255;
const HALF_SENT: usize = 64;
/// Between two questions, so that the client is not the load.
const PAUSE: Duration = Duration::from_millis(1);
/// So long the peer is asked.
const PEER_PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn case(options: &Options) -> Case {
    let figures = vec![
        Figure::time("ProcessInfo p50", Bound::AtMost(INFO_PROMISE)),
        Figure::time("ProcessInfo p99", Bound::AtMost(INFO_PROMISE)),
        Figure::time("ProcessInfo max", Bound::AtMost(INFO_PROMISE)),
        Figure::time("StopTracing of the Block session", Bound::AtMost(STOP_PROMISE)),
        Figure::time("producers free after the stop", Bound::AtMost(FREE_PROMISE)),
    ];
    let prepare = |side: Side| -> anyhow::Result<Measure> {
        Ok(match side {
            Side::Ours => Box::new(ours),
            Side::Peer(_) => Box::new(peer),
        })
    };
    Case {
        name: "255 silent, 64 half-sent, one unread Block session",
        figures,
        rounds: options.scale(5, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// From before the burst to after the stop somebody asks.
fn ours() -> anyhow::Result<Vec<Reading>> {
    let mut load = Side::Ours.start()?;
    let port = load.port()?;
    let silent = (0..SILENT).map(|_| port.connect()).collect::<anyhow::Result<Vec<_>>>()?;
    let half_sent = (0..HALF_SENT)
        .map(|index| {
            let mut conversation = port.connect()?;
            conversation.send(&message(PROCESS_INFO, &[])[..1 + index % 19])?;
            Ok(conversation)
        })
        .collect::<anyhow::Result<Vec<Conversation>>>()?;
    let over = AtomicBool::new(false);
    let mut client = PlainClient::new(port.path());
    let (mut times, stopped, freed) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| -> anyhow::Result<Vec<Duration>> {
            let mut times = Vec::new();
            while !over.load(Ordering::Relaxed) {
                times.push(client.info(HANG)?.context("ProcessInfo is not answered")?);
                std::thread::sleep(PAUSE);
            }
            Ok(times)
        });
        let mut disturb = || {
            let session = Session::start(port.path(), &Collect::block(1).message())?;
            await_enabled(&mut load)?;
            load.send("burst 2 500000")?;
            // The asking keeps the process from standing still; by now the producers do.
            std::thread::sleep(Duration::from_millis(500));
            let times = stop_stuck(&mut load, port.path(), session.id);
            drop(session);
            times
        };
        let disturbed = disturb();
        over.store(true, Ordering::Relaxed);
        let times = asking.join().map_err(|_| anyhow::anyhow!("the asking thread panicked"))??;
        let (stopped, freed) = disturbed?;
        anyhow::Ok((times, stopped, freed))
    })?;
    drop((silent, half_sent));
    let mut readings = [0.5, 0.99, 1.0].map(|share| Reading::Value(quantile(&mut times, share))).to_vec();
    readings.extend([stopped, freed]);
    Ok(readings)
}

/// One half-sent header is enough there: everybody else waits for it.
fn peer() -> anyhow::Result<Vec<Reading>> {
    let load = Side::Peer(Peer::Dotnet).start()?;
    let port = load.port()?;
    let mut half_sent = port.connect()?;
    half_sent.send(&message(PROCESS_INFO, &[])[..10])?;
    let answered = PlainClient::new(port.path()).info(PEER_PATIENCE)?;
    let reading = answered.map_or(Reading::Never(PEER_PATIENCE.as_secs_f64()), Reading::from);
    drop(half_sent);
    Ok(vec![reading, reading, reading, Reading::Skipped, Reading::Skipped])
}

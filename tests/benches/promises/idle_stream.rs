//! Sessions with little or nothing to say: how soon they begin, deliver, and end; and how soon one ends that has much to say.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use support::HANG;
use support::requests::Collect;

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, await_enabled, quantile};
use crate::options::Options;
use crate::plain_client::{PlainClient, Session};
use crate::stuck_reader::await_stillness;

const STOP_PROMISE: f64 = 0.010;
const STOP_AIM: f64 = 0.001;
const DELIVERY_PROMISE: f64 = 0.100;
const DELIVERY_AIM: f64 = 0.020;
/// 56 bytes each, in a stream.
const PENDING: u64 = 18_000;
/// Longer than any drain sleeps.
const QUIET: Duration = Duration::from_millis(300);

pub(crate) fn cases(options: &Options) -> Vec<Case> {
    vec![begin_and_end(options), pending(options), delivery(options)]
}

/// Idle for so long, another time in each repetition: a drain that looks every 100 ms is met anywhere in its sleep.
fn idle(index: u32) -> Duration {
    Duration::from_millis(u64::from(30 + index * 37 % 100))
}

fn begin_and_end(options: &Options) -> Case {
    let count = options.scale(20, 5);
    let figures = vec![
        Figure::time("CollectTracing answered, p50", Bound::Nothing),
        Figure::time("first byte of the stream, p50", Bound::TimesPeer(0.5)).aim(Bound::BEATS_PEER),
        Figure::time("StopTracing answered, p50", Bound::AtMost(STOP_PROMISE)).aim(Bound::AtMost(STOP_AIM)),
        Figure::time("StopTracing answered, max", Bound::AtMost(STOP_PROMISE)),
        Figure::time("end of the stream after the stop, p50", Bound::AtMost(STOP_PROMISE))
            .aim(Bound::AtMost(STOP_AIM)),
    ];
    let prepare = move |side: Side| {
        let load = side.start()?;
        let port = load.port_file()?;
        let request = Collect::ticks(6, 1).message();
        let mut client = PlainClient::new(&port);
        let mut once = move |index: u32| -> anyhow::Result<[Duration; 4]> {
            let _ = &load;
            let mut session = Session::start(&port, &request)?;
            let first = session.first_byte()?;
            let (id, replied) = (session.id, session.replied);
            let reading = session.count(None);
            std::thread::sleep(idle(index));
            let from = Instant::now();
            let stopped = client.stop(id, HANG)?.context("StopTracing is not answered")?;
            let ended = reading.finish()?.at.saturating_duration_since(from);
            Ok([replied, first, stopped, ended])
        };
        // A runtime compiles what it needs in its first sessions.
        for index in 0..3 {
            once(index)?;
        }
        let measure = move || {
            let sessions = (0..count).map(&mut once).collect::<anyhow::Result<Vec<_>>>()?;
            let column =
                |index: usize| -> Vec<Duration> { sessions.iter().map(|times| times[index]).collect() };
            let of = |index: usize, share: f64| Reading::Value(quantile(&mut column(index), share));
            Ok(vec![of(0, 0.5), of(1, 0.5), of(2, 0.5), of(2, 1.0), of(3, 0.5)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "idle session",
        figures,
        rounds: options.scale(7, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// About 1 MB of a stream that nobody has read before the stop.
fn pending(options: &Options) -> Case {
    let count = options.scale(10, 2);
    let figures = vec![
        Figure::time("end of the stream after the stop, p50", Bound::AtMost(STOP_PROMISE))
            .aim(Bound::AtMost(STOP_AIM)),
        Figure::time("StopTracing answered, p50", Bound::Nothing),
    ];
    let prepare = move |side: Side| {
        let mut load = side.start()?;
        let port = load.port_file()?;
        let request = Collect::ticks(6, 10).message();
        let mut client = PlainClient::new(&port);
        let mut once = move || -> anyhow::Result<[Duration; 2]> {
            let session = Session::start(&port, &request)?;
            let id = session.id;
            await_enabled(&mut load)?;
            load.command(&format!("burst 1 {PENDING}"))?;
            await_stillness(&load)?;
            let from = Instant::now();
            let reading = session.count_events(None);
            let stopped = client.stop(id, HANG)?.context("StopTracing is not answered")?;
            let end = reading.finish()?;
            ensure!(end.blocks.events >= PENDING, "{:?}: not all of {PENDING}", end.blocks);
            Ok([end.at.saturating_duration_since(from), stopped])
        };
        once()?;
        let measure = move || {
            let times = (0..count).map(|_| once()).collect::<anyhow::Result<Vec<_>>>()?;
            Ok([0, 1]
                .map(|column| {
                    let mut column: Vec<Duration> = times.iter().map(|times| times[column]).collect();
                    Reading::Value(quantile(&mut column, 0.5))
                })
                .to_vec())
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "stop of a session with 1 MB pending",
        figures,
        rounds: options.scale(7, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

fn delivery(options: &Options) -> Case {
    let count = options.scale(20, 5);
    let figures = vec![
        Figure::time("from the command to the event's bytes, p50", Bound::AtMost(DELIVERY_PROMISE))
            .aim(Bound::AtMost(DELIVERY_AIM)),
        Figure::time("from the command to the event's bytes, max", Bound::AtMost(DELIVERY_PROMISE)),
    ];
    let prepare = move |side: Side| {
        let mut load = side.start()?;
        let port = load.port_file()?;
        let mut client = PlainClient::new(&port);
        load.command("burst 1 1")?;
        let measure = move || {
            let session = Session::start(&port, &Collect::ticks(6, 1).message())?;
            let id = session.id;
            let (tell, told) = mpsc::channel();
            let mut look = EventText::default();
            let reading = session.watch(None, move |piece| {
                for _ in 0..look.count_in(piece) {
                    tell.send(Instant::now()).ok();
                }
            });
            await_enabled(&mut load)?;
            while told.recv_timeout(QUIET).is_ok() {}
            let mut times = Vec::new();
            for index in 0..count {
                std::thread::sleep(idle(index));
                let from = Instant::now();
                load.send("burst 1 1")?;
                let seen = told.recv_timeout(HANG).context("the event never came")?;
                times.push(seen.saturating_duration_since(from));
                load.next_line(HANG)?;
            }
            client.stop(id, HANG)?.context("StopTracing is not answered")?;
            reading.finish()?;
            Ok(vec![Reading::Value(quantile(&mut times, 0.5)), Reading::Value(quantile(&mut times, 1.0))])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "one event on an idle stream",
        figures,
        rounds: options.scale(5, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// Finds the text that each event of `burst` carries, also where a piece of the stream ends inside it.
#[derive(Debug, Default)]
struct EventText {
    tail: Vec<u8>,
}

impl EventText {
    fn count_in(&mut self, piece: &[u8]) -> usize {
        let needle: Vec<u8> = "0123456789abcdef".encode_utf16().flat_map(u16::to_le_bytes).collect();
        self.tail.extend_from_slice(piece);
        let found = self.tail.windows(needle.len()).filter(|window| *window == needle).count();
        let keep = self.tail.len().saturating_sub(needle.len() - 1);
        self.tail.drain(..keep);
        found
    }
}

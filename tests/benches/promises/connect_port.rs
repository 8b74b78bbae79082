//! A connect port: how soon the next connection is advertised when one was consumed.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use support::port::Conversation;
use support::requests::{PROCESS_INFO, message};
use support::{HANG, temp_folder};

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side, quantile};
use crate::options::Options;

const ADVERTISE_BYTES: usize = 34;
/// Between two requests of a monitor that is no flood: beyond a burst ours makes one connection a millisecond.
const APART: Duration = Duration::from_millis(5);

pub(crate) fn case(options: &Options) -> Case {
    let count = options.scale(100, 20);
    let figures = vec![
        Figure::time("from the request to the next Advertise, p50", Bound::Nothing).aim(Bound::NOT_SLOWER),
        Figure::time("from the request to the next Advertise, max", Bound::Nothing),
        Figure::time("the same, request upon request (ours is paced), p50", Bound::Nothing),
    ];
    let prepare = move |side: Side| {
        let folder = temp_folder()?;
        let path = folder.path().join("monitor");
        let arrivals = arrivals(UnixListener::bind(&path)?);
        let setting = format!("{},connect,nosuspend", path.display());
        let load = side.setup()?.env("DOTNET_DiagnosticPorts", setting).start()?;
        let (mut current, _) = arrivals.recv_timeout(HANG).context("no Advertise")?;
        let mut once = move || -> anyhow::Result<Duration> {
            let _ = (&load, &folder);
            let from = Instant::now();
            current.write_all(&message(PROCESS_INFO, &[])).context("sending a request")?;
            let (next, at) = arrivals.recv_timeout(HANG).context("no further Advertise")?;
            let consumed = std::mem::replace(&mut current, next);
            Conversation::from(consumed).receive_reply(HANG)?;
            Ok(at.saturating_duration_since(from))
        };
        for _ in 0..10 {
            once()?;
        }
        let measure = move || {
            let mut apart = Vec::new();
            for _ in 0..count {
                std::thread::sleep(APART);
                apart.push(once()?);
            }
            let mut at_once = (0..count).map(|_| once()).collect::<anyhow::Result<Vec<_>>>()?;
            Ok(vec![
                Reading::Value(quantile(&mut apart, 0.5)),
                Reading::Value(quantile(&mut apart, 1.0)),
                Reading::Value(quantile(&mut at_once, 0.5)),
            ])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "connect port, one connection consumed",
        figures,
        rounds: options.scale(5, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// Connections with their Advertise read, and when that was. The thread ends with the process.
fn arrivals(listener: UnixListener) -> Receiver<(UnixStream, Instant)> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut advertise = [0; ADVERTISE_BYTES];
            if stream.read_exact(&mut advertise).is_ok() && tell.send((stream, Instant::now())).is_err() {
                return;
            }
        }
    });
    told
}

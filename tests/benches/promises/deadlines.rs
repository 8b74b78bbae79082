//! Deadlines that take their time: measured once, all at the same time, since they wait and do not work.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use support::load::{LoadSetup, Target};
use support::port::Reply;
use support::requests::{BAD_ENCODING, PROCESS_INFO, message};
use support::{HANG, temp_folder};

use crate::case::{Bound, Case, Figure, Measure, Reading, Side, quantile};
use crate::options::Options;
use crate::stuck_reader::stuck_session;

const REQUEST_DEADLINE: f64 = 10.0;
const STALL_LIMIT: f64 = 30.0;
const PAUSE_NOTICE: f64 = 5.0;
const BACK_OFF: f64 = 0.5;
/// Back-off has grown to its end after this.
const BACK_OFF_GROWN: Duration = Duration::from_secs(4);

pub(crate) fn case(options: &Options) -> Case {
    let quick = options.quick;
    let near = |figure: f64| Bound::Near { figure, slack: figure / 20.0 };
    let figures = vec![
        Figure::time("half a request is answered, from its first byte", near(REQUEST_DEADLINE)),
        Figure::time("suspended: first notice on standard error", near(PAUSE_NOTICE)),
        Figure::time("connect port at a peer that closes at once: pause, grown", near(BACK_OFF)),
        Figure::time("unread Block session ends: producers free", near(STALL_LIMIT)),
    ];
    let prepare = move |_: Side| {
        let measure = move || {
            std::thread::scope(|scope| {
                let waiting = [
                    scope.spawn(half_sent),
                    scope.spawn(pause_notice),
                    scope.spawn(back_off),
                    scope.spawn(move || if quick { Ok(Reading::Skipped) } else { stalled() }),
                ];
                waiting
                    .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a waiting thread panicked"))?)
                    .into_iter()
                    .collect()
            })
        };
        Ok(Box::new(measure) as Measure)
    };
    Case { name: "deadlines", figures, rounds: 1, peer: None, prepare: Box::new(prepare) }
}

fn half_sent() -> anyhow::Result<Reading> {
    let load = Side::Ours.start()?;
    let mut conversation = load.port()?.connect()?;
    let from = Instant::now();
    conversation.send(&message(PROCESS_INFO, &[])[..19])?;
    let reply: Reply = conversation.receive_reply(HANG)?;
    ensure!(reply.error_code() == Some(BAD_ENCODING), "half a request was answered with {reply}");
    Ok(from.elapsed().into())
}

fn pause_notice() -> anyhow::Result<Reading> {
    let from = Instant::now();
    let load = LoadSetup::new(Target::Ours).env("DOTNET_DefaultDiagnosticPortSuspend", "1").launch()?;
    load.process().expect_error_output("\n", HANG)?;
    Ok(from.elapsed().into())
}

fn back_off() -> anyhow::Result<Reading> {
    let folder = temp_folder()?;
    let path = folder.path().join("monitor");
    let listener = UnixListener::bind(&path)?;
    let setting = format!("{},connect,nosuspend", path.display());
    let _load = LoadSetup::new(Target::Ours).env("DOTNET_DiagnosticPorts", setting).start()?;
    let from = Instant::now();
    let mut last = None;
    let mut pauses = Vec::new();
    while pauses.len() < 4 {
        // The connection closes as the value goes.
        listener.accept().context("accepting")?;
        let now = Instant::now();
        if let Some(last) = last.replace(now).filter(|_| from.elapsed() > BACK_OFF_GROWN) {
            pauses.push(now.saturating_duration_since(last));
        }
        ensure!(from.elapsed() < HANG, "{} connections only", pauses.len());
    }
    Ok(Reading::Value(quantile(&mut pauses, 0.5)))
}

fn stalled() -> anyhow::Result<Reading> {
    let mut load = Side::Ours.start()?;
    let from = Instant::now();
    let session = stuck_session(&mut load)?;
    let line = load.next_line(2 * HANG)?;
    ensure!(line.starts_with("burst"), "`burst` was answered with {line:?}");
    drop(session);
    Ok(from.elapsed().into())
}

//! 64 idle sessions whose clients vanish: when do 64 new ones run?

use std::path::Path;
use std::time::{Duration, Instant};

use support::requests::Collect;

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side};
use crate::options::Options;
use crate::plain_client::{Session, Start};

const SLOTS: usize = 64;
const FREE_PROMISE: f64 = 1.0;
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) fn case(options: &Options) -> Case {
    let figures = vec![
        Figure::time("first new session runs", Bound::AtMost(FREE_PROMISE)),
        Figure::time("64 new sessions run", Bound::AtMost(FREE_PROMISE)),
    ];
    let prepare = |side: Side| {
        let measure = move || {
            let load = side.start()?;
            let port = load.port_file()?;
            let request = Collect::ticks(2, 1).message();
            let idle: Vec<Session> =
                (0..SLOTS).map(|_| idle_session(&port, &request)).collect::<anyhow::Result<_>>()?;
            let from = Instant::now();
            drop(idle);
            let mut running = Vec::new();
            let mut first = Reading::Never(PATIENCE.as_secs_f64());
            while running.len() < SLOTS && from.elapsed() < PATIENCE {
                running.extend(try_to_start(&port, &request)?);
                if running.len() == 1 && matches!(first, Reading::Never(_)) {
                    first = from.elapsed().into();
                }
            }
            let all = if running.len() == SLOTS {
                from.elapsed().into()
            } else {
                Reading::Never(PATIENCE.as_secs_f64())
            };
            Ok(vec![first, all])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "64 idle sessions, their clients vanish",
        figures,
        rounds: options.scale(7, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}

/// Its first bytes have come: a drain that still has to write them would meet the closed socket by itself.
fn idle_session(port: &Path, request: &[u8]) -> anyhow::Result<Session> {
    let mut session = Session::start(port, request)?;
    session.first_byte()?;
    Ok(session)
}

/// A refusal is asked again a little later.
fn try_to_start(port: &Path, request: &[u8]) -> anyhow::Result<Option<Session>> {
    match Session::request(port, request, PATIENCE)? {
        Start::Running(session) => Ok(Some(session)),
        Start::Refused(_) => {
            std::thread::sleep(Duration::from_millis(2));
            Ok(None)
        }
        Start::Never => Ok(None),
    }
}

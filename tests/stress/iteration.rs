//! One seed: a plan, all its threads at once, and the verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use diagport_session::{
    EndReason, PipeStatistics, ProviderConfig, SessionConfig, SessionType, StartSessionError,
};

use crate::controller::{Ended, control, set_callbacks};
use crate::life::produce;
use crate::plan::{Enabling, Load, PROVIDERS, Plan};
use crate::verdict::judge;
use crate::world::{World, lock, until};

const SLOTS: usize = 64;
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

/// What happened, for the summary.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) attempts: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    /// Sessions by how they ended.
    pub(crate) ends: BTreeMap<&'static str, u64>,
}

/// Runs the iteration of `seed`.
///
/// # Errors
/// Everything that was wrong.
pub(crate) fn run(seed: u64, load: Load, sums: &mut Sums) -> Result<(), Vec<String>> {
    let world = Arc::new(World::new(Plan::draw(seed, load)));
    set_callbacks(&world);
    let ended = run_threads(&world);
    // Callbacks run on a thread of the pipe, and what they count must be in.
    until(|| callbacks_are_over(&world, &ended));
    let mut expected = PipeStatistics::default();
    for session in &ended {
        let stream = judge(&world, session);
        let statistics = session.end.statistics;
        expected.emitted += statistics.emitted;
        expected.written += statistics.written;
        expected.dropped += statistics.dropped;
        sums.received += stream.received;
        sums.lost += stream.lost;
        *sums.ends.entry(name_of(&session.end.reason)).or_default() += 1;
    }
    sums.attempts += world.attempts.load(Ordering::Relaxed);
    let counted = world.pipe.statistics();
    if counted != expected {
        world.blame(format!("the pipe counts {counted}, its sessions {expected}"));
    }
    if world.plan.fills_slots {
        fill_slots(&world);
    }
    let wrong = world.blamed();
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

fn run_threads(world: &Arc<World>) -> Vec<Ended> {
    thread::scope(|scope| {
        let mut first = 0;
        let mut controllers = Vec::new();
        for plans in &world.plan.sessions {
            let begin = first;
            controllers.push(scope.spawn(move || control(world, plans, begin)));
            first += plans.len();
        }
        let shutdown = world.plan.shutdown_at.map(|attempts| {
            scope.spawn(move || {
                world.await_attempts(attempts);
                world.pipe.shutdown(FOR_EVER);
            })
        });
        until(|| world.edge_sessions_left.load(Ordering::Acquire) == 0);
        let producers: Vec<_> =
            world.plan.producers.iter().map(|plan| scope.spawn(move || produce(world, plan))).collect();
        for producer in producers {
            let _ = producer.join();
        }
        world.producers_over.store(true, Ordering::Release);
        let ended = controllers.into_iter().flat_map(|controller| match controller.join() {
            Ok(ended) => ended,
            Err(_) => {
                world.blame("a controlling thread panicked".to_owned());
                Vec::new()
            }
        });
        let ended = ended.collect();
        if let Some(thread) = shutdown {
            let _ = thread.join();
        }
        ended
    })
}

/// Each provider that a started session names has heard of its start and its end, and nobody is at it.
fn callbacks_are_over(world: &World, ended: &[Ended]) -> bool {
    let told = lock(&world.told);
    let is_over = |session: &Ended| {
        let Some(plan) = world.session_plan(session.index) else { return true };
        let is_sure = world.is_foreseen(plan) && plan.enabling != Enabling::NeverStarted;
        PROVIDERS.iter().enumerate().all(|(provider, name)| {
            let named = plan.config.providers.iter().any(|entry| entry.name == *name || entry.name == "*");
            match told.get(&(provider, session.session.id())) {
                Some(told) => named && told.starts == told.stops,
                None => !(is_sure && named),
            }
        })
    };
    ended.iter().all(is_over) && world.callbacks_running.load(Ordering::Acquire) == 0
}

fn fill_slots(world: &World) {
    let config = || SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::everything("*")]);
    let create = || world.pipe.create_session(config());
    if world.plan.shutdown_at.is_some() {
        if create().map(drop) != Err(StartSessionError::ShuttingDown) {
            world.blame("a session is created after the shutdown".to_owned());
        }
        return;
    }
    let sessions: Vec<_> = (0..SLOTS).map_while(|_| create().ok()).collect();
    if sessions.len() != SLOTS || create().map(drop) != Err(StartSessionError::TooManySessions) {
        world.blame(format!("{} free slots where {SLOTS} are", sessions.len()));
    }
    sessions.iter().for_each(|session| session.abort("never meant"));
    let live = world.pipe.statistics().live_sessions;
    if live != 0 {
        world.blame(format!("{live} sessions after the last one"));
    }
}

fn name_of(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Stopped => "stopped",
        EndReason::PeerClosed => "peer-closed",
        EndReason::SinkFailed(_) => "sink-failed",
        EndReason::Stalled => "stalled",
        EndReason::StopGraceOver => "grace-over",
        EndReason::Aborted(_) => "aborted",
        EndReason::Panicked(_) => "panicked",
        _ => "other",
    }
}

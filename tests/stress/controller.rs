//! A thread that starts and ends sessions, and the callbacks that hear of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use diagport_session::{
    EnableCause, EnableChange, RundownWriter, Session, SessionEnd, StartSessionError, WaitFinished,
    WriteOutcome,
};

use crate::life::{Life, Thread, dump_state, filling};
use crate::plan::{Enabling, Ending, Moment, PROVIDERS, SessionPlan, Sizes};
use crate::random::Random;
use crate::reader_sink::{PLANNED_PANIC, Received};
use crate::world::{Kind, Phase, RUNDOWN_LIFE, World, lock, until};

/// One session's end, to be judged when everything is over.
pub(crate) struct Ended {
    pub(crate) index: usize,
    pub(crate) session: Session,
    pub(crate) end: SessionEnd,
    pub(crate) received: Received,
}

/// The watchdog ends the process long before.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

/// Runs the sessions of one controlling thread. The first has the number `first`.
pub(crate) fn control(world: &Arc<World>, plans: &[SessionPlan], first: usize) -> Vec<Ended> {
    let run = |(offset, plan)| run_session(world, plan, first + offset);
    plans.iter().enumerate().filter_map(run).collect()
}

fn run_session(world: &Arc<World>, plan: &SessionPlan, index: usize) -> Option<Ended> {
    let tally = &world.tallies[index];
    if let Moment::At(attempts) = plan.begin {
        world.await_attempts(attempts);
    }
    let edge_over = || {
        if plan.begin == Moment::Edge {
            world.edge_sessions_left.fetch_sub(1, Ordering::AcqRel);
        }
    };
    let session = match world.pipe.create_session(plan.config.clone()) {
        Ok(session) => session,
        Err(error) => {
            if error != StartSessionError::ShuttingDown || world.plan.shutdown_at.is_none() {
                world.blame(format!("session {index} is not created: {error}"));
            }
            edge_over();
            return None;
        }
    };
    world.know(&session, index);
    let told = tell_end(world, &session);
    let received = Received::default();
    tally.set(Phase::Perhaps);
    thread::scope(|scope| {
        let early_stop =
            (plan.ending == Ending::StopWhileStarting).then(|| scope.spawn(|| session.request_stop()));
        if plan.enabling != Enabling::ByStart {
            session.enable();
            if world.is_foreseen(plan) {
                tally.set_enabled();
            }
            thread::yield_now();
        }
        if plan.enabling != Enabling::NeverStarted {
            let start = || session.start(received.sink(plan.reader));
            if catch_unwind(AssertUnwindSafe(start)).is_err() {
                world.blame(format!("a panic of the sink leaves the start of session {index}, {plan:?}"));
            }
            if world.is_foreseen(plan) {
                tally.set_enabled();
            }
        }
        edge_over();
        match plan.end {
            Moment::At(attempts) => world.await_attempts(attempts),
            Moment::Edge => until(|| world.producers_over.load(Ordering::Acquire)),
        }
        check_running(world, &session);
        tally.set(Phase::Perhaps);
        end_session(&session, plan.ending);
        if let Some(thread) = early_stop {
            let _ = thread.join();
        }
    });
    let WaitFinished::Finished(end) = session.wait_finished(FOR_EVER) else {
        world.blame(format!("session {index} never ends"));
        return None;
    };
    tally.set(Phase::Over);
    until(|| told.load(Ordering::Acquire) != 0);
    Some(Ended { index, session, end, received })
}

/// What holds at every moment of a session's life.
fn check_running(world: &World, session: &Session) {
    let (counted, held, budget) =
        (session.statistics(), session.held_bytes() as u64, session.config().budget_bytes);
    if held > budget || counted.emitted != counted.written + counted.dropped {
        world.blame(format!("running session {}: {held} of {budget} bytes, {counted:?}", session.id()));
    }
}

fn end_session(session: &Session, ending: Ending) {
    thread::scope(|scope| {
        let elsewhere = match ending {
            Ending::StopTwiceAtOnce | Ending::StopAndAbortAtOnce => {
                Some(scope.spawn(|| session.request_stop()))
            }
            _ => None,
        };
        match ending {
            Ending::Abort | Ending::StopAndAbortAtOnce => session.abort(PLANNED_PANIC),
            Ending::StopThenAbort => {
                session.request_stop();
                session.abort(PLANNED_PANIC);
            }
            Ending::ByCallback | Ending::ByReader => {
                if session.wait_finished(Duration::from_millis(200)) == WaitFinished::TimedOut {
                    session.request_stop();
                }
            }
            Ending::Stop | Ending::StopTwiceAtOnce | Ending::StopWhileStarting => session.request_stop(),
        }
        if let Some(thread) = elsewhere {
            let _ = thread.join();
        }
    });
}

/// Counts the calls that tell of the session's end; each writes on the drain thread and then panics.
fn tell_end(world: &Arc<World>, session: &Session) -> Arc<AtomicU64> {
    let (told, weak) = (Arc::new(AtomicU64::new(0)), Arc::downgrade(world));
    let calls = Arc::clone(&told);
    session.on_finished(Box::new(move |end| {
        if let Some(world) = weak.upgrade() {
            let mut life = Life::new(&world, Thread::Drains);
            (0..3).for_each(|_| life.write_any(&mut Random::new(end.session_id.as_u64()), Sizes::Small));
        }
        calls.fetch_add(1, Ordering::Release);
        panic!("{PLANNED_PANIC}");
    }));
    told
}

/// Registers what providers do when sessions come and go, and what is written at a session's end.
pub(crate) fn set_callbacks(world: &Arc<World>) {
    for (provider, name) in PROVIDERS.iter().enumerate() {
        let weak = Arc::downgrade(world);
        world.pipe.provider(name).on_enable_change(move |change| {
            let Some(world) = weak.upgrade() else { return };
            world.callbacks_running.fetch_add(1, Ordering::AcqRel);
            let outcome = catch_unwind(AssertUnwindSafe(|| enable_changed(&world, provider, change)));
            world.callbacks_running.fetch_sub(1, Ordering::AcqRel);
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
        });
    }
    let weak = Arc::downgrade(world);
    world.pipe.on_rundown(move |writer| {
        if let Some(world) = weak.upgrade() {
            write_rundown(&world, writer);
        }
    });
}

fn enable_changed(world: &Arc<World>, provider: usize, change: &EnableChange) {
    let id = change.session_id;
    let mut random = Random::new(world.plan.seed ^ id.as_u64() ^ (provider as u64) << 32);
    {
        let mut all = lock(&world.told);
        let told = all.entry((provider, id)).or_default();
        match change.cause {
            EnableCause::SessionStarted => told.starts += 1,
            EnableCause::SessionStopped => told.stops += 1,
        }
        if (told.starts, told.stops) != (1, 0) && (told.starts, told.stops) != (1, 1) {
            world.blame(format!("{} hears {change:?} as {told:?}", PROVIDERS[provider]));
        }
    }
    let index = lock(&world.index_of).get(&id).copied();
    let plan = index.and_then(|index| world.session_plan(index));
    let mut life = Life::new(world, Thread::MayWait);
    (0..5).for_each(|_| life.write_any(&mut random, Sizes::Small));
    if let (EnableCause::SessionStarted, Some(plan)) = (change.cause, plan) {
        if world.plan.heavy_callbacks {
            dump_state(world, plan.config.budget_bytes, plan.config.buffering_mode);
        }
        if plan.ending == Ending::ByCallback
            && let Some(session) = world.pipe.session(id)
        {
            session.request_stop();
        }
    }
    assert!(!random.one_in(world.plan.panic_odds), "{PLANNED_PANIC}");
}

fn write_rundown(world: &Arc<World>, writer: &mut RundownWriter<'_>) {
    let mut random = Random::new(world.plan.seed ^ writer.session_id().as_u64());
    let index = lock(&world.index_of).get(&writer.session_id()).copied();
    let (Some(index), Kind::Work(event)) = (index, world.kind(0)) else { return };
    for number in 0..world.plan.rundown_events {
        let number = i64::try_from(number).unwrap_or(0);
        let bytes = vec![filling(number, RUNDOWN_LIFE); usize::try_from(random.below(2_000)).unwrap_or(0)];
        if writer.write(&event, (number, RUNDOWN_LIFE, &bytes)) == WriteOutcome::Written {
            world.tallies[index].rundown.fetch_add(1, Ordering::Relaxed);
        }
    }
    // What it writes as a producer goes to the sessions that still run.
    let mut life = Life::new(world, Thread::Drains);
    (0..5).for_each(|_| life.write_any(&mut random, Sizes::Mixed));
    assert!(!random.one_in(world.plan.panic_odds), "{PLANNED_PANIC}");
}

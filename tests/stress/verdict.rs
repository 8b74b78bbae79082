//! Holds one session's end and stream against what was tried.

use std::sync::atomic::Ordering;

use diagport_session::{BufferingMode, EndReason};

use crate::controller::Ended;
use crate::plan::{Enabling, Ending, SessionPlan};
use crate::stream::Stream;
use crate::world::World;

/// Blames the world for whatever does not fit; returns what a reader got.
pub(crate) fn judge(world: &World, ended: &Ended) -> Stream {
    let (bytes, is_closed) = ended.received.take();
    let stream = if bytes.is_empty() { Stream::default() } else { Stream::read(&bytes) };
    let Some(plan) = world.session_plan(ended.index) else { return stream };
    let mut wrong = stream.wrong.clone();
    let statistics = ended.end.statistics;
    if plan.enabling != Enabling::NeverStarted && !is_closed {
        wrong.push("the sink is not closed".to_owned());
    }
    if statistics.emitted != statistics.written + statistics.dropped {
        wrong.push("emitted is not written + dropped".to_owned());
    }
    if stream.received != statistics.written {
        wrong.push("received is not written".to_owned());
    }
    if stream.kinds & !world.wants[ended.index] != 0 {
        wrong.push(format!("kinds {:b} came, {:b} were wanted", stream.kinds, world.wants[ended.index]));
    }
    let left = (ended.session.waiting_count(), ended.session.held_bytes(), ended.session.lane_count());
    if left != (0, 0, 0) {
        wrong.push(format!("left behind: (waiting, bytes, lanes) = {left:?}"));
    }
    if world.pipe.session(ended.session.id()).is_some() {
        wrong.push("it still holds its slot".to_owned());
    }
    judge_counts(world, ended, plan, &mut wrong);
    judge_reason(world, ended, plan, &mut wrong);
    if ended.end.reason == EndReason::Stopped && !bytes.is_empty() {
        judge_complete(world, ended, plan, &stream, &mut wrong);
    }
    let tally = &world.tallies[ended.index];
    for what in wrong {
        world.blame(format!(
            "{what}\n    session {} of {plan:?}\n    {:?}\n    received {} rundown {} lost {} complete {}, {tally:?}",
            ended.index, ended.end, stream.received, stream.rundown, stream.lost, stream.is_complete
        ));
    }
    stream
}

fn judge_counts(world: &World, ended: &Ended, plan: &SessionPlan, wrong: &mut Vec<String>) {
    let tally = &world.tallies[ended.index];
    let (certain, uncertain) =
        (tally.certain.load(Ordering::Relaxed), tally.uncertain.load(Ordering::Relaxed));
    let emitted = ended.end.statistics.emitted;
    if emitted < certain || emitted > certain + uncertain {
        wrong.push(format!("emitted {emitted}, of {certain} sure and {uncertain} possible attempts"));
    }
    let loses_nothing = plan.config.buffering_mode == BufferingMode::Block
        && plan.reader.is_live()
        && plan.enabling != Enabling::NeverStarted
        && ended.end.reason == EndReason::Stopped;
    let may_be_lost = tally.may_be_lost.load(Ordering::Relaxed) + uncertain;
    if loses_nothing && ended.end.statistics.dropped > may_be_lost {
        wrong.push(format!("a Block session lost more than the {may_be_lost} events that it may"));
    }
}

fn judge_reason(world: &World, ended: &Ended, plan: &SessionPlan, wrong: &mut Vec<String>) {
    let reason = &ended.end.reason;
    if !plan.reader.is_live() {
        if matches!(reason, EndReason::DrainNotStarted(_)) {
            wrong.push("no drain thread".to_owned());
        }
        return;
    }
    let fits = match plan.ending {
        Ending::Stop
        | Ending::StopTwiceAtOnce
        | Ending::StopWhileStarting
        | Ending::ByCallback
        | Ending::ByReader => *reason == EndReason::Stopped,
        Ending::Abort if world.plan.shutdown_at.is_none() => matches!(reason, EndReason::Aborted(_)),
        Ending::Abort | Ending::StopThenAbort | Ending::StopAndAbortAtOnce => {
            matches!(reason, EndReason::Aborted(_) | EndReason::Stopped)
        }
    };
    if !fits {
        wrong.push("it ended for a wrong reason".to_owned());
    }
}

fn judge_complete(
    world: &World,
    ended: &Ended,
    plan: &SessionPlan,
    stream: &Stream,
    wrong: &mut Vec<String>,
) {
    if !stream.is_complete {
        wrong.push("the stream has no end".to_owned());
    }
    if stream.lost != ended.end.statistics.dropped {
        wrong.push("lost is not dropped".to_owned());
    }
    if stream.received + stream.lost != ended.end.statistics.emitted {
        wrong.push("received + lost is not emitted".to_owned());
    }
    let written = world.tallies[ended.index].rundown.load(Ordering::Relaxed);
    if stream.rundown != written {
        wrong.push(format!("{} of {written} rundown events came", stream.rundown));
    }
    let all = plan.config.rundown_keyword == 0 || written == world.plan.rundown_events;
    if plan.reader.is_live() && matches!(plan.ending, Ending::Stop | Ending::StopTwiceAtOnce) && !all {
        wrong.push(format!("a live reader got {written} rundown events"));
    }
}

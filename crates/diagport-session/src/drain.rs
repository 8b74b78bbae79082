//! The drain thread of one session: takes what producers wrote, in rounds, and writes the stream.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use diagport_buffer::{Liveness, WakeReader, WakeReason};

use crate::capture_ids::{CaptureThread, Holding};
use crate::dispatcher::panic_text;
use crate::merge::Merge;
use crate::rundown;
use crate::session::{EndReason, SessionCore};
use crate::session_config::SessionType;
use crate::sink::Sink;
use crate::stream::Stream;
use crate::thread_state::never_park;
use crate::time_source::StampSpan;

/// How long the first event after an idle time waits for company.
// spec: SES-DRAIN-2
const COALESCE: Duration = Duration::from_millis(15);
/// An idle drain looks at its peer this often.
const IDLE: Duration = Duration::from_millis(200);

/// Starts the thread; it ends the session, whatever happens.
///
/// # Errors
/// The OS gives no thread; the sink is dropped.
pub(crate) fn spawn(session: Arc<SessionCore>, sink: Box<dyn Sink>) -> io::Result<()> {
    let name = format!("diagport-drain-{}", session.id);
    thread::Builder::new().name(name).spawn(move || run(&session, sink)).map(drop)
}

// spec: SES-FAIL-3
fn run(session: &Arc<SessionCore>, sink: Box<dyn Sink>) {
    // What this thread itself writes as a producer must not wait for it.
    never_park();
    let mut drain = Drain {
        session: Arc::clone(session),
        stream: Stream::new(Arc::clone(session), sink),
        merge: Merge::default(),
        span: StampSpan::at(session.start),
        without_lane: Holding::default(),
    };
    let mut reason = match catch_unwind(AssertUnwindSafe(|| drain.serve())) {
        Ok(Ok(())) => EndReason::Stopped,
        Ok(Err(reason)) => reason,
        Err(panic) => EndReason::Panicked(panic_text(&*panic).to_owned()),
    };
    // Before the sink is closed, which may take its time: producers are let go, providers know, memory is given back.
    session.begin_stop(reason.clone());
    let Drain { stream, merge, .. } = drain;
    merge.give_back(&session.buffer);
    if let Err(panicked) = stream.close()
        && reason == EndReason::Stopped
    {
        reason = panicked;
    }
    session.finish(reason.clone());
    // Last: a program's log is foreign code too, and nobody waits any more.
    match reason {
        EndReason::Stopped => {}
        // The usual way for a client to leave.
        EndReason::PeerClosed => tracing::debug!(session = %session.id, "the session's peer has gone"),
        reason => tracing::warn!(session = %session.id, ?reason, "session cut"),
    }
}

/// What a round shows.
#[derive(Clone, Copy)]
enum Round {
    /// What is stamped below this boundary.
    Before(u64),
    /// Everything: nothing comes any more.
    Last,
}

struct Drain {
    session: Arc<SessionCore>,
    stream: Stream,
    merge: Merge,
    /// What stamps mean, up to the last round.
    span: StampSpan,
    /// The id on which loss is shown of threads that never got as far as a lane.
    without_lane: Holding,
}

impl Drain {
    /// Until the stop: complete stream. An error is why the stream is cut.
    fn serve(&mut self) -> Result<(), EndReason> {
        // A file that is written at the end has its head at once, and no rounds.
        let has_rounds = self.session.config.session_type != SessionType::File;
        if has_rounds {
            self.stream.send()?;
        } else {
            self.stream.send_head()?;
        }
        // spec: SES-LIFE-5
        self.session.pipe.announce(&self.session);
        loop {
            if has_rounds {
                self.session.signal.arm();
            }
            if self.session.is_stopping() {
                break;
            }
            if self.stream.peer_closed()? {
                return Err(EndReason::PeerClosed);
            }
            if has_rounds {
                self.span = self.span.next(self.session.pipe.time.now());
                self.round(Round::Before(self.span.boundary()))?;
            }
            self.session.signal.wait(COALESCE, IDLE);
        }
        self.end()
    }

    // spec: SES-STOP-2
    fn end(&mut self) -> Result<(), EndReason> {
        self.check_cut()?;
        // The one who asked may not have got that far yet, and no bit may outlive the slot.
        self.session.pipe.disable(&self.session);
        self.session.buffer.close();
        self.span = self.span.next(self.session.pipe.time.now());
        self.round(Round::Last)?;
        if self.session.config.rundown_keyword != 0 {
            rundown::write(&self.session, &mut self.stream)?;
        }
        self.stream.end()
    }

    fn check_cut(&self) -> Result<(), EndReason> {
        match self.session.stop_request() {
            Some(stop) if self.session.is_cut() => Err(stop.reason),
            _ => Ok(()),
        }
    }

    /// Takes everything, shows what is due, and sends it.
    // spec: SES-DRAIN-1
    fn round(&mut self, round: Round) -> Result<(), EndReason> {
        let Self { session, stream, merge, span, .. } = self;
        let buffer = &session.buffer;
        let boundary = match round {
            Round::Before(boundary) => {
                buffer.collect(|take| merge.add(take));
                boundary
            }
            Round::Last => {
                buffer.collect_last(|take| merge.add(take));
                u64::MAX
            }
        };
        merge.begin(boundary);
        while let Some(shown) = merge.next_run(|run| {
            run.for_each(buffer, |thread, holding, record, lost| {
                if stream.is_full_for(record) {
                    stream.send()?;
                }
                if lost > 0 {
                    stream.loss(holding, thread, lost);
                }
                stream.record(holding, thread.os_thread_id, record, span.ticks(record.ticks));
                Ok(())
            })
        }) {
            shown?;
        }
        buffer.end_round();
        // spec: SES-THREAD-4
        let without_lane = buffer.take_drops_without_lane();
        if without_lane > 0 {
            let thread = CaptureThread { os_thread_id: 0, name: "threads without capacity" };
            stream.loss(&mut self.without_lane, thread, without_lane);
        }
        let left = merge.settle(|cursor, lost, liveness| {
            // Threads that lost everything have an info event each: with many of them, more than one piece.
            if stream.is_full() {
                stream.send()?;
            }
            let (thread, holding) = cursor.numbering();
            stream.loss(holding, thread, lost);
            if liveness == Liveness::Ended {
                stream.release(holding);
            }
            Ok(())
        })?;
        if left {
            session.signal.wake(WakeReason::FirstRecord);
        }
        stream.send()
    }
}

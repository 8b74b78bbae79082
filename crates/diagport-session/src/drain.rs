//! The drain thread of one session: takes what producers wrote, in rounds, and writes the stream.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use diagport_buffer::{Liveness, WakeReader, WakeReason};

use crate::dispatcher::panic_text;
use crate::merge::{Merge, capture_thread};
use crate::rundown;
use crate::session::{EndReason, SessionCore};
use crate::sink::Sink;
use crate::stream::Stream;
use crate::thread_state::never_park;

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

struct Drain {
    session: Arc<SessionCore>,
    stream: Stream,
    merge: Merge,
}

impl Drain {
    /// Until the stop: complete stream. An error is why the stream is cut.
    fn serve(&mut self) -> Result<(), EndReason> {
        self.stream.send()?;
        // spec: SES-LIFE-5
        self.session.pipe.announce(&self.session);
        loop {
            self.session.signal.arm();
            if self.session.is_stopping() {
                break;
            }
            if self.stream.peer_closed()? {
                return Err(EndReason::PeerClosed);
            }
            let boundary = self.session.pipe.clock.ticks();
            self.round(boundary)?;
            self.session.signal.wait();
        }
        self.end()
    }

    // spec: SES-STOP-2
    fn end(&mut self) -> Result<(), EndReason> {
        self.check_cut()?;
        // The one who asked may not have got that far yet, and no bit may outlive the slot.
        self.session.pipe.disable(&self.session);
        self.session.buffer.close();
        self.round(i64::MAX)?;
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

    /// Takes everything, shows what is stamped below `boundary`, and sends it.
    // spec: SES-DRAIN-1
    fn round(&mut self, boundary: i64) -> Result<(), EndReason> {
        let Self { session, stream, merge } = self;
        let buffer = &session.buffer;
        buffer.collect(|take| merge.add(take));
        merge.begin(boundary);
        while let Some(run) = merge.next_run() {
            let cursor = merge.cursor(run);
            let lane = Arc::clone(cursor.lane());
            let thread = capture_thread(&lane);
            let mut holding = std::mem::take(&mut cursor.holding);
            while let Some(record) = cursor.front(run) {
                if stream.is_full_for(&record) {
                    stream.send()?;
                }
                let lost = cursor.lost_before(&record);
                stream.loss(&mut holding, thread, lost);
                stream.record(&mut holding, thread.os_thread_id, &record);
                let attempt = record.attempt;
                cursor.pop(attempt, buffer);
            }
            cursor.holding = holding;
            merge.end_run(run);
        }
        let left = merge.settle(|cursor, lost, liveness| {
            // Threads that lost everything have an info event each: with many of them, more than one piece.
            if stream.is_full() {
                stream.send()?;
            }
            let lane = Arc::clone(cursor.lane());
            stream.loss(&mut cursor.holding, capture_thread(&lane), lost);
            if liveness == Liveness::Ended {
                stream.release(&mut cursor.holding);
            }
            Ok(())
        })?;
        if left {
            session.signal.wake(WakeReason::FirstRecord);
        }
        stream.send()
    }
}

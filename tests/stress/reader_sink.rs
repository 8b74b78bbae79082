//! The far end of a session, and what it does to it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use diagport_session::Sink;

use crate::plan::ReaderPlan;

/// What every planned panic says.
pub(crate) const PLANNED_PANIC: &str = "planned";

/// Shared by the sink and by whoever judges the stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl Received {
    pub(crate) fn sink(&self, plan: ReaderPlan) -> Box<dyn Sink> {
        Box::new(ReaderSink { received: self.clone(), plan, calls: 0 })
    }

    /// The stream and whether its sink was closed.
    pub(crate) fn take(&self) -> (Vec<u8>, bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut state.bytes), state.is_closed)
    }

    fn len(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes.len() as u64
    }

    fn push(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes.extend_from_slice(bytes);
    }
}

struct ReaderSink {
    received: Received,
    plan: ReaderPlan,
    calls: u64,
}

impl ReaderSink {
    /// Takes up to the limit; `beyond` says what comes then.
    fn up_to(
        &self,
        limit: u64,
        bytes: &[u8],
        beyond: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let room = usize::try_from(limit.saturating_sub(self.received.len())).unwrap_or(usize::MAX);
        if room == 0 {
            return beyond();
        }
        let taken = room.min(bytes.len());
        self.received.push(&bytes[..taken]);
        Ok(taken)
    }
}

impl Sink for ReaderSink {
    fn write(&mut self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
        self.calls += 1;
        match self.plan {
            ReaderPlan::Reads | ReaderPlan::PanicsInClose => self.up_to(u64::MAX, bytes, || Ok(0)),
            ReaderPlan::Slow => {
                thread::sleep(wait.min(Duration::from_millis(1)));
                // Now and then it takes nothing in its time.
                let limit = if self.calls.is_multiple_of(5) { 0 } else { 96 << 10 };
                self.received.push(&bytes[..bytes.len().min(limit)]);
                Ok(bytes.len().min(limit))
            }
            ReaderPlan::Tiny => {
                let most =
                    1 + usize::try_from(self.calls % 13).unwrap_or(0) * usize::from(self.calls % 64 < 32);
                // Of large pieces only the edges are taken in crumbs.
                let most = if bytes.len() > 4_096 { bytes.len() - 2_000 } else { most };
                self.up_to(u64::MAX, &bytes[..bytes.len().min(most)], || Ok(0))
            }
            ReaderPlan::StopsAfter(limit) => self.up_to(limit, bytes, || {
                thread::sleep(wait);
                Ok(0)
            }),
            ReaderPlan::FailsAfter(limit) => {
                self.up_to(limit, bytes, || Err(io::Error::other(PLANNED_PANIC)))
            }
            ReaderPlan::PanicsAfter(limit) => self.up_to(limit, bytes, || panic!("{PLANNED_PANIC}")),
            ReaderPlan::ClosesAfter(limit) => {
                self.up_to(limit, bytes, || Err(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    fn peer_closed(&mut self) -> bool {
        match self.plan {
            ReaderPlan::ClosesAfter(limit) => self.received.len() >= limit,
            ReaderPlan::PanicsAfter(limit) if self.received.len() >= limit => panic!("{PLANNED_PANIC}"),
            _ => false,
        }
    }

    fn close(self: Box<Self>) {
        self.received.0.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        assert!(self.plan != ReaderPlan::PanicsInClose, "{PLANNED_PANIC}");
    }
}

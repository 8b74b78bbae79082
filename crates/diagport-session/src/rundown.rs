//! Events that a session gets at its end, written on its drain thread straight into its stream.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::dispatcher::panic_text;
use crate::event::{Event, WriteOutcome};
use crate::field::{EventFields, PayloadBuffer};
use crate::session::{EndReason, SessionCore, SessionId};
use crate::stream::Stream;

/// What a rundown hook writes to.
///
/// It uses none of the session's budget: what is written goes to the sink at once, at the reader's pace, so a rundown of any size
/// is complete as long as the reader reads. Its events are not counted in the statistics.
pub struct RundownWriter<'a> {
    session: &'a Arc<SessionCore>,
    stream: &'a mut Stream,
    payload: PayloadBuffer,
    cut: Option<EndReason>,
}

// spec: SES-RUNDOWN-1
pub(crate) fn write(session: &Arc<SessionCore>, stream: &mut Stream) -> Result<(), EndReason> {
    let mut writer = RundownWriter { session, stream, payload: PayloadBuffer::new(), cut: None };
    for hook in session.pipe.rundown_hooks() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hook(&mut writer))) {
            tracing::error!(panic = panic_text(&*panic), "a rundown hook panicked");
        }
    }
    writer.cut.map_or(Ok(()), Err)
}

impl RundownWriter<'_> {
    /// The session that ends.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session.id
    }

    /// Which rundown it asked for; not 0.
    #[must_use]
    pub fn keyword(&self) -> u64 {
        self.session.config.rundown_keyword
    }

    /// Writes one event into this session alone. Its keywords must meet [`keyword`](Self::keyword), or be 0; level and filters do not matter.
    ///
    /// Waits for the reader. `Dropped` says that the payload is too large, or that the reader is gone and the hook may as well return.
    pub fn write<F: EventFields>(&mut self, event: &Event<F>, args: F::Args<'_>) -> WriteOutcome {
        if self.cut.is_some() {
            return WriteOutcome::Dropped;
        }
        let metadata = &event.core.metadata;
        if metadata.keywords != 0 && metadata.keywords & self.keyword() == 0 {
            return WriteOutcome::Disabled;
        }
        self.payload.clear();
        F::encode(&args, &mut self.payload);
        let Some(payload) = self.payload.payload() else { return WriteOutcome::Dropped };
        if self.stream.is_full_for_rundown(event.core.key, payload.len())
            && let Err(reason) = self.stream.send()
        {
            self.cut = Some(reason);
            return WriteOutcome::Dropped;
        }
        let ticks = self.session.pipe.time.ticks();
        self.stream.rundown_event(event.core.key, metadata, ticks, payload);
        WriteOutcome::Written
    }
}

impl fmt::Debug for RundownWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RundownWriter").field("session", &self.session).finish_non_exhaustive()
    }
}

//! Providers: named groups of events that sessions enable.

use std::fmt;
use std::sync::Arc;

use crate::event::{DefineEventError, Event, EventDefinition};
use crate::event_pipe::PipeInner;
use crate::field::EventFields;
use crate::session::SessionId;
use crate::session_config::EventLevel;

/// A handle of a provider. Two handles of one name are the same provider.
#[derive(Clone)]
pub struct Provider {
    pub(crate) pipe: Arc<PipeInner>,
    pub(crate) name: Arc<str>,
    pub(crate) index: usize,
}

/// Whether any session wants anything of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderControl {
    /// At least one does.
    Enabled,
    /// None does.
    Disabled,
}

/// What has happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnableCause {
    /// It began to want something of the provider. A provider that dumps its state does it now.
    SessionStarted,
    /// It ended.
    SessionStopped,
}

/// What a provider is told when a session that names it starts or stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnableChange {
    /// The session that started or stopped.
    pub session_id: SessionId,
    /// Which of the two.
    pub cause: EnableCause,
    /// Whether any session is left.
    pub control: ProviderControl,
    /// The most verbose level of all sessions that are left; `LogAlways` is "no limit". `LogAlways` too when none is left.
    pub level: EventLevel,
    /// OR over all sessions that are left.
    pub keywords: u64,
    /// The arguments that `session_id` has for this provider.
    pub arguments: Option<String>,
}

pub(crate) type EnableCallback = Arc<dyn Fn(&EnableChange) + Send + Sync>;

impl Provider {
    /// Its exact name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Defines an event with the field types `F` and a name for each: `define::<(i64, String)>(…, ["count", "text"])`.
    /// The same definition again gives a handle of the same event. Sessions that run already have it from now on.
    ///
    /// # Errors
    /// The id is too large or taken by an event with other fields.
    pub fn define<F: EventFields>(
        &self,
        definition: EventDefinition,
        field_names: F::Names<'_>,
    ) -> Result<Event<F>, DefineEventError> {
        let core = self.pipe.define_event(self, definition, F::describe(field_names))?;
        Ok(Event::new(core, Arc::clone(&self.pipe)))
    }

    /// Calls back for each session that starts or stops and names this provider, those that run now included.
    ///
    /// The callback runs on the pipe's one dispatcher thread, under no lock: it may write events, in a Block session more than its
    /// budget holds, and may take long, but then later callbacks of the pipe wait. Each start comes once and before its stop.
    /// A panic is logged and contained.
    pub fn on_enable_change(&self, callback: impl Fn(&EnableChange) + Send + Sync + 'static) {
        self.pipe.add_callback(self.index, Arc::new(callback));
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).finish_non_exhaustive()
    }
}

//! Events: defined once, written often.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diagport_nettrace::EventMetadata;

use crate::event_pipe::PipeInner;
use crate::field::EventFields;
use crate::session_config::EventLevel;
use crate::thread_state;

/// What a program says about an event before it defines it: id and name, and what sessions select by.
#[derive(Clone, Debug)]
#[must_use]
pub struct EventDefinition {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) keywords: u64,
    pub(crate) level: EventLevel,
    pub(crate) version: u32,
    pub(crate) opcode: u8,
}

impl EventDefinition {
    /// An informational event, version 0, without keywords (so that every session of its provider wants it).
    /// Readers keep 16 bits of the id.
    pub fn new(id: u32, name: impl Into<String>) -> Self {
        let level = EventLevel::Informational;
        Self { id, name: name.into(), keywords: 0, level, version: 0, opcode: 0 }
    }

    /// Bits that sessions select by. Bits 44–47 are shown to readers but select nothing.
    pub fn keywords(mut self, keywords: u64) -> Self {
        self.keywords = keywords;
        self
    }

    /// Severity; `LogAlways` passes every limit.
    pub fn level(mut self, level: EventLevel) -> Self {
        self.level = level;
        self
    }

    /// Version of the meaning; readers keep 8 bits.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// 1 start, 2 stop, others as the program likes; 0 is none.
    pub fn opcode(mut self, opcode: u8) -> Self {
        self.opcode = opcode;
        self
    }
}

/// Why an event cannot be defined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefineEventError {
    /// Readers keep one field layout per provider and event id, and would misread the other one.
    #[error("event {event_id} of {provider} is defined with other fields already")]
    LayoutConflict {
        /// The provider's name.
        provider: String,
        /// The id that is taken.
        event_id: u32,
    },
    /// Readers keep 16 bits.
    #[error("event id {event_id} is above 65535")]
    EventIdTooLarge {
        /// The id.
        event_id: u32,
    },
}

/// What became of one [`Event::write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Every session that wants the event has it.
    Written,
    /// At least one session that wants it lost it, and has counted that.
    Dropped,
    /// No session wants it.
    Disabled,
}

/// What an event can carry besides its fields. All optional: `..EventContext::default()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventContext<'a> {
    /// All zero is none.
    pub activity_id: [u8; 16],
    /// All zero is none.
    pub related_activity_id: [u8; 16],
    /// Return addresses, innermost first. Recorded by sessions with [`StackWalk::On`](crate::StackWalk).
    pub stack: &'a [u64],
    /// The OS thread the event is about, where that is not the writing one.
    pub thread_id: Option<u64>,
}

/// An event that a program can write. `F` is the tuple of its field types, for example `(i64, String)`.
///
/// Cheap to clone, and usable from any thread. Made by [`Provider::define`](crate::Provider::define).
pub struct Event<F> {
    pub(crate) core: Arc<EventCore>,
    pub(crate) pipe: Arc<PipeInner>,
    fields: PhantomData<fn(F)>,
}

/// The part that does not depend on the field types.
#[derive(Debug)]
pub(crate) struct EventCore {
    /// Index in the pipe's list of all events.
    pub(crate) key: u32,
    /// A bit for each session slot that wants the event. Written under the pipe's lock only.
    // Relaxed everywhere: a producer that acts on a set bit looks the session up under a lock and looks at the bit once more.
    pub(crate) enabled_slots: AtomicU64,
    pub(crate) metadata: EventMetadata,
    pub(crate) level: EventLevel,
}

impl EventCore {
    pub(crate) fn set_slot(&self, slot: usize, wanted: bool) {
        if wanted {
            self.enabled_slots.fetch_or(1 << slot, Ordering::Relaxed);
        } else {
            self.enabled_slots.fetch_and(!(1 << slot), Ordering::Relaxed);
        }
    }
}

impl<F: EventFields> Event<F> {
    pub(crate) fn new(core: Arc<EventCore>, pipe: Arc<PipeInner>) -> Self {
        Self { core, pipe, fields: PhantomData }
    }

    /// Whether a session wants the event: one relaxed load. Ask before costly arguments are made; [`write`](Self::write)
    /// asks by itself.
    // spec: SES-EVENT-1
    #[inline]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.core.enabled_slots.load(Ordering::Relaxed) != 0
    }

    /// Writes the event to every session that wants it: `event.write((1, "text"))`.
    ///
    /// Does not wait, unless a Block session has no capacity: then until its drain has freed some, or the session is stopping.
    /// Allocates nothing but, now and then, a chunk of a session's budget. Not for signal handlers: the thread may be in the middle of an event.
    #[inline]
    pub fn write(&self, args: F::Args<'_>) -> WriteOutcome {
        if !self.is_enabled() {
            return WriteOutcome::Disabled;
        }
        thread_state::write::<F>(&self.pipe, &self.core, None, &args)
    }

    /// [`write`](Self::write) with activity ids, a stack or another thread's id.
    #[inline]
    pub fn write_with(&self, context: &EventContext<'_>, args: F::Args<'_>) -> WriteOutcome {
        if !self.is_enabled() {
            return WriteOutcome::Disabled;
        }
        thread_state::write::<F>(&self.pipe, &self.core, Some(context), &args)
    }
}

impl<F> Clone for Event<F> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), pipe: Arc::clone(&self.pipe), fields: PhantomData }
    }
}

impl<F> fmt::Debug for Event<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Event").field(&self.core).finish()
    }
}

//! What a pipe knows of its providers, events and sessions; all of it under one lock that is only ever held for a moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use diagport_nettrace::{EventMetadata, Field};

use crate::dispatcher::Dispatcher;
use crate::enable_state::{Enablement, Union};
use crate::event::{DefineEventError, EventCore, EventDefinition};
use crate::provider::{EnableCallback, EnableCause, EnableChange, ProviderControl};
use crate::session::SessionCore;
use crate::session_config::EventLevel;
use crate::statistics::PipeStatistics;

/// Sessions at a time.
pub(crate) const SLOTS: usize = 64;

#[derive(Default)]
pub(crate) struct PipeState {
    providers: Vec<ProviderState>,
    provider_indexes: HashMap<Arc<str>, usize>,
    events: Vec<Arc<EventCore>>,
    /// Index = slot; at most [`SLOTS`] long.
    slots: Vec<Option<SlotEntry>>,
    pub(crate) shutting_down: bool,
    /// Sums of the sessions that ended.
    pub(crate) finished: PipeStatistics,
}

struct ProviderState {
    name: Arc<str>,
    events: Vec<Arc<EventCore>>,
    callbacks: Vec<CallbackState>,
}

struct CallbackState {
    callback: EnableCallback,
    /// Slots whose start was queued and whose stop was not.
    told_slots: u64,
}

struct SlotEntry {
    session: Arc<SessionCore>,
    stage: Stage,
}

/// How far the providers know of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It only holds its slot.
    Inert,
    /// Its bits are in the masks of the events.
    Enabled,
    /// Enabled, and the callbacks are queued.
    Announced,
    /// Its bits are gone for good, and what was queued has its counterpart queued.
    Disabled,
}

impl Stage {
    fn is_live(self) -> bool {
        matches!(self, Self::Enabled | Self::Announced)
    }
}

impl PipeState {
    /// Index and shared name of the provider, made if need be.
    pub(crate) fn provider(&mut self, name: &str) -> (usize, Arc<str>) {
        if let Some((name, index)) = self.provider_indexes.get_key_value(name) {
            return (*index, Arc::clone(name));
        }
        let (index, name) = (self.providers.len(), Arc::<str>::from(name));
        let state = ProviderState { name: Arc::clone(&name), events: Vec::new(), callbacks: Vec::new() };
        self.providers.push(state);
        self.provider_indexes.insert(Arc::clone(&name), index);
        (index, name)
    }

    // spec: SES-EVENT-2
    pub(crate) fn define_event(
        &mut self,
        provider: usize,
        definition: EventDefinition,
        fields: Vec<Field>,
    ) -> Result<Arc<EventCore>, DefineEventError> {
        let EventDefinition { id: event_id, name: event_name, keywords, level, version, opcode } = definition;
        if event_id > u32::from(u16::MAX) {
            return Err(DefineEventError::EventIdTooLarge { event_id });
        }
        let state = &mut self.providers[provider];
        let metadata = EventMetadata {
            provider: state.name.to_string(),
            event_id,
            event_name,
            keywords,
            version,
            level: level as u32,
            opcode,
            fields,
        };
        let mut same_id = state.events.iter().filter(|event| event.metadata.event_id == event_id);
        if let Some(first) = same_id.clone().next()
            && first.metadata.fields != metadata.fields
        {
            return Err(DefineEventError::LayoutConflict { provider: metadata.provider, event_id });
        }
        if let Some(same) = same_id.find(|event| event.metadata == metadata) {
            return Ok(Arc::clone(same));
        }
        let key = u32::try_from(self.events.len())
            .expect("invariant: events fit memory, so their count fits 32 bits");
        let event = Arc::new(EventCore { key, enabled_slots: 0.into(), metadata, level });
        for (slot, entry) in self.slots.iter().enumerate() {
            if let Some(entry) = entry.as_ref().filter(|entry| entry.stage.is_live()) {
                event.set_slot(slot, entry.wants(&state.name, &event));
            }
        }
        state.events.push(Arc::clone(&event));
        self.events.push(Arc::clone(&event));
        Ok(event)
    }

    pub(crate) fn event(&self, key: u32) -> Arc<EventCore> {
        Arc::clone(&self.events[key as usize])
    }

    pub(crate) fn add_callback(
        &mut self,
        provider: usize,
        callback: EnableCallback,
        dispatcher: &Dispatcher,
    ) {
        let mut state = CallbackState { callback, told_slots: 0 };
        for (slot, entry) in self.slots.iter().enumerate() {
            let announced = entry.as_ref().filter(|entry| entry.stage == Stage::Announced);
            if let Some(entry) = announced
                && let Some(change) = self.change(provider, &entry.session, EnableCause::SessionStarted)
            {
                state.tell(slot, change, dispatcher);
            }
        }
        self.providers[provider].callbacks.push(state);
    }

    /// The lowest slot that is free.
    pub(crate) fn free_slot(&mut self) -> Option<usize> {
        if let Some(slot) = self.slots.iter().position(Option::is_none) {
            return Some(slot);
        }
        (self.slots.len() < SLOTS).then(|| {
            self.slots.push(None);
            self.slots.len() - 1
        })
    }

    pub(crate) fn hold_slot(&mut self, session: Arc<SessionCore>) {
        let slot = session.slot;
        self.slots[slot] = Some(SlotEntry { session, stage: Stage::Inert });
    }

    pub(crate) fn free(&mut self, session: &SessionCore) {
        self.slots[session.slot] = None;
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<SessionCore>> {
        self.slots.iter().flatten().map(|entry| &entry.session)
    }

    /// How many sessions were enabled and still hold their slots.
    pub(crate) fn enabled_sessions(&self) -> usize {
        self.slots.iter().flatten().filter(|entry| entry.stage != Stage::Inert).count()
    }

    /// The session of a slot, if it still is one that wants the event.
    pub(crate) fn session_for(&self, slot: usize, event: &EventCore) -> Option<&Arc<SessionCore>> {
        let entry = self.slots.get(slot)?.as_ref().filter(|entry| entry.stage.is_live())?;
        // The caller saw the bit earlier, maybe when another session had the slot.
        (event.enabled_slots.load(Ordering::Relaxed) >> slot & 1 == 1).then_some(&entry.session)
    }

    /// Sets the session's bits: from now on producers write to it.
    /// None where the session does not hold its slot any more, or is enabled already.
    pub(crate) fn enable(&mut self, session: &SessionCore) -> Option<()> {
        self.move_stage(session, &[Stage::Inert], Stage::Enabled)?;
        let entry = self.slots[session.slot].as_ref()?;
        for provider in &self.providers {
            for event in &provider.events {
                event.set_slot(session.slot, entry.wants(&provider.name, event));
            }
        }
        Some(())
    }

    /// Queues the callbacks of the session's start.
    pub(crate) fn announce(&mut self, session: &SessionCore, dispatcher: &Dispatcher) {
        if self.move_stage(session, &[Stage::Enabled], Stage::Announced).is_some() {
            self.tell_all(session, EnableCause::SessionStarted, dispatcher);
        }
    }

    /// Clears the session's bits, and queues the callbacks of its stop; before them those of its start, where its end came first. Once; later
    /// calls do nothing.
    pub(crate) fn disable(&mut self, session: &SessionCore, dispatcher: &Dispatcher) {
        self.announce(session, dispatcher);
        if self.move_stage(session, &[Stage::Inert, Stage::Announced], Stage::Disabled).is_none() {
            return;
        }
        for event in &self.events {
            event.set_slot(session.slot, false);
        }
        self.tell_all(session, EnableCause::SessionStopped, dispatcher);
    }

    fn move_stage(&mut self, session: &SessionCore, from: &[Stage], to: Stage) -> Option<()> {
        let entry = self.slots.get_mut(session.slot)?.as_mut()?;
        if entry.session.id != session.id || !from.contains(&entry.stage) {
            return None;
        }
        entry.stage = to;
        Some(())
    }

    // spec: SES-CALLBACK-2
    fn tell_all(&mut self, session: &SessionCore, cause: EnableCause, dispatcher: &Dispatcher) {
        for provider in 0..self.providers.len() {
            let Some(change) = self.change(provider, session, cause) else { continue };
            for callback in &mut self.providers[provider].callbacks {
                callback.tell(session.slot, change.clone(), dispatcher);
            }
        }
    }

    /// What a provider hears of a session; None if the session does not name it.
    fn change(&self, provider: usize, session: &SessionCore, cause: EnableCause) -> Option<EnableChange> {
        let name = &self.providers[provider].name;
        let own = Enablement::of(name, &session.config.providers)?;
        let mut union = Union::default();
        for entry in self.slots.iter().flatten().filter(|entry| entry.stage.is_live()) {
            if let Some(enabled) = Enablement::of(name, &entry.session.config.providers) {
                union.add(enabled.keywords, enabled.level);
            }
        }
        let control =
            if union.level.is_some() { ProviderControl::Enabled } else { ProviderControl::Disabled };
        Some(EnableChange {
            session_id: session.id,
            cause,
            control,
            level: union.level.unwrap_or(EventLevel::LogAlways),
            keywords: union.keywords,
            arguments: own.arguments.map(str::to_owned),
        })
    }
}

impl SlotEntry {
    fn wants(&self, provider: &str, event: &EventCore) -> bool {
        Enablement::of(provider, &self.session.config.providers).is_some_and(|enabled| {
            enabled.passes(event.metadata.event_id, event.metadata.keywords, event.level)
        })
    }
}

impl CallbackState {
    fn tell(&mut self, slot: usize, change: EnableChange, dispatcher: &Dispatcher) {
        let bit = 1 << slot;
        let due = match change.cause {
            EnableCause::SessionStarted => self.told_slots & bit == 0,
            EnableCause::SessionStopped => self.told_slots & bit != 0,
        };
        if due {
            self.told_slots ^= bit;
            let callback = Arc::clone(&self.callback);
            dispatcher.queue(move || callback(&change));
        }
    }
}

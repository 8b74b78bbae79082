//! The events of the scripted target: provider `Peer-Load`, in the shapes of the real .NET target, so that one script and one judge serve both.

use diagport_session::{DefineEventError, Event, EventDefinition, EventLevel, EventPipe, Provider};

/// Keyword 1 (`Ticks`), with the four high bits that every EventSource definition carries in its metadata.
const TICKS: u64 = 0xF000_0000_0001;
/// Keyword 2 (`Activities`), likewise.
const ACTIVITIES: u64 = 0xF000_0000_0002;
const OPCODE_START: u8 = 1;
const OPCODE_STOP: u8 = 2;

/// The provider and its five events.
#[derive(Debug, Clone)]
pub(crate) struct PeerLoad {
    pub(crate) tick: Event<(i64, i64, String)>,
    pub(crate) outer_start: Event<(i32,)>,
    pub(crate) outer_stop: Event<(i32,)>,
    pub(crate) inner_start: Event<(i32,)>,
    pub(crate) inner_stop: Event<(i32,)>,
}

impl PeerLoad {
    pub(crate) fn register(pipe: &EventPipe) -> Result<Self, DefineEventError> {
        let provider = pipe.provider("Peer-Load");
        let tick = EventDefinition::new(1, "Tick").keywords(TICKS).level(EventLevel::Informational);
        Ok(Self {
            tick: provider.define(tick, ["index", "thread", "text"])?,
            outer_start: activity(&provider, 2, "OuterStart", OPCODE_START)?,
            outer_stop: activity(&provider, 3, "OuterStop", OPCODE_STOP)?,
            inner_start: activity(&provider, 4, "InnerStart", OPCODE_START)?,
            inner_stop: activity(&provider, 5, "InnerStop", OPCODE_STOP)?,
        })
    }
}

fn activity(provider: &Provider, id: u32, name: &str, opcode: u8) -> Result<Event<(i32,)>, DefineEventError> {
    let definition =
        EventDefinition::new(id, name).keywords(ACTIVITIES).level(EventLevel::Informational).opcode(opcode);
    provider.define(definition, ["number"])
}

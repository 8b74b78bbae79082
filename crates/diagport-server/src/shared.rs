//! What every task of one server knows.

use std::sync::Arc;

use diagport_codec::{Advertise, RuntimeCookie};
use diagport_session::EventPipe;
use diagport_transport::PortAccess;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::continuations::{Continuations, Turns};
use crate::farewells::Farewells;
use crate::half_open::HalfOpen;
use crate::live_sessions::LiveSessions;
use crate::statistics::Counters;
use crate::suspend_gate::SuspendGate;
use crate::{Host, Limits, PauseNotice, SessionFeature};

pub(crate) struct Shared {
    pub(crate) pipe: EventPipe,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) notice: Arc<dyn PauseNotice>,
    pub(crate) limits: Limits,
    pub(crate) access: PortAccess,
    pub(crate) rundown: SessionFeature,
    pub(crate) stack_walk: SessionFeature,
    pub(crate) cookie: RuntimeCookie,
    /// What Advertise says.
    pub(crate) process_id: u64,
    pub(crate) gate: SuspendGate,
    pub(crate) half_open: HalfOpen,
    pub(crate) farewells: Farewells,
    pub(crate) continuations: Continuations,
    pub(crate) environments: Turns,
    pub(crate) sessions: LiveSessions,
    pub(crate) counters: Counters,
    /// Dumps are written one at a time: a crowd of them must not take the threads that all host calls share.
    pub(crate) core_dumps: Arc<Semaphore>,
    pub(crate) host_calls: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    /// No new connection, no new request.
    pub(crate) stopping: CancellationToken,
    /// Nothing any more: shutdown's time has run out.
    pub(crate) aborting: CancellationToken,
}

impl Shared {
    pub(crate) const fn advertise(&self) -> Advertise {
        Advertise { cookie: self.cookie, process_id: self.process_id }
    }
}

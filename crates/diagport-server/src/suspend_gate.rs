//! Startup waits while a port that suspends it has not been resumed.

use tokio::sync::watch;

/// Names one port of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PortId(pub(crate) usize);

/// A port that still holds startup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingPort {
    pub(crate) id: PortId,
    pub(crate) name: String,
}

/// The ports that hold startup. The state belongs to the port, not to a connection: a peer may come and go.
#[derive(Debug)]
pub(crate) struct SuspendGate {
    pending: watch::Sender<Vec<PendingPort>>,
}

impl SuspendGate {
    pub(crate) fn new(pending: Vec<PendingPort>) -> Self {
        Self { pending: watch::Sender::new(pending) }
    }

    pub(crate) fn is_suspended(&self) -> bool {
        !self.pending.borrow().is_empty()
    }

    /// A resume that came over that port. It counts once, and for that port only.
    // spec: SRV-SUSPEND-1
    pub(crate) fn resume(&self, port: PortId) {
        self.pending.send_if_modified(|pending| {
            let before = pending.len();
            pending.retain(|candidate| candidate.id != port);
            pending.len() != before
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Vec<PendingPort>> {
        self.pending.subscribe()
    }

    pub(crate) async fn wait_resumed(&self) {
        // The sender is `self`: it cannot have gone.
        let _ = self.subscribe().wait_for(Vec::is_empty).await;
    }
}

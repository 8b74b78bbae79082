//! The end of connections that have their answer.
//!
//! A socket closed with unread bytes makes the peer see a reset in place of the end, so each is read out first. Nearly every peer
//! closes as soon as it has its reply; so the connections wait together for a moment, cost nothing while they do, and only those
//! whose peer is still there then get a task that waits on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diagport_transport::{IpcStream, Received};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::shared::Shared;

/// The moment.
const MOMENT: Duration = Duration::from_millis(5);
/// As many are not kept waiting for it.
const FULL: usize = 128;

const CHUNK_BYTES: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Farewells {
    parting: Mutex<Vec<Parting>>,
    begun: Notify,
}

/// A connection whose direction to the peer has been ended.
#[derive(Debug)]
struct Parting {
    stream: IpcStream,
    since: Instant,
}

impl Farewells {
    /// Ends our direction of an answered connection, and sees to the rest.
    // spec: SRV-CLOSE-1
    pub(crate) fn part(&self, shared: &Arc<Shared>, mut stream: IpcStream) {
        if stream.shutdown_write().is_err() {
            return;
        }
        if shared.stopping.is_cancelled() {
            read_out_now(&mut stream, shared.limits.drain_bytes);
            return;
        }
        // Its end is nothing to wake up for.
        stream.leave_runtime();
        let count = {
            let mut parting = self.lock();
            parting.push(Parting { stream, since: Instant::now() });
            parting.len()
        };
        match count {
            1 => self.begun.notify_one(),
            FULL.. => self.look(shared),
            _ => {}
        }
    }

    /// Connections in their moment.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Closes all that wait, read out as far as it goes. Returns how many.
    pub(crate) fn close_all(&self, limit_bytes: usize) -> usize {
        let parting = std::mem::take(&mut *self.lock());
        let count = parting.len();
        for Parting { mut stream, .. } in parting {
            read_out_now(&mut stream, limit_bytes);
        }
        count
    }

    /// Closes those whose peer has gone and gives the others a task.
    fn look(&self, shared: &Arc<Shared>) {
        let parting = std::mem::take(&mut *self.lock());
        for Parting { mut stream, since } in parting {
            let left_bytes = read_out_now(&mut stream, shared.limits.drain_bytes);
            if left_bytes > 0 {
                let end = since + shared.limits.drain;
                shared.tasks.spawn(read_out(Arc::clone(shared), stream, end, left_bytes));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Parting>> {
        self.parting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after the farewells of a server until it stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let work = async {
        loop {
            shared.farewells.begun.notified().await;
            tokio::time::sleep(MOMENT).await;
            shared.farewells.look(&shared);
        }
    };
    tokio::select! {
        () = shared.stopping.cancelled() => {}
        () = work => {}
    }
    shared.farewells.close_all(shared.limits.drain_bytes);
}

/// Throws away what has come. 0: the peer's end was read, or so many bytes that it may see a reset; otherwise what is left of
/// `limit_bytes`.
fn read_out_now(stream: &mut IpcStream, limit_bytes: usize) -> usize {
    let mut chunk = [0; CHUNK_BYTES];
    let mut left_bytes = limit_bytes;
    while left_bytes > 0 {
        match stream.take_received(&mut chunk) {
            Received::Bytes(bytes) => left_bytes = left_bytes.saturating_sub(bytes),
            Received::Nothing => break,
            Received::End => return 0,
        }
    }
    left_bytes
}

async fn read_out(shared: Arc<Shared>, mut stream: IpcStream, end: Instant, mut left_bytes: usize) {
    let _held = shared.counters.connections_now.hold();
    let mut chunk = [0; CHUNK_BYTES];
    while left_bytes > 0 {
        let received = tokio::select! {
            biased;
            received = timeout_at(end, stream.read(&mut chunk)) => received,
            () = shared.stopping.cancelled() => return,
        };
        match received {
            Ok(Ok(bytes)) if bytes > 0 => left_bytes = left_bytes.saturating_sub(bytes),
            _ => return,
        }
    }
}

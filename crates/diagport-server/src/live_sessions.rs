//! The sessions that own a connection of this server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diagport_session::{Session, SessionId};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::shared::Shared;

#[derive(Debug, Default)]
pub(crate) struct LiveSessions {
    sessions: Mutex<HashMap<SessionId, Session>>,
}

impl LiveSessions {
    /// Remembers a session until it has ended. Called before it starts.
    pub(crate) fn add(&self, shared: &Arc<Shared>, session: &Session) {
        let id = session.id();
        self.lock().insert(id, session.clone());
        // Weak: a session must not keep the server alive.
        let server = Arc::downgrade(shared);
        session.on_finished(Box::new(move |_end| {
            if let Some(server) = server.upgrade() {
                server.sessions.lock().remove(&id);
            }
        }));
    }

    /// Asks all of them to end; does not wait.
    pub(crate) fn request_stop_all(&self) {
        self.all().iter().for_each(Session::request_stop);
    }

    /// Stops all of them, at the same time, and waits for their ends. What has not ended `abort_time` before the
    /// deadline is cut. Returns how many were.
    pub(crate) async fn stop_all(&self, deadline: Instant, abort_time: Duration) -> usize {
        let sessions = self.all();
        let ends: Vec<oneshot::Receiver<()>> = sessions
            .iter()
            .map(|session| {
                let (sender, end) = oneshot::channel();
                session.on_finished(Box::new(move |_end| {
                    let _ = sender.send(());
                }));
                session.request_stop();
                end
            })
            .collect();
        let orderly = deadline.checked_sub(abort_time).unwrap_or(deadline);
        let mut cut = Vec::new();
        for (session, mut end) in sessions.iter().zip(ends) {
            if timeout_at(orderly, &mut end).await.is_err() {
                session.abort("the server shuts down");
                cut.push(end);
            }
        }
        let cut_sessions = cut.len();
        for end in cut {
            // It ends in any case; only this wait may not.
            let _ = timeout_at(deadline, end).await;
        }
        cut_sessions
    }

    /// A copy: a session that ends calls back into this table.
    fn all(&self) -> Vec<Session> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Ends sessions when the program exits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use diagport_session::Session;
use diagport_sys::{exit, fork};

/// How long an exit may wait for the ends of all sessions.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Those that have not ended.
static SESSIONS: Mutex<Vec<Session>> = Mutex::new(Vec::new());
/// The process that has them: a forked child has none of the threads that would end them, and maybe a lock that nobody gives back.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Ends the session in order if the program exits before it has ended. Call it before the session starts.
pub(crate) fn end_at_exit(session: &Session) {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        if let Err(error) = exit::at_exit(end_sessions) {
            tracing::warn!(%error, "a program that exits without a shutdown leaves its startup session without an end");
        }
    });
    if GENERATION.swap(fork::generation(), Ordering::Relaxed) != fork::generation() {
        // The parent's, which that process ends.
        sessions().clear();
    }
    sessions().push(session.clone());
    let id = session.id();
    session.on_finished(Box::new(move |_end| sessions().retain(|session| session.id() != id)));
}

// spec: START-END-1
extern "C" fn end_sessions() {
    if GENERATION.load(Ordering::Relaxed) != fork::generation() {
        return;
    }
    // A panic would turn the exit into an abort.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let until = Instant::now() + EXIT_LIMIT;
        // A copy: a session that ends takes itself out.
        let sessions = sessions().clone();
        sessions.iter().for_each(Session::request_stop);
        for session in sessions {
            let _ = session.wait_finished(until.saturating_duration_since(Instant::now()));
        }
    }));
}

fn sessions() -> MutexGuard<'static, Vec<Session>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Ends sessions when the program exits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use diagport_session::Session;
use diagport_sys::{exit, fork};

/// How long an exit may wait for the ends of all sessions.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Those that have not ended, and that nobody has waited for.
static SESSIONS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// One has gone.
static GONE: Condvar = Condvar::new();

struct Entry {
    session: Session,
    /// The process that has it: a forked child has none of the threads that would end it.
    generation: u32,
}

/// Ends the session in order if the program exits before it has ended. Call it before the session starts, and after its other end callbacks are there, as the exit
/// waits for them too.
pub(crate) fn end_at_exit(session: &Session) {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        if let Err(error) = exit::at_exit(end_sessions) {
            tracing::warn!(%error, "a program that exits without a shutdown leaves its startup session without an end");
        }
    });
    sessions().push(Entry { session: session.clone(), generation: fork::generation() });
    let ended = session.clone();
    session.on_finished(Box::new(move |_end| forget(&ended)));
}

/// Leaves the session alone at the exit: it was waited for as long as is right.
pub(crate) fn forget(session: &Session) {
    sessions().retain(|entry| entry.session.id() != session.id());
    GONE.notify_all();
}

// spec: START-END-1
extern "C" fn end_sessions() {
    let generation = fork::generation();
    let entries = match SESSIONS.try_lock() {
        Ok(entries) => entries,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) if generation == 0 => sessions(),
        // A thread of the parent may have held it, and nobody gives it back.
        Err(TryLockError::WouldBlock) => return,
    };
    // A panic would turn the exit into an abort.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let own = |entry: &&Entry| entry.generation == generation;
        let own_sessions: Vec<_> = entries.iter().filter(own).map(|entry| entry.session.clone()).collect();
        // A session that ends takes itself out.
        drop(entries);
        own_sessions.iter().for_each(Session::request_stop);
        let left = |entries: &mut Vec<Entry>| entries.iter().any(|entry| entry.generation == generation);
        drop(GONE.wait_timeout_while(sessions(), EXIT_LIMIT, left));
    }));
}

fn sessions() -> MutexGuard<'static, Vec<Entry>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Closing descriptors that a peer chose.
//!
//! The last close of a descriptor can block for as long as its maker likes: a TCP socket that lingers over unsent data, a file
//! whose file system has stopped to answer. A peer can attach such descriptors to its bytes, two of them would hold two threads
//! of the runtime, and with them everybody else. So what is, or may hold, a descriptor of a peer is closed here, on threads
//! that nobody waits for.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Threads that may hang in a close at the same time. When all of them do, what comes later waits, open.
const MAX_THREADS: usize = 8;
/// A thread without work leaves after this.
const IDLE: Duration = Duration::from_secs(5);

struct State {
    /// What one peer sent at once stays together: it hangs one thread at most.
    waiting: VecDeque<Vec<OwnedFd>>,
    threads: usize,
    idle_threads: usize,
}

static STATE: Mutex<State> = Mutex::new(State { waiting: VecDeque::new(), threads: 0, idle_threads: 0 });
static ARRIVED: Condvar = Condvar::new();

/// Takes over the descriptors; never waits for their close.
// spec: SRV-FAIR-2
pub(super) fn close_aside(descriptors: Vec<OwnedFd>) {
    if descriptors.is_empty() {
        return;
    }
    let mut state = lock();
    state.waiting.push_back(descriptors);
    if state.idle_threads >= state.waiting.len() || state.threads == MAX_THREADS {
        ARRIVED.notify_one();
        return;
    }
    match thread::Builder::new().name("diagport-close".to_owned()).spawn(run) {
        Ok(_) => state.threads += 1,
        // One of the others comes to it.
        Err(_) if state.threads > 0 => ARRIVED.notify_one(),
        // No thread at all: better here than never.
        Err(_) => {
            let here = state.waiting.pop_back();
            drop(state);
            drop(here);
        }
    }
}

fn run() {
    while let Some(descriptors) = next() {
        for descriptor in descriptors {
            // The usual reason to hang, and easily taken away. Not a socket: not that reason.
            let _ = rustix::net::sockopt::set_socket_linger(&descriptor, None);
        }
    }
}

fn next() -> Option<Vec<OwnedFd>> {
    let mut state = lock();
    loop {
        if let Some(descriptors) = state.waiting.pop_front() {
            return Some(descriptors);
        }
        state.idle_threads += 1;
        let (back, waited) = ARRIVED.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
        state = back;
        state.idle_threads -= 1;
        if waited.timed_out() && state.waiting.is_empty() {
            state.threads -= 1;
            return None;
        }
    }
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

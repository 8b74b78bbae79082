//! The one thread of a pipe on which provider callbacks run, in the order they were queued.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::lock::lock;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    started: bool,
    closed: bool,
}

/// Queueing runs nothing, waits for nothing and logs nothing (a program's log may write events), so it is safe under the pipe's lock.
#[derive(Default)]
pub(crate) struct Dispatcher {
    queue: Arc<Queue>,
}

impl Dispatcher {
    // spec: SES-CALLBACK-1
    pub(crate) fn queue(&self, job: impl FnOnce() + Send + 'static) {
        lock(&self.queue.state).jobs.push_back(Box::new(job));
        self.queue.changed.notify_one();
    }

    /// Starts the thread if there is something for it to do. Not under a lock.
    pub(crate) fn run_queued(&self) {
        {
            let mut state = lock(&self.queue.state);
            if state.started || state.jobs.is_empty() {
                return;
            }
            state.started = true;
        }
        let queue = Arc::clone(&self.queue);
        let spawned = thread::Builder::new().name("diagport-calls".into()).spawn(move || queue.run());
        if let Err(error) = spawned {
            // The jobs stay queued; whoever queues the next one tries again.
            lock(&self.queue.state).started = false;
            tracing::error!(%error, "no thread for provider callbacks");
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        lock(&self.queue.state).closed = true;
        self.queue.changed.notify_one();
    }
}

impl Queue {
    fn run(&self) {
        loop {
            let mut state = lock(&self.state);
            let job = loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                if state.closed {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            // spec: SES-CALLBACK-3
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                tracing::error!(panic = panic_text(&*panic), "a provider callback panicked");
            }
        }
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("queued", &lock(&self.queue.state).jobs.len()).finish()
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

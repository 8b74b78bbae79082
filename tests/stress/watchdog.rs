//! Ends the process when something hangs: what hangs cannot be asked to stop.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::world::lock;

/// Exit code of a hang.
const HUNG: i32 = 3;

#[derive(Clone, Debug, Default)]
pub(crate) struct Watchdog(Arc<Mutex<Option<Watched>>>);

#[derive(Debug)]
struct Watched {
    what: String,
    since: Instant,
}

impl Watchdog {
    pub(crate) fn start(limit: Duration) -> Self {
        let watchdog = Self::default();
        let watched = watchdog.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(100));
                if let Some(Watched { what, since }) = &*lock(&watched.0)
                    && since.elapsed() > limit
                {
                    println!("FAILED: no end after {limit:?}: {what}");
                    std::process::exit(HUNG);
                }
            }
        });
        watchdog
    }

    /// From now on this is what must end in time.
    pub(crate) fn watch(&self, what: String) {
        *lock(&self.0) = Some(Watched { what, since: Instant::now() });
    }
}

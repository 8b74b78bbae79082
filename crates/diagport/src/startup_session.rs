//! The session that environment variables ask for, from the start of the program to its end.

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diagport_server::Shutdown;
use diagport_session::{EndReason, EventPipe, FileSink, Session, SessionEnd};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::startup_settings::{StartupSessionError, StartupSettings};
use crate::{exit_hook, startup_file};

/// Of the time for its end, what is kept back to cut it.
const ABORT_SHARE: u32 = 5;
/// How long a session that nobody has ended may hold up whoever drops it.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// Gets one line for each cause, as it is for the operator.
pub(crate) type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// A session that records into a file from the start of the program on, because the environment asks for it.
///
/// It ends with [`Diagnostics::shutdown`](crate::Diagnostics::shutdown). One that is only dropped ends too, and so does one whose program calls
/// `std::process::exit`: the drop, or the exit, waits for its last events and the end of its file, 2 s at most.
pub struct StartupSession {
    session: Session,
    path: PathBuf,
    /// Somebody has waited for its end already, as long as was right.
    is_awaited: AtomicBool,
}

impl StartupSession {
    /// Starts it. `None`: none is asked for, or it cannot be; then the operator has been told why.
    // spec: START-TIME-1, START-MODE-1, START-PATH-2
    pub(crate) fn from_environment(
        pipe: &EventPipe,
        lookup: impl Fn(&str) -> Option<OsString>,
        notice: &Notice,
    ) -> Option<Self> {
        let tell = |line: &str| {
            // The notice is the line that the operator reads; a log on standard error would say it twice.
            tracing::debug!("{line}");
            notice(line);
        };
        let started = StartupSettings::read(lookup, std::process::id()).and_then(|settings| match settings {
            None => Ok(None),
            Some(settings) => {
                settings.remarks.iter().for_each(|remark| tell(remark));
                Self::start(pipe, settings, notice).map(Some)
            }
        });
        started.unwrap_or_else(|error| {
            tell(&format!("startup session not started: {error}"));
            None
        })
    }

    fn start(
        pipe: &EventPipe,
        settings: StartupSettings,
        notice: &Notice,
    ) -> Result<Self, StartupSessionError> {
        let session = pipe.create_session(settings.session)?;
        let file = match startup_file::create(&settings.path) {
            Ok(file) => file,
            Err(error) => {
                session.abort("its file cannot be written");
                return Err(error);
            }
        };
        let (notice, path) = (Arc::clone(notice), settings.path.clone());
        // spec: START-FAIL-1
        session.on_finished(Box::new(move |end| {
            if end.reason != EndReason::Stopped {
                notice(&early_end(&path, &end));
            }
        }));
        exit_hook::end_at_exit(&session);
        session.start(Box::new(FileSink::new(file)));
        Ok(Self { session, path: settings.path, is_awaited: AtomicBool::new(false) })
    }

    /// The file it records into, as the environment names it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The session itself, for its statistics.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Ends it in order, or where the time is too short for that cuts it.
    // spec: START-END-1
    pub(crate) async fn end(&self, deadline: Duration) -> Shutdown {
        let end = Instant::now() + deadline;
        self.is_awaited.store(true, Ordering::Relaxed);
        let (sender, mut ended) = oneshot::channel();
        self.session.on_finished(Box::new(move |end| {
            // Nobody waits any more where the time is over.
            let _ = sender.send(end.reason);
        }));
        self.session.request_stop();
        let orderly = end - deadline / ABORT_SHARE;
        let reason = match timeout_at(orderly, &mut ended).await {
            Ok(reason) => reason.ok(),
            Err(_) => {
                self.session.abort("no time is left to write it to its end");
                // It ends in any case; only this wait may not.
                timeout_at(end, ended).await.ok().and_then(Result::ok)
            }
        };
        exit_hook::forget(&self.session);
        if reason == Some(EndReason::Stopped) { Shutdown::Complete } else { Shutdown::Cut }
    }
}

impl Drop for StartupSession {
    fn drop(&mut self) {
        if !*self.is_awaited.get_mut() {
            self.session.request_stop();
            let _ = self.session.wait_finished(DROP_LIMIT);
            exit_hook::forget(&self.session);
        }
    }
}

impl fmt::Debug for StartupSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StartupSession").field("path", &self.path).finish_non_exhaustive()
    }
}

fn early_end(path: &Path, end: &SessionEnd) -> String {
    let counts = end.statistics;
    format!(
        "startup session into {path:?} ended early ({:?}): {} events written, {} lost",
        end.reason, counts.written, counts.dropped
    )
}

/// Writes to standard error.
pub(crate) fn standard_error() -> Notice {
    // Not `eprintln!`: it panics where standard error is closed.
    Arc::new(|line| {
        let _ = writeln!(std::io::stderr(), "{line}");
    })
}

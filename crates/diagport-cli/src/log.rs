//! The log: for people who look into a problem, on standard error.

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

use crate::exit::{Exit, Failure};

/// Environment variable with the filter, such as `debug` or `diagport_server=debug`; by default warnings and errors.
const FILTER_VARIABLE: &str = "DIAGPORT_LOG";

/// Starts the log, once for the process; it ends with the guard.
///
/// Lines are written by a thread of their own and thrown away where it falls behind: a standard error that nobody reads must not hold up
/// whoever has something to say.
// spec: CLI-LOG-1, CLI-LOG-2
pub(crate) fn start() -> Result<WorkerGuard, Failure> {
    let text = std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| "warn".to_owned());
    let filter = EnvFilter::try_new(&text)
        .map_err(|error| Failure::new(Exit::Configuration, format!("{FILTER_VARIABLE}={text}: {error}")))?;
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false).init();
    Ok(guard)
}

//! The log: for people who look into a problem, on standard error.

use tracing_subscriber::EnvFilter;

use crate::exit::{Exit, Failure};

/// Environment variable with the filter, such as `debug` or `diagport_server=debug`; by default warnings and errors.
const FILTER_VARIABLE: &str = "DIAGPORT_LOG";

/// Starts the log, once for the process.
// spec: CLI-LOG-1
pub(crate) fn start() -> Result<(), Failure> {
    let text = std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| "warn".to_owned());
    let filter = EnvFilter::try_new(&text)
        .map_err(|error| Failure::new(Exit::Configuration, format!("{FILTER_VARIABLE}={text}: {error}")))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}

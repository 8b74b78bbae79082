//! A client in a process of its own that reads a Block session far more slowly than it is filled; made to be killed.

use std::path::Path;

use support::requests::Collect;

use crate::plain_client::Session;

/// Million bytes a second.
const PACE_MB: f64 = 1.0;
/// What it says once its session runs.
pub(crate) const READY: &str = "reading";

/// The client itself; ends with its stream.
///
/// # Errors
/// Where the session does not start, or its stream breaks.
pub(crate) fn serve(port: &Path) -> anyhow::Result<()> {
    let session = Session::start(port, &Collect::block(1).message())?;
    println!("{READY}");
    session.count(Some(PACE_MB)).finish()?;
    Ok(())
}

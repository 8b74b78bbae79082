//! What every test of this package stands on: real peers, a target to drive, bytes by hand, and judges.
//!
//! ```text
//!   Load (ours or a real .NET) ──port──▶ Port / Conversation   bytes by hand, no codec of ours
//!        ▲ stdin lines                   Peers                 the released tools
//!        └ answer lines                  Judgement             TraceEvent's opinion of a trace
//!                                        StreamFacts           our reader's opinion of the same trace
//! ```
//!
//! What it does not do: it makes no assertion about the product. Everything here returns facts or an error that
//! shows them; the tests decide. Every wait has an end, and the end only ever catches a hang.
#![forbid(unsafe_code)]

pub mod background;
pub mod binary;
pub mod judge;
pub mod load;
pub mod peers;
pub mod port;
pub mod process_facts;
pub mod requests;
pub mod script;
pub mod stream_facts;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung. Generous on purpose: no test measures speed with it.
pub const HANG: Duration = Duration::from_secs(60);

/// The root of the workspace.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// A folder that goes away with the value. Its path is short, so that sockets fit into 107 bytes.
///
/// # Errors
/// Where no folder can be made under the temporary folder.
pub fn temp_folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("dpt-").tempdir()
}

/// Asks `condition` every few milliseconds until it holds.
///
/// # Errors
/// Says `what` was awaited when `limit` has passed.
pub fn await_condition(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> anyhow::Result<Duration> {
    let from = Instant::now();
    loop {
        if condition() {
            return Ok(from.elapsed());
        }
        anyhow::ensure!(from.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One line on the real standard error, past the capture of the test harness.
pub fn say(line: &str) {
    use std::io::Write as _;
    // A test that cannot print goes on.
    writeln!(std::io::stderr(), "{line}").ok();
}

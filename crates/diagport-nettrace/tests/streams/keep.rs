//! Keeps the complete streams that tests make, so that others can read them: `DIAGPORT_KEEP_STREAMS=FOLDER`.
//!
//! A file is named `BINARY.TEST.NUMBER.lost-LOST.nettrace`; LOST is the true number, known from elsewhere than the stream.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Keeps a stream if that is asked for. It obeys the rules by which every reader finds the true loss.
pub(crate) fn keep(bytes: &[u8], lost: u64) {
    let Some(folder) = std::env::var_os("DIAGPORT_KEEP_STREAMS") else { return };
    let program = std::env::current_exe().expect("a running program has a path");
    let binary = program.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // cargo adds a hash to the name
    let binary = binary.rsplit_once('-').map_or(binary.as_str(), |(name, _)| name);
    let test = std::thread::current().name().unwrap_or("main").replace("::", "-");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(&folder).join(format!("{binary}.{test}.{number:04}.lost-{lost}.nettrace"));
    std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

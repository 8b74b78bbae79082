//! Defines events, records them into a file with a session of its own, and says what became of them.
//!
//! ```text
//! cargo run -p diagport-examples --example emit_events -- emitted.nettrace
//! ```
//!
//! Open the file with PerfView or `dotnet-trace convert`, or look at it with `diagport convert`.

#![expect(clippy::print_stderr, reason = "an example talks to its reader")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use diagport_session::{
    BufferingMode, EventDefinition, EventLevel, EventPipe, FileSink, ProcessDescription, ProviderConfig,
    SessionConfig, SessionType, WaitFinished,
};

const REQUESTS: u64 = 1;
const CACHE: u64 = 2;

fn main() -> anyhow::Result<()> {
    let path = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "emitted.nettrace".into()));
    let pipe = EventPipe::new(ProcessDescription::of_this_process());

    // Events are defined once. Each has typed fields with names; sessions select by keyword and level.
    let provider = pipe.provider("My-Service");
    let served = provider.define::<(String, i64, bool)>(
        EventDefinition::new(1, "RequestServed").keywords(REQUESTS),
        ["path", "micros", "cached"],
    )?;
    let evicted = provider.define::<(i32,)>(
        EventDefinition::new(2, "CacheEvicted").keywords(CACHE).level(EventLevel::Verbose),
        ["entries"],
    )?;
    provider.on_enable_change(|change| {
        eprintln!("My-Service: {:?}, keywords {:#x}", change.control, change.keywords)
    });

    // Over a Diagnostic Port the server makes the sessions; here the program makes one.
    let wanted = ProviderConfig::new("My-Service", REQUESTS, EventLevel::Informational);
    let session = pipe.create_session(SessionConfig {
        buffering_mode: BufferingMode::Block,
        budget_bytes: 1 << 20,
        ..SessionConfig::new(SessionType::FileStream, vec![wanted])
    })?;
    let file = std::fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    session.start(Box::new(FileSink::new(file)));

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for request in 0..25_000 {
                    served.write(("/index.html", request, request % 2 == 0));
                    // Nobody asked for it: one load and a branch.
                    evicted.write((1,));
                }
            });
        }
    });

    session.request_stop();
    let WaitFinished::Finished(end) = session.wait_finished(Duration::from_secs(10)) else {
        bail!("the session does not end");
    };
    let counted = end.statistics;
    eprintln!("{}: {} written, {} dropped", path.display(), counted.written, counted.dropped);
    Ok(())
}

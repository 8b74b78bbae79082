//! A small service with a diagnostic port.
//!
//! ```sh
//! cargo run -p diagport-examples --example service
//! dotnet-trace collect -p PID --providers My-Service:1     # or: diagport trace -p PID --providers My-Service:1
//! ```
//!
//! Ends at Ctrl-C.

#![expect(clippy::print_stderr, reason = "an example talks to its reader")]

use std::time::{Duration, Instant};

use diagport::{Diagnostics, EventDefinition, EventLevel};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    // A port makes the program visible to tools. DOTNET_DiagnosticPorts, DOTNET_EnableEventPipe and the like are honoured.
    let diagnostics = Diagnostics::builder().start()?;
    for reason in diagnostics.server().unusable_ports() {
        eprintln!("no port: {reason}");
    }

    // Events are defined once, with the names and types of their fields.
    let provider = diagnostics.pipe().provider("My-Service");
    let served = provider.define::<(String, i64)>(
        EventDefinition::new(1, "RequestServed").keywords(1).level(EventLevel::Informational),
        ["path", "microseconds"],
    )?;
    provider.on_enable_change(|change| eprintln!("recording: {change:?}"));

    diagnostics.wait_resumed().await;
    eprintln!("process {} is ready for tools", std::process::id());

    let mut requests = tokio::time::interval(Duration::from_millis(10));
    loop {
        tokio::select! {
            _ = requests.tick() => {
                let start = Instant::now();
                let path = serve_one();
                // While nobody records, this is one relaxed load and a branch.
                served.write((path, start.elapsed().as_micros() as i64));
            }
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    // Streams end in order, the socket file goes away.
    diagnostics.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn serve_one() -> &'static str {
    std::thread::sleep(Duration::from_micros(200));
    "/index.html"
}

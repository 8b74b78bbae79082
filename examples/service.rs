//! A small service with a diagnostic port.
//!
//! ```sh
//! cargo run -p diagport-examples --example service
//! dotnet-trace collect -p PID --providers My-Service:1     # or: diagport trace -p PID --providers My-Service:1
//! ```
//!
//! Ends at Ctrl-C.

#![expect(clippy::print_stderr, reason = "an example talks to its reader")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use diagport_server::{OwnProcess, ServerBuilder};
use diagport_session::{EventDefinition, EventLevel, EventPipe, ProcessDescription};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let pipe = EventPipe::new(ProcessDescription::of_this_process());

    // Events are defined once, with the names and types of their fields...
    let provider = pipe.provider("My-Service");
    let served = provider.define::<(String, i64)>(
        EventDefinition::new(1, "RequestServed").keywords(1).level(EventLevel::Informational),
        ["path", "microseconds"],
    )?;
    provider.on_enable_change(|change| eprintln!("recording: {change:?}"));

    // ...and a port makes them visible to tools. DOTNET_DiagnosticPorts and the like are honoured.
    let host = Arc::new(OwnProcess::new());
    let server = ServerBuilder::from_environment(pipe, host, |name| std::env::var(name).ok()).start()?;
    for reason in server.unusable_ports() {
        eprintln!("no port: {reason}");
    }
    server.wait_resumed().await;
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
    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn serve_one() -> &'static str {
    std::thread::sleep(Duration::from_micros(200));
    "/index.html"
}

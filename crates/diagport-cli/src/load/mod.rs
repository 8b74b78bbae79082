//! `load`: the scripted target. A process with a diagnostic port whose events a script decides, line by line, with the answers of the real
//! .NET target of the test bed, so that one script drives either.

mod peer_load;
mod script;

use std::io::{self, BufRead};
use std::thread;
use std::time::Duration;

use clap::Args;
use diagport::{Diagnostics, EventPipe, ProcessDescription};
use tokio::sync::oneshot;

use self::peer_load::PeerLoad;
use self::script::Next;
use crate::console;
use crate::exit::{Exit, Failure};
use crate::trace::StopTriggers;

/// For the end in order after SIGTERM; the process is gone within 5 s whatever its peers do, and the log takes up to one of them.
// spec: SRV-SHUTDOWN-1
const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(3_800);

/// For the end in order after `exit`: a startup session without streaming writes its whole file then.
const EXIT_DEADLINE: Duration = Duration::from_secs(60);

/// Be a scripted target: a process with a diagnostic port, told what to emit on standard input
///
/// Prints `ready PID` once startup is not suspended (any more), then reads one command a line: `burst THREADS EVENTS`, `churn THREADS EVENTS`,
/// `tick HZ SECONDS`, `activity COUNT`, `sessions`, `exit`. Each is answered by one line. At the end of standard input the process stays until it is
/// killed. The variables DOTNET_EnableEventPipe and DOTNET_EventPipe... make it record from its start on, as they do for .NET programs.
#[derive(Debug, Args)]
pub(crate) struct LoadCommand {}

impl LoadCommand {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let pipe = EventPipe::new(ProcessDescription::of_this_process());
        let events =
            PeerLoad::register(&pipe).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let diagnostics = Diagnostics::builder()
            .pipe(pipe.clone())
            .start()
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let mut signals = StopTriggers::install()?;
        let script = async {
            let outcome = serve_script(&diagnostics, pipe, events).await;
            diagnostics.shutdown(EXIT_DEADLINE).await;
            outcome
        };
        let outcome = tokio::select! {
            outcome = script => outcome,
            _ = signals.next() => Ok(()),
        };
        // After a script's own end nothing is left to do.
        diagnostics.shutdown(SHUTDOWN_DEADLINE).await;
        outcome
    }
}

async fn serve_script(diagnostics: &Diagnostics, pipe: EventPipe, events: PeerLoad) -> Result<(), Failure> {
    diagnostics.wait_resumed().await;
    console::result_line(&format!("ready {}", std::process::id()));
    let (tell_end, end) = oneshot::channel();
    // A thread of its own: a Block session may park it, and reading standard input cannot be given up.
    thread::Builder::new()
        .name("script".to_owned())
        .spawn(move || {
            // Nobody waits any more where the process is ending.
            let _ = tell_end.send(run_script(&pipe, &events));
        })
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start a thread: {error}")))?;
    match end.await {
        Ok(Ok(Next::Exit)) => Ok(()),
        Ok(Ok(Next::Continue)) => std::future::pending().await,
        Ok(Err(error)) => Err(Failure::new(Exit::Failed, format!("{error:#}"))),
        Err(_) => Err(Failure::new(Exit::Failed, "the script thread has panicked")),
    }
}

/// `Continue`: standard input has ended without `exit`.
fn run_script(pipe: &EventPipe, events: &PeerLoad) -> anyhow::Result<Next> {
    for line in io::stdin().lock().split(b'\n') {
        // Whatever the bytes are, they get an answer.
        let line = line?;
        if script::run_line(pipe, events, &String::from_utf8_lossy(&line), &mut io::stdout())? == Next::Exit {
            return Ok(Next::Exit);
        }
    }
    Ok(Next::Continue)
}

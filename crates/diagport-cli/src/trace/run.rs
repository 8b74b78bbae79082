//! The course of a recording: start, resume, record, stop, end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use diagport_client::{Client, ClientError, CollectRequest, Collection, Concession, Deadline};
use jiff::ZonedDateTime;

use super::child::{LaunchFailure, LaunchedChild};
use super::counter::{Counts, Ending};
use super::file_name::default_file_name;
use super::options::{TraceCommand, YesNo};
use super::progress_display::ProgressDisplay;
use super::recorder::{Progress, Recording, Written, record};
use super::report::{LossRule, Report, StreamEnd};
use super::source::Source;
use super::stop_trigger::StopTriggers;
use crate::console;
use crate::exit::{Exit, Failure};
use crate::output_file::OutputFile;

/// How long the stream of a target that is gone may still take to end.
const GONE_LIMIT: Duration = Duration::from_secs(2);
/// How long a file may take for what had arrived when somebody wanted to leave at once.
const LEAVING_LIMIT: Duration = Duration::from_secs(1);

/// A session whose stream is being recorded.
struct Started {
    file: std::path::PathBuf,
    session_id: u64,
    recording: Recording,
    course: Course,
}

/// How a session that has started goes on.
enum Course {
    Runs,
    /// Somebody asked for the end while the target was being resumed.
    StopsAtOnce,
    /// The target was not resumed, so there is nothing to record.
    Failed(Failure),
}

impl TraceCommand {
    /// Runs the recording; returns the exit code.
    pub(crate) async fn run(&self) -> Result<u8, Failure> {
        let request = self.collect_request()?;
        let mut triggers = StopTriggers::install()?;
        // A wrong path shall cost nobody a launched command.
        let output = match &self.output {
            Some(path) => Some(tokio::select! {
                output = OutputFile::open(path, Deadline::after(self.limit())) => output?,
                _ = triggers.next() => return Err(interrupted("nobody read the pipe")),
            }),
            None => None,
        };
        let mut source = match Source::open(self, &mut triggers).await {
            Ok(source) => source,
            Err(LaunchFailure::Failed(failure)) => return Err(failure),
            Err(LaunchFailure::ChildEnded { code, message }) => return self.unconnected(code, &message),
        };
        match self.start(&source, &request, output, &mut triggers).await {
            Ok(started) => {
                let report = self.record(&source.client, &mut source.child, started, &mut triggers).await;
                Ok(self.conclude(&mut source.child, &report, &mut triggers).await)
            }
            Err(failure) => {
                if let Some(child) = &mut source.child {
                    child.end().await;
                }
                Err(failure)
            }
        }
    }

    /// A command that failed before it connected explains itself by its own code; one that succeeded leaves us without
    /// what we were asked for.
    fn unconnected(&self, code: u8, message: &str) -> Result<u8, Failure> {
        let failure = Failure::new(Exit::Failed, message);
        if code == 0 {
            return Err(failure);
        }
        console::error_line(&failure);
        if self.json {
            console::error_json(&failure, code);
        }
        Ok(code)
    }

    async fn start(
        &self,
        source: &Source,
        request: &CollectRequest,
        output: Option<OutputFile>,
        triggers: &mut StopTriggers,
    ) -> Result<Started, Failure> {
        let output = match output {
            Some(output) => output,
            None => {
                let (stem, now) = (source.file_stem(), ZonedDateTime::now());
                OutputFile::create(|attempt| default_file_name(&stem, &now, attempt))?
            }
        };
        let deadline = Deadline::after(self.limit());
        let collection = tokio::select! {
            collection = source.client.collect(request, deadline) => collection?,
            // A session that starts this moment ends with its connection.
            _ = triggers.next() => return Err(interrupted("the target had started the session")),
        };
        let file = output.path().to_owned();
        self.announce(source, &file, &collection);
        let recording = record(output, collection.stream).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot record into {}: {error}", file.display()))
        })?;
        // Behind the start of the recording: a resumed target may fill its buffer at once.
        let course = self.resume(&source.client, deadline, triggers).await;
        Ok(Started { file, session_id: collection.session_id, recording, course })
    }

    async fn resume(&self, client: &Client, deadline: Deadline, triggers: &mut StopTriggers) -> Course {
        if self.resume_runtime == YesNo::No {
            return Course::Runs;
        }
        tokio::select! {
            resumed = client.resume(deadline) => match resumed {
                Err(error) if !error.is_unknown_command() => Course::Failed(error.into()),
                _ => Course::Runs,
            },
            _ = triggers.next() => Course::StopsAtOnce,
        }
    }

    fn announce(&self, source: &Source, file: &std::path::Path, collection: &Collection) {
        for concession in &collection.concessions {
            let given_up = match concession {
                Concession::EventFilters => "event filters; all events of the providers come",
                Concession::RundownKeyword => "a rundown keyword of its own; see --rundown",
                Concession::Stacks => "events without stacks; stacks come",
            };
            self.say(&format!("The target is too old for {given_up}"));
        }
        self.say(&format!("Process        : {}", source.label));
        self.say(&format!("Output File    : {}", file.display()));
        self.say(&format!("Session        : {}", collection.session_id));
        if let Some(duration) = self.duration.filter(|duration| !duration.is_zero()) {
            self.say(&format!("Trace Duration : {} s", duration.as_secs_f64()));
        }
    }

    async fn record(
        &self,
        client: &Client,
        child: &mut Option<LaunchedChild>,
        started: Started,
        triggers: &mut StopTriggers,
    ) -> Report {
        let Started { file, session_id, mut recording, course } = started;
        // A launched command has the terminal for itself.
        let display = if child.is_none() {
            triggers.watch_enter();
            ProgressDisplay::start(&recording.progress)
        } else {
            ProgressDisplay::none()
        };
        let (ended, setup_failure) = match course {
            Course::Runs => (self.until_stop(&mut recording, child, triggers).await, None),
            Course::StopsAtOnce => (None, None),
            Course::Failed(failure) => (None, Some(failure)),
        };
        let was_stopped = ended.is_none();
        let mut stream_end = match ended {
            Some(end) => end,
            None => {
                display
                    .aside(|| self.say("Stopping the trace. This may take a while; Ctrl-C leaves at once."));
                self.stop(client, session_id, &mut recording, triggers).await
            }
        };
        // Whoever still reads the stream stops now; what has arrived is written and counted.
        recording.pump.abort();
        let patience = match stream_end {
            StreamEnd::OnRequest => LEAVING_LIMIT,
            StreamEnd::TimedOut(_) => GONE_LIMIT,
            _ => self.limit(),
        };
        let written = tokio::select! {
            written = &mut recording.written => written.ok(),
            () = inactivity(&recording.progress, patience) => {
                if !matches!(stream_end, StreamEnd::OnRequest) {
                    stream_end = StreamEnd::TimedOut(file_is_stuck(&file, patience));
                }
                None
            }
            _ = triggers.next() => None,
        };
        display.finish();
        let written = written.unwrap_or_else(|| unchecked(&recording.progress));
        let loss_rule = if self.fail_on_loss { LossRule::Fail } else { LossRule::Tell };
        Report {
            port: client.target().describe(),
            file,
            session_id,
            written,
            setup_failure,
            stream_end,
            was_stopped,
            loss_rule,
        }
    }

    /// Records until the stream ends (`Some`) or until somebody or something wants to stop.
    async fn until_stop(
        &self,
        recording: &mut Recording,
        child: &mut Option<LaunchedChild>,
        triggers: &mut StopTriggers,
    ) -> Option<StreamEnd> {
        let duration = self.duration.filter(|duration| !duration.is_zero());
        tokio::select! {
            ended = &mut recording.pump => Some(stream_end(ended)),
            _ = triggers.next() => None,
            () = sleep_or_forever(duration) => None,
            () = fires(&mut recording.write_failure) => None,
            // The command may have left somebody behind who holds the session open.
            () = ended_for(child, GONE_LIMIT) => None,
        }
    }

    /// Stops the session and reads its stream to the end. Both have one limit; a second trigger cuts it short.
    // spec: CLI-STOPPING-3
    async fn stop(
        &self,
        client: &Client,
        session_id: u64,
        recording: &mut Recording,
        triggers: &mut StopTriggers,
    ) -> StreamEnd {
        let (silence_limit, whole_limit) = self.stop_limits();
        let deadline = Deadline::after(whole_limit);
        let port = client.target().describe();
        let stopping = client.stop_tracing(session_id, deadline);
        tokio::pin!(stopping);
        let mut waiting = Deadline::after(silence_limit);
        let mut arrived = recording.progress.bytes.load(Ordering::Relaxed);
        let mut asking = true;
        let mut state = "the stop was not answered";
        let mut refusal = None;
        loop {
            tokio::select! {
                ended = &mut recording.pump => return refusal.map_or_else(|| stream_end(ended), StreamEnd::StopRefused),
                _ = triggers.next() => return StreamEnd::OnRequest,
                answer = &mut stopping, if asking => {
                    asking = false;
                    match answer {
                        Ok(()) => state = "the stop was answered",
                        Err(ClientError::TimedOut { .. }) => {}
                        Err(error) if error.is_peer_gone() => waiting = Deadline::after(GONE_LIMIT.min(deadline.remaining())),
                        Err(error) => {
                            waiting = Deadline::after(GONE_LIMIT.min(deadline.remaining()));
                            refusal = Some(error.into());
                        }
                    }
                }
                () = tokio::time::sleep(waiting.remaining()) => {
                    let before = std::mem::replace(&mut arrived, recording.progress.bytes.load(Ordering::Relaxed));
                    if arrived > before && refusal.is_none() && !deadline.remaining().is_zero() {
                        waiting = Deadline::after(silence_limit.min(deadline.remaining()));
                        continue;
                    }
                    if let Some(refusal) = refusal {
                        return StreamEnd::StopRefused(refusal);
                    }
                    let limit = if deadline.remaining().is_zero() { whole_limit } else { waiting.limit() };
                    let seconds = limit.as_secs_f64();
                    let mut message = format!("{port}: time ran out after {seconds} s: {state}, the stream did not end (stopping)");
                    if recording.progress.is_behind() {
                        message.push_str("; the file did not take what had arrived");
                    }
                    return StreamEnd::TimedOut(Failure::new(Exit::TimedOut, message));
                }
            }
        }
    }

    async fn conclude(
        &self,
        child: &mut Option<LaunchedChild>,
        report: &Report,
        triggers: &mut StopTriggers,
    ) -> u8 {
        let failure = report.failure();
        let child_code = match child {
            None => None,
            // The stream ended by itself: so will the command. Otherwise the end of the recording is its end.
            Some(child) if report.stream_end == StreamEnd::ByTarget && !report.was_stopped => {
                child.wait(triggers).await
            }
            Some(child) => child.end().await,
        };
        let exit_code = report.exit_code(failure.as_ref(), child_code);
        if let Some(failure) = &failure {
            console::error_line(failure);
        }
        match (self.json, self.records_to_standard_output()) {
            (true, false) => console::result_json(&report.json(failure.as_ref(), exit_code, child_code)),
            (true, true) => console::note_json(&report.json(failure.as_ref(), exit_code, child_code)),
            (false, false) => console::result_line(&report.last_line()),
            (false, true) => console::note(&report.last_line()),
        }
        exit_code
    }
}

fn interrupted(before: &str) -> Failure {
    Failure::new(Exit::Failed, format!("interrupted before {before}"))
}

fn file_is_stuck(file: &std::path::Path, patience: Duration) -> Failure {
    let message = format!(
        "cannot write {}: time ran out after {} s in which it took nothing",
        file.display(),
        patience.as_secs_f64()
    );
    Failure::new(Exit::TimedOut, message)
}

fn stream_end(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> StreamEnd {
    match ended {
        Ok(Ok(())) => StreamEnd::ByTarget,
        Ok(Err(error)) => StreamEnd::Broken(error.to_string()),
        Err(error) => StreamEnd::Broken(error.to_string()),
    }
}

/// Left before the file was counted to its end.
fn unchecked(progress: &Progress) -> Written {
    let bytes = progress.bytes.load(Ordering::Relaxed);
    let ending = Ending::TruncatedAt(bytes);
    let (events, lost) = (progress.events.load(Ordering::Relaxed), progress.lost.load(Ordering::Relaxed));
    Written { bytes, counts: Counts { events, lost, ending, warnings: 0 }, write_error: None }
}

async fn sleep_or_forever(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

/// Completes once nothing of the recording has moved for `limit`.
// spec: CLI-STOPPING-4
async fn inactivity(progress: &Progress, limit: Duration) {
    let mut before = progress.activity();
    loop {
        tokio::time::sleep(limit).await;
        let now = progress.activity();
        if std::mem::replace(&mut before, now) == now {
            return;
        }
    }
}

/// Completes once the launched command has been gone for `grace`.
// spec: CLI-CHILD-3
async fn ended_for(child: &mut Option<LaunchedChild>, grace: Duration) {
    match child {
        Some(child) => child.ended().await,
        None => std::future::pending().await,
    }
    tokio::time::sleep(grace).await;
}

/// Completes when the other side says so; its going away says nothing.
async fn fires(signal: &mut tokio::sync::oneshot::Receiver<()>) {
    if signal.await.is_err() {
        std::future::pending().await
    }
}

//! The course of a recording: start, resume, record, stop, end.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use diagport_client::{Client, ClientError, Collection, Concession, Deadline};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::child::LaunchFailure;
use super::counter::{Counts, Ending};
use super::file_name::default_file_name;
use super::options::{TraceCommand, YesNo};
use super::recorder::{OutputFile, Progress, Recording, Written};
use super::report::{LossRule, Report, StreamEnd};
use super::source::Source;
use super::stop_trigger::StopTriggers;
use crate::console;
use crate::exit::{Exit, Failure};

/// How long the stream of a target that is gone may still take to end.
const GONE_LIMIT: Duration = Duration::from_secs(2);

impl TraceCommand {
    /// Runs the recording; returns the exit code.
    pub(crate) async fn run(&self) -> Result<u8, Failure> {
        let request = self.collect_request()?;
        let mut triggers = StopTriggers::install()?;
        let mut source = match Source::open(self, &mut triggers).await {
            Ok(source) => source,
            Err(LaunchFailure::Failed(failure)) => return Err(failure),
            Err(LaunchFailure::ChildEnded { code, message }) => return self.unconnected(code, &message),
        };
        let started = self.start(&source, &request).await;
        let result = match started {
            Ok(started) => Ok(self.record(&source.client, started, &mut triggers).await),
            Err(failure) => Err(failure),
        };
        match result {
            Ok(report) => Ok(self.conclude(&mut source, &report, &mut triggers).await),
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
        request: &diagport_client::CollectRequest,
    ) -> Result<Started, Failure> {
        let output = self.open_output(source)?;
        let deadline = Deadline::after(self.limit());
        let collection = match source.client.collect(request, deadline).await {
            Ok(collection) => collection,
            Err(error) => {
                output.discard();
                return Err(error.into());
            }
        };
        let file = output.path().to_owned();
        self.announce(source, &file, &collection);
        let recording = output.record(collection.stream).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot record into {}: {error}", file.display()))
        })?;
        let started = Started { file, session_id: collection.session_id, recording };
        // Behind the start of the recording: a resumed target may fill its buffer at once.
        if self.resume_runtime == YesNo::Yes
            && let Err(error) = source.client.resume(deadline).await
            && !error.is_unknown_command()
        {
            // Without it a session without a reader stays in the target.
            let _ = source.client.stop_tracing(started.session_id, deadline).await;
            return Err(error.into());
        }
        Ok(started)
    }

    fn open_output(&self, source: &Source) -> Result<OutputFile, Failure> {
        let path = self.output.clone().unwrap_or_else(|| {
            let millis = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis());
            default_file_name(&source.file_stem(), i64::try_from(millis).unwrap_or(i64::MAX))
        });
        OutputFile::open(&path)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())))
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

    async fn record(&self, client: &Client, started: Started, triggers: &mut StopTriggers) -> Report {
        let Started { file, session_id, mut recording } = started;
        let enter_is_ours = self.child.is_empty();
        if enter_is_ours {
            triggers.watch_enter();
        }
        let display = ProgressDisplay::start(&recording.progress, enter_is_ours);
        let ended = self.until_stop(&mut recording, triggers).await;
        let was_stopped = ended.is_none();
        let stream_end = match ended {
            Some(end) => end,
            None => self.stop(client, session_id, &mut recording, triggers).await,
        };
        // Whoever still reads the stream stops now; what has arrived is written and counted.
        recording.pump.abort();
        let written = tokio::select! {
            written = recording.written => written.ok(),
            _ = triggers.next() => None,
        };
        display.finish();
        let written = written.unwrap_or_else(|| unchecked(&recording.progress));
        let loss_rule = if self.fail_on_loss { LossRule::Fail } else { LossRule::Tell };
        Report {
            file,
            port: client.target().describe(),
            session_id,
            written,
            stream_end,
            was_stopped,
            loss_rule,
        }
    }

    /// Records until the stream ends (`Some`) or until somebody or something wants to stop.
    async fn until_stop(&self, recording: &mut Recording, triggers: &mut StopTriggers) -> Option<StreamEnd> {
        let duration = self.duration.filter(|duration| !duration.is_zero());
        tokio::select! {
            ended = &mut recording.pump => Some(stream_end(ended)),
            _ = triggers.next() => None,
            () = sleep_or_forever(duration) => None,
            () = fires(&mut recording.write_failure) => None,
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
        self.say("Stopping the trace. This may take a while; Ctrl-C leaves at once.");
        let (silence_limit, whole_limit) = self.stop_limits();
        let deadline = Deadline::after(whole_limit);
        let port = client.target().describe();
        let stopping = client.stop_tracing(session_id, deadline);
        tokio::pin!(stopping);
        let mut waiting = Deadline::after(silence_limit);
        let mut arrived = recording.progress.bytes.load(Ordering::Relaxed);
        let mut asking = true;
        let mut state = "the stop was not answered";
        loop {
            tokio::select! {
                ended = &mut recording.pump => return stream_end(ended),
                _ = triggers.next() => return StreamEnd::OnRequest,
                answer = &mut stopping, if asking => {
                    asking = false;
                    match answer {
                        Ok(()) => state = "the stop was answered",
                        Err(ClientError::TimedOut { .. }) => {}
                        Err(error) if error.is_peer_gone() => waiting = Deadline::after(GONE_LIMIT.min(deadline.remaining())),
                        Err(error) => return StreamEnd::StopRefused(error.into()),
                    }
                }
                () = tokio::time::sleep(waiting.remaining()) => {
                    let before = std::mem::replace(&mut arrived, recording.progress.bytes.load(Ordering::Relaxed));
                    if arrived > before && !deadline.remaining().is_zero() {
                        waiting = Deadline::after(silence_limit.min(deadline.remaining()));
                        continue;
                    }
                    let limit = if deadline.remaining().is_zero() { whole_limit } else { waiting.limit() };
                    let message =
                        format!("{port}: time ran out after {} s: {state}, the stream did not end (stopping)", limit.as_secs_f64());
                    return StreamEnd::TimedOut(Failure::new(Exit::TimedOut, message));
                }
            }
        }
    }

    async fn conclude(&self, source: &mut Source, report: &Report, triggers: &mut StopTriggers) -> u8 {
        let failure = report.failure();
        let child_code = match &mut source.child {
            None => None,
            // The stream ended by itself: so will the command. Otherwise the end of the recording is its end.
            Some(child) if report.stream_end == StreamEnd::ByTarget && !report.was_stopped => {
                child.wait(triggers).await
            }
            Some(child) => child.end().await,
        };
        let own_code = failure.as_ref().map_or(Exit::Ok, |failure| failure.exit).code();
        let exit_code = if own_code == 0 { child_code.unwrap_or(0) } else { own_code };
        if let Some(failure) = &failure {
            console::error_line(failure);
        }
        if self.json {
            report.print_json(failure.as_ref(), exit_code, child_code);
        } else {
            console::result_line(&report.last_line());
        }
        exit_code
    }
}

struct Started {
    file: PathBuf,
    session_id: u64,
    recording: Recording,
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

/// Completes when the other side says so; its going away says nothing.
async fn fires(signal: &mut tokio::sync::oneshot::Receiver<()>) {
    if signal.await.is_err() {
        std::future::pending().await
    }
}

/// The figures on a terminal, four times a second.
struct ProgressDisplay {
    bar: Option<ProgressBar>,
    drawing: Option<tokio::task::JoinHandle<()>>,
}

impl ProgressDisplay {
    fn start(progress: &Arc<Progress>, enter_is_ours: bool) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None, drawing: None };
        }
        let bar = ProgressBar::new_spinner();
        let template = "[{elapsed_precise}] {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        let hint = if enter_is_ours { "Enter or Ctrl-C ends" } else { "Ctrl-C ends" };
        let (drawn, progress) = (bar.clone(), Arc::clone(progress));
        let drawing = tokio::spawn(async move {
            loop {
                let bytes = progress.bytes.load(Ordering::Relaxed);
                let events = progress.events.load(Ordering::Relaxed);
                let lost = progress.lost.load(Ordering::Relaxed);
                drawn.set_message(format!("{}  events={events} lost={lost}  ({hint})", HumanBytes(bytes)));
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        });
        Self { bar: Some(bar), drawing: Some(drawing) }
    }

    fn finish(self) {
        if let Some(drawing) = self.drawing {
            drawing.abort();
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

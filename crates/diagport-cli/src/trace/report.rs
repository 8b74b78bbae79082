//! How a recording ended: the verdict, the last line, the JSON object.

use std::path::PathBuf;

use serde::Serialize;

use super::counter::Ending;
use super::recorder::Written;
use crate::exit::{Exit, Failure};

/// What made us stop listening to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The target ended it.
    ByTarget,
    /// The operating system broke the connection.
    Broken(String),
    /// Nobody ended it in time after a stop.
    TimedOut(Failure),
    /// The stop was refused.
    StopRefused(Failure),
    /// A second trigger: leave now.
    OnRequest,
}

/// A finished recording.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) file: PathBuf,
    pub(crate) port: String,
    pub(crate) session_id: u64,
    pub(crate) written: Written,
    /// The target was never asked to go on, or did not.
    pub(crate) setup_failure: Option<Failure>,
    pub(crate) stream_end: StreamEnd,
    /// Whether we asked for the end.
    pub(crate) was_stopped: bool,
    pub(crate) loss_rule: LossRule,
}

/// What lost events do to the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossRule {
    /// Nothing; the last line says how many.
    Tell,
    /// They are a failure.
    Fail,
}

/// What `--json` prints at the end.
#[derive(Serialize)]
pub(crate) struct JsonReport<'a> {
    status: &'static str,
    exit_code: u8,
    events: u64,
    bytes: u64,
    lost: u64,
    file: String,
    session_id: u64,
    truncated_at: Option<u64>,
    reader_warnings: u64,
    child_exit_code: Option<u8>,
    error: Option<&'a str>,
}

impl Report {
    /// What is wrong with the recording, the gravest first.
    // spec: CLI-TRACE-3
    pub(crate) fn failure(&self) -> Option<Failure> {
        let (file, port) = (self.file.display(), &self.port);
        if let Some(error) = &self.written.write_error {
            let message =
                format!("cannot write {file}: {error}; its first {} bytes are kept", self.written.bytes);
            return Some(Failure::new(Exit::Failed, message));
        }
        let ending = &self.written.counts.ending;
        if let Ending::Malformed(reason) = ending {
            return Some(Failure::new(
                Exit::Failed,
                format!("{port}: the target's stream cannot be read: {reason}"),
            ));
        }
        if let Some(failure) = &self.setup_failure {
            return Some(failure.clone());
        }
        match (&self.stream_end, ending) {
            // A complete stream is complete, whatever became of the stop.
            (_, Ending::Complete) => self.loss_failure(),
            (StreamEnd::TimedOut(failure) | StreamEnd::StopRefused(failure), _) => Some(failure.clone()),
            (StreamEnd::ByTarget, Ending::TruncatedAt(at)) => Some(Failure::new(
                Exit::Truncated,
                format!(
                    "{port}: the target ended the stream without an end mark (did it die?): {file} is truncated at byte {at}"
                ),
            )),
            (StreamEnd::Broken(reason), Ending::TruncatedAt(at)) => Some(Failure::new(
                Exit::Truncated,
                format!("{port}: {reason}: {file} is truncated at byte {at}"),
            )),
            (StreamEnd::OnRequest, Ending::TruncatedAt(at)) => Some(Failure::new(
                Exit::Truncated,
                format!("left on request before the stream ended: {file} is truncated at byte {at}"),
            )),
            (_, Ending::Malformed(_)) => None,
        }
    }

    fn loss_failure(&self) -> Option<Failure> {
        let lost = self.written.counts.lost;
        let failing = lost > 0 && self.loss_rule == LossRule::Fail;
        failing.then(|| Failure::new(Exit::Lossy, format!("{}: the target lost {lost} events", self.port)))
    }

    fn truncated_at(&self) -> Option<u64> {
        match self.written.counts.ending {
            Ending::TruncatedAt(at) => Some(at),
            Ending::Complete | Ending::Malformed(_) => None,
        }
    }

    /// Loss always stands in it.
    // spec: CLI-TRACE-4
    pub(crate) fn last_line(&self) -> String {
        let verdict = match &self.written.counts.ending {
            Ending::Complete if self.written.write_error.is_none() => "Trace completed.".to_owned(),
            Ending::TruncatedAt(at) => format!("Trace truncated at byte {at}."),
            Ending::Complete | Ending::Malformed(_) => "Trace failed.".to_owned(),
        };
        let counts = &self.written.counts;
        format!(
            "{verdict} events={} bytes={} lost={} file={}",
            counts.events,
            self.written.bytes,
            counts.lost,
            self.file.display()
        )
    }

    /// Our own verdict comes first. Only a recording that ends early because the command died is told by the command's own
    /// code, as without us.
    // spec: CLI-CHILD-1
    pub(crate) fn exit_code(&self, failure: Option<&Failure>, child_code: Option<u8>) -> u8 {
        let child_code = child_code.unwrap_or(0);
        let own = failure.map_or(Exit::Ok, |failure| failure.exit);
        let child_died = self.stream_end == StreamEnd::ByTarget && child_code != 0;
        if own == Exit::Ok || (own == Exit::Truncated && child_died) { child_code } else { own.code() }
    }

    pub(crate) fn json<'a>(
        &'a self,
        failure: Option<&'a Failure>,
        exit_code: u8,
        child_exit_code: Option<u8>,
    ) -> JsonReport<'a> {
        JsonReport {
            status: failure.map_or(Exit::Ok, |failure| failure.exit).word(),
            exit_code,
            events: self.written.counts.events,
            bytes: self.written.bytes,
            lost: self.written.counts.lost,
            file: self.file.display().to_string(),
            session_id: self.session_id,
            truncated_at: self.truncated_at(),
            reader_warnings: self.written.counts.warnings,
            child_exit_code,
            error: failure.map(|failure| failure.message.as_str()),
        }
    }
}

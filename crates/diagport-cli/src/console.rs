//! The one place that prints. Results go to standard output, everything about the run to standard error.
//!
//! A reader that goes away (`| head`) is no error of ours: what cannot be written any more is dropped.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Failure;

/// One line of result.
pub(crate) fn result_line(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// One result as JSON, on a line of its own.
pub(crate) fn result_json(value: &impl Serialize) {
    result_line(&serde_json::to_string(value).expect("our results have string keys and no failing parts"));
}

/// One line about the run.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{text}");
}

/// The one error line.
pub(crate) fn error_line(failure: &Failure) {
    note(&format!("error: {}", failure.message));
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    status: &'static str,
    exit_code: u8,
    error: &'a str,
}

/// The error for whoever asked for JSON, with the exit code of the process, which may be a launched command's.
pub(crate) fn error_json(failure: &Failure, exit_code: u8) {
    result_json(&JsonFailure { status: failure.exit.word(), exit_code, error: &failure.message });
}

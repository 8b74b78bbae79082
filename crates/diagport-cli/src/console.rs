//! The one place that prints. Results go to standard output, everything about the run to standard error.
//!
//! A reader that goes away (`| head`) is no error of ours: what cannot be written any more is dropped. Any other failure
//! to write a result is kept for the end of the run, see [`output_failure`].
//!
//! Much of what is printed was said by a peer: a command line, a variable, an error text. Nothing of it may steer the
//! terminal or look like a line of ours, so control characters are printed as escapes.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::FileType;
use serde::Serialize;

use crate::exit::{Exit, Failure};

/// Why a result could not be written; the first reason holds.
static OUTPUT_FAILURE: OnceLock<String> = OnceLock::new();

/// One line of result.
pub(crate) fn result_line(text: &str) {
    write_result(&line_text(text));
}

/// One result as JSON, on a line of its own.
pub(crate) fn result_json(value: &impl Serialize) {
    write_result(&json_line(value));
}

/// One result as JSON where standard output is taken.
pub(crate) fn note_json(value: &impl Serialize) {
    note(&json_line(value));
}

fn write_result(line: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        OUTPUT_FAILURE.get_or_init(|| error.to_string());
    }
}

/// What a run that went well otherwise has to report: its result did not get out.
// spec: CLI-OUT-2
pub(crate) fn output_failure() -> Option<Failure> {
    let reason = OUTPUT_FAILURE.get()?;
    Some(Failure::new(Exit::Failed, format!("cannot write standard output: {reason}")))
}

/// Control characters can stand in strings only, where JSON has an escape for each.
fn json_line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("our results have string keys and no failing parts");
    visible(&text, |c| {
        let mut units = [0; 2];
        c.encode_utf16(&mut units).iter().fold(String::new(), |mut escape, unit| {
            // A String takes everything.
            let _ = write!(escape, "\\u{unit:04x}");
            escape
        })
    })
}

/// One line about the run.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{}", line_text(text));
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

/// Whether `path` is where our standard output goes: a pipe or a file, but not a terminal or `/dev/null`.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    let Ok(named) = std::fs::metadata(path) else { return false };
    let Ok(own) = rustix::fs::fstat(io::stdout().as_fd()) else { return false };
    (named.dev(), named.ino()) == (own.st_dev, own.st_ino)
        && FileType::from_raw_mode(own.st_mode) != FileType::CharacterDevice
}

/// Text that stays within its line, and its cell of a table.
pub(crate) fn line_text(text: &str) -> String {
    visible(text, |c| c.escape_default().to_string())
}

/// The text with everything escaped that is no character to look at.
// spec: CLI-OUT-1
fn visible(text: &str, escape: impl Fn(char) -> String) -> String {
    if !text.contains(steers) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if steers(c) {
            out.push_str(&escape(c))
        } else {
            out.push(c)
        }
        out
    })
}

/// Control characters except the tab, line and paragraph separators, and what turns the direction of writing.
fn steers(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec-test: CLI-OUT-1
    #[test]
    fn nothing_that_a_peer_says_steers_the_terminal() {
        let check = |text: &str, line: &str, json: &str| {
            assert_eq!(line_text(text), line);
            let printed = json_line(&text);
            assert_eq!(printed, json);
            assert_eq!(serde_json::from_str::<String>(&printed).expect("valid JSON"), text);
        };
        check("plain: \t ünï✓ 😀", "plain: \t ünï✓ 😀", "\"plain: \\t ünï✓ 😀\"");
        check("\u{1b}[2J", "\\u{1b}[2J", "\"\\u001b[2J\"");
        check("a\r\nerror: b", "a\\r\\nerror: b", "\"a\\r\\nerror: b\"");
        check("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}", "\"\\u009b31m\\u007f\"");
        check("\u{2028}\u{202e}cba", "\\u{2028}\\u{202e}cba", "\"\\u2028\\u202ecba\"");
    }
}

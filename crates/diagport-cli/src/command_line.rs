//! The command line: its words, and what each runs.

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::console;
use crate::convert::ConvertCommand;
use crate::demo::DemoCommand;
use crate::exit::{Exit, Failure, one_line};
use crate::info::InfoCommand;
use crate::load::LoadCommand;
use crate::process_environment::EnvCommand;
use crate::ps::PsCommand;
use crate::resume::ResumeCommand;
use crate::stop::StopCommand;
use crate::trace::{StopTriggers, TraceCommand};

/// How long tasks that are still busy may hold the exit.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// A .NET Diagnostic Port for any process, and the tools to use one
#[derive(Debug, Parser)]
#[command(name = "diagport", version)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ps(PsCommand),
    Info(InfoCommand),
    Env(EnvCommand),
    Resume(ResumeCommand),
    Stop(StopCommand),
    #[command(visible_alias = "collect")]
    Trace(TraceCommand),
    Convert(ConvertCommand),
    Demo(DemoCommand),
    Load(LoadCommand),
}

impl CommandLine {
    /// Reads this process's arguments. `Err`: help was shown, or the error line.
    pub(crate) fn from_process() -> Result<Self, ExitCode> {
        let arguments = accept_released_spellings(std::env::args_os());
        let json = Json::asked_for_in(&arguments);
        Self::try_parse_from(arguments).map_err(|error| show(&error, json))
    }

    pub(crate) fn run(self) -> ExitCode {
        let _log = match crate::log::start() {
            Ok(log) => log,
            Err(failure) => {
                let arguments: Vec<OsString> = std::env::args_os().collect();
                return finish(Json::asked_for_in(&arguments), Err(failure));
            }
        };
        match self.command {
            Command::Ps(command) => finish(Json::when(command.json), block_on(command.run())),
            Command::Info(command) => {
                finish(Json::when(command.common.json), block_on(until_signal(command.run())))
            }
            Command::Env(command) => {
                finish(Json::when(command.common.json), block_on(until_signal(command.run())))
            }
            Command::Resume(command) => {
                finish(Json::when(command.common.json), block_on(until_signal(command.run())))
            }
            Command::Stop(command) => {
                finish(Json::when(command.common.json), block_on(until_signal(command.run())))
            }
            Command::Convert(command) => finish(Json::No, command.run()),
            Command::Demo(command) => finish(Json::when(command.json), block_on(until_signal(command.run()))),
            Command::Load(command) => finish(Json::No, block_on(command.run())),
            Command::Trace(command) => match block_on(command.run()) {
                Ok(0) => finish(Json::No, Ok(())),
                Ok(code) => ExitCode::from(code),
                Err(failure) => finish(Json::when(command.json), Err(failure)),
            },
        }
    }
}

/// Spellings of the released tools that clap does not know by itself: `trace collect …` for `trace …`, `--option:value`
/// and `-o:value` for `--option=value` and `-o=value`, `-?` for `--help`. Everything behind `--` is a child's and stays as it
/// is.
// spec: CLI-SPELL-1
fn accept_released_spellings(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut accepted: Vec<OsString> = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let behind_trace = accepted.len() == 2 && accepted[1] == "trace";
        if argument == "--" {
            accepted.push(argument);
            accepted.extend(arguments);
            break;
        }
        if argument == "-?" {
            accepted.push("--help".into());
        } else if !(behind_trace && argument == "collect") {
            accepted.push(with_equals_sign(argument));
        }
    }
    accepted
}

fn with_equals_sign(argument: OsString) -> OsString {
    let Some(text) = argument.to_str() else { return argument };
    let is_word = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    let is_option = |name: &str| match name.strip_prefix("--") {
        Some(word) => is_word(word),
        None => name.len() == 2 && name.starts_with('-') && is_word(&name[1..]),
    };
    match text.split_once(':') {
        Some((name, value)) if is_option(name) => format!("{name}={value}").into(),
        _ => argument,
    }
}

/// Shows help and version as they are, an error as one line.
fn show(error: &clap::Error, json: Json) -> ExitCode {
    if !error.use_stderr() {
        // Help may be piped into something that stops reading.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let paragraph: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        // "use `-- WORD`" would launch a command.
        .filter(|line| !(line.contains("tip:") && line.contains("'-- ")))
        .collect();
    let message = one_line(&paragraph.join("\n"));
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    finish(json, Err(Failure::new(Exit::Usage, format!("{message} (diagport --help says more)"))))
}

/// Whether an error is printed as JSON too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Json {
    Yes,
    No,
}

impl Json {
    fn when(asked: bool) -> Self {
        if asked { Self::Yes } else { Self::No }
    }

    /// For arguments that make no command: whoever wrote `--json` reads JSON.
    fn asked_for_in(arguments: &[OsString]) -> Self {
        Self::when(arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json"))
    }
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start the I/O runtime: {error}")))?;
    let result = runtime.block_on(work);
    // Tasks that own a listening socket remove it when they are dropped; a file system that hangs must not hold the exit.
    runtime.shutdown_timeout(SHUTDOWN_LIMIT);
    result
}

/// Ends the work at a signal in such a way that sockets which were made for it go.
// spec: CLI-STOPPING-5
async fn until_signal<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut signals = StopTriggers::install()?;
    tokio::select! {
        result = work => result,
        _ = signals.next() => Err(Failure::new(Exit::Failed, "interrupted")),
    }
}

fn finish(json: Json, result: Result<(), Failure>) -> ExitCode {
    match result.and_then(|()| console::output_failure().map_or(Ok(()), Err)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console::error_line(&failure);
            if json == Json::Yes {
                console::error_json(&failure, failure.exit.code());
            }
            ExitCode::from(failure.exit.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }

    // spec-test: CLI-SPELL-1
    #[test]
    fn released_spellings_are_accepted() {
        let check = |given: &[&str], expected: &[&str]| {
            let accepted = accept_released_spellings(given.iter().map(OsString::from));
            assert_eq!(accepted, expected.iter().map(OsString::from).collect::<Vec<_>>());
        };
        check(&["d", "trace", "collect", "-p", "1"], &["d", "trace", "-p", "1"]);
        check(&["d", "collect", "-p", "1"], &["d", "collect", "-p", "1"]);
        check(&["d", "trace", "--resume-runtime:false"], &["d", "trace", "--resume-runtime=false"]);
        check(&["d", "trace", "--providers", "A:1:2"], &["d", "trace", "--providers", "A:1:2"]);
        check(&["d", "trace", "--providers=A:1"], &["d", "trace", "--providers=A:1"]);
        check(&["d", "info", "-p:17", "-?"], &["d", "info", "-p=17", "--help"]);
        check(
            &["d", "trace", "-o:/a:b", "-:", "-ab:c", "x:y"],
            &["d", "trace", "-o=/a:b", "-:", "-ab:c", "x:y"],
        );
        check(
            &["d", "trace", "--", "x", "collect", "--a:b", "--"],
            &["d", "trace", "--", "x", "collect", "--a:b", "--"],
        );
    }
}

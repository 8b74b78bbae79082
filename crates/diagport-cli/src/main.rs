//! The `diagport` binary.

#![forbid(unsafe_code)]

mod command_line;
mod console;
mod convert;
mod demo;
mod exit;
mod info;
mod load;
mod log;
mod output_file;
mod process_environment;
mod ps;
mod resume;
mod stop;
mod target_options;
mod trace;

use std::process::ExitCode;

use crate::command_line::CommandLine;

fn main() -> ExitCode {
    let command_line = match CommandLine::from_process() {
        Ok(command_line) => command_line,
        Err(exit) => return exit,
    };
    command_line.run()
}

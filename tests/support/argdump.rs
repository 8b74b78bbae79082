//! The child of the launch tests: a program with a diagnostic port that shows how it was started.
//!
//! It waits for its resume, prints each argument as a line of hexadecimal, then `stdin` and what it read there, writes as many
//! megabytes to standard error as `ARGDUMP_STDERR_MB` says, and exits with `ARGDUMP_EXIT`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its output is what the tests look at")]

use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use diagport_server::{OwnProcess, ServerBuilder};
use diagport_session::{EventPipe, ProcessDescription};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let pipe = EventPipe::new(ProcessDescription::of_this_process());
    let host = Arc::new(OwnProcess::new());
    let server = ServerBuilder::from_environment(pipe, host, |name| std::env::var(name).ok()).start()?;
    server.wait_resumed().await;

    for argument in std::env::args_os().skip(1) {
        println!("{}", support::requests::hex(&argument.into_vec()));
    }
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    println!("stdin {}", support::requests::hex(&input));
    let chunk = vec![b'e'; 1 << 20];
    for _ in 0..number("ARGDUMP_STDERR_MB") {
        std::io::stderr().write_all(&chunk)?;
    }
    server.shutdown(Duration::from_secs(5)).await;
    Ok(ExitCode::from(number("ARGDUMP_EXIT")))
}

fn number(name: &str) -> u8 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

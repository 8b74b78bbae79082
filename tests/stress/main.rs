//! Randomised stress of the event engine with an oracle that counts: `cargo xtask stress`.
//!
//! ```text
//!  seed ─▶ Plan ─▶ producers that come and go ─▶ EventPipe ─▶ sessions ─▶ readers of every kind ─▶ bytes
//!                     │ each attempt, held against the phase of each session                        │
//!                     ▼                                                                             ▼
//!                  Tally: sure, possible, may be lost ───────────── verdict ◀────────────── Stream: received, lost
//! ```
//!
//! The plan follows from the seed; how the threads meet does not, so a failure may need several repeats.
//! What it does not do: measure, or look inside the engine. It uses the public API and reads streams with our own reader.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that talks to the person who runs it"
)]

mod accounting;
mod controller;
mod iteration;
mod life;
mod plan;
mod random;
mod reader_sink;
mod stream;
mod verdict;
mod watchdog;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};

use crate::iteration::Sums;
use crate::plan::Load;
use crate::random::Random;
use crate::reader_sink::PLANNED_PANIC;
use crate::watchdog::Watchdog;

const USAGE: &str = "usage: stress [--seconds N] [--iterations N] [--repeat SEED] [--seed S] [--light]
       stress --case accounting [--runs N] [--judge K] [--seed S] [--light]";
/// No iteration takes this long, on a loaded machine under a sanitizer either.
const HANG: Duration = Duration::from_secs(60);
const SAY_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Options {
    seed: u64,
    seconds: Option<u64>,
    iterations: Option<u64>,
    load: Load,
    /// All iterations use the one seed.
    repeats: bool,
    accounting: bool,
    runs: u64,
    judged: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match parse(&words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("stress: {error:#}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    silence_planned_panics();
    let slow = if std::env::var_os("DIAGPORT_SANITIZED").is_some() { 5 } else { 1 };
    let watchdog = Watchdog::start(slow * HANG);
    let outcome = if options.accounting {
        let Options { seed, runs, judged, load, .. } = options;
        accounting::run(&accounting::Options { seed, runs, judged, load }, &watchdog)
    } else {
        stress(&options, &watchdog)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[String]) -> anyhow::Result<Options> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut options = Options {
        // Short enough to type.
        seed: now.as_micros() as u64 % 1_000_000_000,
        seconds: None,
        iterations: None,
        load: Load::Full,
        repeats: false,
        accounting: false,
        runs: 1_000,
        judged: 0,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let text = words.next().with_context(|| format!("{word} needs a number"))?;
            text.parse::<u64>().with_context(|| format!("{word} {text}"))
        };
        match word.as_str() {
            "--seed" => options.seed = number()?,
            "--seconds" => options.seconds = Some(number()?),
            "--iterations" => options.iterations = Some(number()?),
            "--runs" => options.runs = number()?,
            "--judge" => options.judged = number()?,
            "--repeat" => (options.repeats, options.seed) = (true, number()?),
            "--light" => options.load = Load::Light,
            "--case" => match words.next().map(String::as_str) {
                Some("accounting") => options.accounting = true,
                case => bail!("--case {}", case.unwrap_or_default()),
            },
            _ => bail!("{word}?"),
        }
    }
    Ok(options)
}

fn stress(options: &Options, watchdog: &Watchdog) -> anyhow::Result<()> {
    let limit = match (options.seconds, options.iterations) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        (None, Some(_)) => Duration::MAX,
        (None, None) => Duration::from_secs(10),
    };
    println!("stress: seed {}", options.seed);
    let (begin, mut said) = (Instant::now(), Instant::now());
    let (mut sums, mut longest) = (Sums::default(), (Duration::ZERO, 0));
    let mut seeds = Random::new(options.seed);
    let mut count = 0;
    while begin.elapsed() < limit && count < options.iterations.unwrap_or(u64::MAX) {
        // The first is the seed itself, so that one iteration can be repeated.
        let seed = if count == 0 || options.repeats { options.seed } else { seeds.next() };
        let light = if options.load == Load::Light { " --light" } else { "" };
        let repeat = format!("cargo xtask stress --repeat {seed} --iterations 20{light}");
        watchdog.watch(format!("iteration {count}\nrepeat: {repeat}"));
        let from = Instant::now();
        if let Err(wrong) = iteration::run(seed, options.load, &mut sums) {
            bail!("iteration {count}, seed {seed}:\n  {}\nrepeat: {repeat}", wrong.join("\n  "));
        }
        longest = longest.max((from.elapsed(), seed));
        count += 1;
        if said.elapsed() > SAY_EVERY {
            println!("stress: {count} iterations in {:.0?}", begin.elapsed());
            said = Instant::now();
        }
    }
    let Sums { attempts, received, lost, ends } = sums;
    println!(
        "stress: {count} iterations in {:.1?}: {attempts} attempts, {received} received, {lost} lost, longest {:.2?} (seed {}), sessions {ends:?}",
        begin.elapsed(),
        longest.0,
        longest.1
    );
    Ok(())
}

/// Panics that belong to the plan say nothing.
fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some(PLANNED_PANIC) {
            usual(info);
        }
    }));
}

//! One command a line in, one answer line out: the same words and answers as the real .NET target.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use diagport_session::EventPipe;

use super::peer_load::PeerLoad;

/// Threads that `churn` has alive at a time.
const CHURN_BATCH: u64 = 50;
/// Threads that `burst` has alive at a time, at most.
const MAX_THREADS: u64 = 100_000;
/// `tick` looks at the clock this often.
const PACE_STEP: Duration = Duration::from_millis(1);

/// What the caller does after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Exit,
}

/// Runs one line and writes its answer to `out`.
///
/// # Errors
/// Only if `out` cannot be written: a line that makes no sense is answered, not an error.
pub(super) fn run_line(
    pipe: &EventPipe,
    events: &PeerLoad,
    line: &str,
    out: &mut impl Write,
) -> anyhow::Result<Next> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let Some((&command, arguments)) = words.split_first() else { return Ok(Next::Continue) };
    let answer = match command {
        "burst" => product(arguments).and_then(|(threads, count)| burst(events, threads, count)),
        "churn" => product(arguments).and_then(|(threads, count)| churn(events, threads, count)),
        "tick" => product(arguments).map(|(hertz, seconds)| tick(events, hertz, seconds)),
        "activity" => one(arguments).map(|count| activity(events, count)),
        "sessions" => Ok(sessions(pipe)),
        "exit" => return Ok(Next::Exit),
        other => Ok(format!("unknown {other}")),
    };
    let answer = answer.unwrap_or_else(|reason| format!("invalid {command}: {reason:#}"));
    writeln!(out, "{answer}").context("writing the answer")?;
    out.flush().context("writing the answer")?;
    Ok(Next::Continue)
}

fn number(arguments: &[&str], position: usize) -> anyhow::Result<u64> {
    let word = arguments.get(position).with_context(|| format!("argument {} is missing", position + 1))?;
    word.parse().with_context(|| format!("argument {} is not a whole number: {word:?}", position + 1))
}

fn one(arguments: &[&str]) -> anyhow::Result<u64> {
    number(arguments, 0)
}

/// Two numbers whose product can be said.
fn product(arguments: &[&str]) -> anyhow::Result<(u64, u64)> {
    let (first, second) = (number(arguments, 0)?, number(arguments, 1)?);
    first.checked_mul(second).with_context(|| format!("{first} times {second} events are too many"))?;
    Ok((first, second))
}

/// Emits on `threads` threads at once and waits for all that could be started.
fn on_threads(threads: u64, work: impl Fn(u64) + Sync) -> anyhow::Result<()> {
    anyhow::ensure!(threads <= MAX_THREADS, "{threads} threads at once are more than {MAX_THREADS}");
    let work = &work;
    thread::scope(|scope| {
        (0..threads).try_for_each(|thread| {
            thread::Builder::new().spawn_scoped(scope, move || work(thread)).map(|_| ())
        })
    })
    .context("cannot start a thread")
}

fn burst(events: &PeerLoad, threads: u64, per_thread: u64) -> anyhow::Result<String> {
    let enabled = events.tick.is_enabled();
    let start = Instant::now();
    on_threads(threads, |thread| {
        for index in 0..per_thread {
            events.tick.write((index as i64, thread as i64, "0123456789abcdef"));
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let total = threads * per_thread;
    Ok(format!(
        "burst threads={threads} events={total} enabled={} seconds={seconds:.4} ns_per_event_per_thread={:.1} \
         events_per_second={:.0} rss_mb={}",
        if enabled { "True" } else { "False" },
        seconds * 1e9 / per_thread.max(1) as f64,
        total as f64 / seconds,
        resident_mb(),
    ))
}

fn churn(events: &PeerLoad, threads: u64, per_thread: u64) -> anyhow::Result<String> {
    let start = Instant::now();
    let mut done = 0;
    while done < threads {
        let batch = CHURN_BATCH.min(threads - done);
        on_threads(batch, |_| {
            for index in 0..per_thread {
                events.tick.write((index as i64, 0, "0123456789abcdef"));
            }
        })?;
        done += batch;
    }
    Ok(format!(
        "churn threads={threads} events={} seconds={:.3} rss_mb={} cpu_s={:.2}",
        threads * per_thread,
        start.elapsed().as_secs_f64(),
        resident_mb(),
        processor_seconds(),
    ))
}

fn tick(events: &PeerLoad, hertz: u64, seconds: u64) -> String {
    let total = hertz * seconds;
    let start = Instant::now();
    for index in 0..total {
        events.tick.write((index as i64, 0, "tick-tick-tick-t"));
        let due = Duration::from_secs_f64((index + 1) as f64 / hertz as f64);
        while start.elapsed() < due {
            thread::sleep(PACE_STEP);
        }
    }
    format!("tick {total}")
}

fn activity(events: &PeerLoad, count: u64) -> String {
    for number in 0..count {
        let number = number as i32;
        events.outer_start.write((number,));
        events.inner_start.write((number,));
        events.tick.write((i64::from(number), 0, "inside"));
        events.inner_stop.write((number,));
        events.outer_stop.write((number,));
    }
    format!("activity {count}")
}

fn sessions(pipe: &EventPipe) -> String {
    let count = pipe.statistics();
    format!(
        "sessions live={} emitted={} written={} dropped={}",
        count.live_sessions, count.emitted, count.written, count.dropped
    )
}

/// Resident memory in MiB, 0 where procfs cannot say.
fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}

/// Processor time of the whole process so far, user and system.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagport_session::ProcessDescription;

    fn check(line: &str, expected: &str) {
        let pipe = EventPipe::new(ProcessDescription::of_this_process());
        let events = PeerLoad::register(&pipe).expect("the shapes are valid");
        let mut out = Vec::new();
        let next = run_line(&pipe, &events, line, &mut out).expect("a Vec can be written");
        let text = String::from_utf8(out).expect("answers are text");
        assert!(
            text.starts_with(expected),
            "{line:?} answered {text:?}, expected it to begin with {expected:?}"
        );
        assert_eq!(next == Next::Exit, line == "exit", "{line:?}");
    }

    #[test]
    fn answers_are_those_of_the_real_target() {
        check("burst 2 10", "burst threads=2 events=20 enabled=False seconds=");
        check("churn 3 4", "churn threads=3 events=12 seconds=");
        check("tick 1000 1", "tick 1000\n");
        check("activity 2", "activity 2\n");
        check("sessions", "sessions live=0 emitted=0 written=0 dropped=0\n");
        check("heap 5", "unknown heap\n");
        check("", "");
        check("exit", "");
    }

    #[test]
    fn a_line_that_makes_no_sense_is_answered() {
        check("burst", "invalid burst: argument 1 is missing\n");
        check("tick 10 x", "invalid tick: argument 2 is not a whole number: \"x\"");
        check(
            "burst 18446744073709551615 2",
            "invalid burst: 18446744073709551615 times 2 events are too many\n",
        );
        check("burst 100001 0", "invalid burst: 100001 threads at once are more than 100000\n");
        check(
            "tick 18446744073709551615 2",
            "invalid tick: 18446744073709551615 times 2 events are too many\n",
        );
    }
}

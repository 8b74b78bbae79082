//! What an event costs inside one process, without sockets: `cargo bench -p diagport-session [-- PART OF A NAME]`.
//!
//! Prints the median and the range of several rounds of each case. What it does not do: compare with a runtime (`cargo xtask bench` does), or fail.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "it talks to the person who runs it"
)]

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use diagport_session::{
    BufferingMode, Event, EventContext, EventDefinition, EventPipe, ProcessDescription, ProviderConfig,
    Session, SessionConfig, SessionEnd, SessionType, Sink, StackWalk, WaitFinished, WriteOutcome,
};

/// Takes everything at once.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, bytes: &[u8], _wait: Duration) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

type Tick = Event<(i64, i64, String)>;

const TEXT: &str = "0123456789abcdef";

fn target() -> (EventPipe, Tick) {
    let pipe = EventPipe::new(ProcessDescription::of_this_process());
    let definition = EventDefinition::new(1, "Tick").keywords(1);
    let tick = pipe.provider("Peer-Load").define(definition, ["index", "thread", "text"]).unwrap();
    (pipe, tick)
}

fn session(pipe: &EventPipe, mode: BufferingMode, megabytes: u64) -> Session {
    session_with(pipe, mode, megabytes, StackWalk::Off)
}

fn session_with(pipe: &EventPipe, mode: BufferingMode, megabytes: u64, stack_walk: StackWalk) -> Session {
    let providers = vec![ProviderConfig::everything("Peer-Load")];
    pipe.create_session(SessionConfig {
        buffering_mode: mode,
        budget_bytes: megabytes << 20,
        stack_walk,
        ..SessionConfig::new(SessionType::IpcStream, providers)
    })
    .unwrap()
}

fn end(session: &Session) -> SessionEnd {
    session.request_stop();
    let WaitFinished::Finished(end) = session.wait_finished(Duration::from_secs(60)) else {
        panic!("the session does not end")
    };
    end
}

/// Processor time of the calling thread: what other load of the machine leaves alone.
fn thread_nanos() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds of a write where no session wants it.
fn disabled() -> f64 {
    let (_pipe, tick) = target();
    let count = 50_000_000;
    let begin = thread_nanos();
    for index in 0..count {
        std::hint::black_box(tick.write((std::hint::black_box(index), 0, TEXT)));
    }
    (thread_nanos() - begin) / count as f64
}

/// Nanoseconds of a write of one thread into a large Drop session; all events fit it together, so nothing is dropped.
fn enabled(stack_walk: StackWalk, frames: &[u64]) -> f64 {
    let (pipe, tick) = target();
    let session = session_with(&pipe, BufferingMode::Drop, 64, stack_walk);
    session.start(Box::new(Nowhere));
    let context = EventContext { stack: frames, ..EventContext::default() };
    let count = 200_000;
    let begin = thread_nanos();
    for index in 0..count {
        assert_eq!(tick.write_with(&context, (index, 0, TEXT)), WriteOutcome::Written);
    }
    let took = thread_nanos() - begin;
    assert_eq!(end(&session).statistics.written, count as u64);
    took / count as f64
}

/// The same in memory that was used before: small bursts, each drained before the next.
fn enabled_warm() -> f64 {
    let (pipe, tick) = target();
    let session = session(&pipe, BufferingMode::Drop, 64);
    session.start(Box::new(Nowhere));
    let (bursts, each) = (20, 10_000);
    let mut took = 0.0;
    for burst in 0..=bursts {
        thread::sleep(Duration::from_millis(40));
        let begin = thread_nanos();
        for index in 0..each {
            assert_eq!(tick.write((index, 0, TEXT)), WriteOutcome::Written);
        }
        if burst > 0 {
            took += thread_nanos() - begin;
        }
    }
    assert_eq!(end(&session).statistics.dropped, 0);
    took / (bursts * each) as f64
}

/// Million events a second, written by two threads and delivered to the sink, in Block mode.
fn blocked(megabytes: u64) -> f64 {
    let (pipe, tick) = target();
    let session = session(&pipe, BufferingMode::Block, megabytes);
    session.start(Box::new(Nowhere));
    let each = 500_000;
    let begin = Instant::now();
    thread::scope(|scope| {
        for thread in 0..2 {
            let tick = &tick;
            scope.spawn(move || (0..each).for_each(|index| _ = tick.write((index, thread, TEXT))));
        }
    });
    let end = end(&session);
    let took = begin.elapsed();
    assert_eq!((end.statistics.written, end.statistics.dropped), (2 * each as u64, 0));
    2.0 * each as f64 / took.as_secs_f64() / 1e6
}

/// Seconds for 10,000 threads of 4 events each, 16 at a time, in Block mode at 1 MB.
fn churn() -> f64 {
    let (pipe, tick) = target();
    let session = session(&pipe, BufferingMode::Block, 1);
    session.start(Box::new(Nowhere));
    let begin = Instant::now();
    for _ in 0..625 {
        thread::scope(|scope| {
            for thread in 0..16 {
                let tick = &tick;
                scope.spawn(move || (0..4).for_each(|index| _ = tick.write((index, thread, TEXT))));
            }
        });
    }
    let took = begin.elapsed();
    assert_eq!(end(&session).statistics.written, 40_000);
    took.as_secs_f64()
}

fn report(what: &str, unit: &str, rounds: usize, mut measure: impl FnMut() -> f64) {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--")).peekable();
    if words.peek().is_some() && !words.any(|word| what.contains(&word)) {
        return;
    }
    let mut figures: Vec<f64> = (0..rounds).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    let (first, median, last) = (figures[0], figures[rounds / 2], figures[rounds - 1]);
    println!("{what:<44} {median:>9.2} {unit:<14} ({first:.2} to {last:.2})");
}

fn main() {
    let stack: Vec<u64> = (1..=20).collect();
    report("disabled, 1 thread", "ns cpu", 5, disabled);
    report("enabled, 1 thread, Drop 64 MB", "ns cpu", 7, || enabled(StackWalk::Off, &[]));
    report("enabled, 1 thread, Drop 64 MB, 20 frames", "ns cpu", 7, || enabled(StackWalk::On, &stack));
    report("enabled, 1 thread, Drop 64 MB, own stack", "ns cpu", 7, || enabled(StackWalk::On, &[]));
    report("enabled, 1 thread, warm memory", "ns cpu", 7, enabled_warm);
    report("2 threads of 500,000, Block 1 MB", "M events/s", 7, || blocked(1));
    report("2 threads of 500,000, Block 64 MB", "M events/s", 7, || blocked(64));
    report("10,000 threads of 4, Block 1 MB", "s", 3, churn);
}

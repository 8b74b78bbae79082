//! The producers of the native emitter: the same loops, clocks and counts as those of LTTng's emitter (`lttng/emitter.c`).

use std::hint::black_box;
use std::io::Read as _;
use std::str::FromStr;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use diagport_session::WriteOutcome;
use diagport_sys::counter;
use rustix::time::{ClockId, clock_gettime};

use crate::native_report::{Emitted, Tail};

/// Events of each producer before it is measured, where the burst says nothing else: its first buffers are there then.
const WARM_UP: u64 = 20_000;
/// The drain has taken what the warm-up wrote when the whole process used no more than [`STILL_NS`] over so long.
const STILL: Duration = Duration::from_millis(50);
const STILL_NS: f64 = 1e6;
/// The drain may take so long for it.
const DRAINED_WITHIN: Duration = Duration::from_secs(30);
const MAX_THREADS: u64 = 64;
/// Latencies below so many ticks are counted exactly, then in [`STEPS`] buckets for each doubling.
const EXACT: u64 = 1 << EXACT_BITS;
const EXACT_BITS: u32 = 10;
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 6;
const OCTAVES: u64 = 40;
const STEP: Duration = Duration::from_millis(1);

/// How producers emit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    /// As fast as they can, the loop measured as a whole.
    Plain,
    /// The same, and each event between two reads of the raw counter.
    Timed,
    /// So many events a second, all producers together, in steps of a millisecond.
    Rate(f64),
}

/// Who emits how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Burst {
    pub(crate) threads: u64,
    /// Of each thread.
    pub(crate) events: u64,
    /// Of each thread, before it is measured.
    pub(crate) warm_up: u64,
    pub(crate) mode: Mode,
}

impl Burst {
    pub(crate) fn new(threads: u64, events: u64) -> Self {
        Self { threads, events, warm_up: WARM_UP, mode: Mode::Plain }
    }

    /// Memory that is touched for the first time costs several times the event itself, on a virtual machine most of all. LTTng touches its
    /// rings when the session is made; ours come with the events, and a warm-up of so many of each thread brings them.
    pub(crate) fn warmed_by(self, warm_up: u64) -> Self {
        Self { warm_up, ..self }
    }

    /// What a session sees of it.
    pub(crate) fn attempts(&self) -> u64 {
        self.threads * (self.events + self.warm_up)
    }

    /// As both emitters read it: `THREADS EVENTS WARM_UP MODE RATE`.
    pub(crate) fn words(&self) -> [String; 5] {
        let (mode, rate) = match self.mode {
            Mode::Plain => ("plain", 0.0),
            Mode::Timed => ("timed", 0.0),
            Mode::Rate(rate) => ("plain", rate),
        };
        let [threads, events, warm_up] =
            [self.threads, self.events, self.warm_up].map(|number| number.to_string());
        [threads, events, warm_up, mode.to_owned(), rate.to_string()]
    }
}

impl FromStr for Burst {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [threads, events, warm_up, mode, rate] = words[..] else {
            bail!("not THREADS EVENTS WARM_UP MODE RATE: {text:?}")
        };
        let rate: f64 = rate.parse().context("rate")?;
        let mode = match mode {
            "timed" => Mode::Timed,
            "plain" if rate > 0.0 => Mode::Rate(rate),
            "plain" => Mode::Plain,
            other => bail!("mode {other:?} is not known"),
        };
        let burst =
            Self { threads: threads.parse()?, events: events.parse()?, warm_up: warm_up.parse()?, mode };
        ensure!((1..=MAX_THREADS).contains(&burst.threads) && burst.events > 0, "{text:?} is out of range");
        Ok(burst)
    }
}

/// What one producer saw.
struct Produced {
    began: Instant,
    ended: Instant,
    cpu_ns: f64,
    minor_faults: u64,
    latencies: Latencies,
}

/// Runs `burst`; `emit` is given the index of an event and the number of its thread.
pub(crate) fn run(burst: &Burst, emit: impl Fn(u64, u64) -> WriteOutcome + Sync) -> anyhow::Result<Emitted> {
    let clock = TickClock::start();
    // All producers, and this thread, which says when the warm-up is drained.
    let barrier = Barrier::new(usize::try_from(burst.threads)? + 1);
    let produced: Vec<Produced> = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..burst.threads)
            .map(|thread| {
                let (barrier, emit) = (&barrier, &emit);
                scope.spawn(move || {
                    produce(burst, barrier, |index| {
                        black_box(emit(index, thread));
                    })
                })
            })
            .collect();
        barrier.wait();
        if burst.warm_up > 0 {
            await_drained();
        }
        barrier.wait();
        producers.into_iter().map(|producer| producer.join().ok()?).collect::<Option<Vec<_>>>()
    })
    .context("a producer has panicked, or procfs cannot be read")?;
    summary(burst, clock.tick_ns(), produced)
}

/// One that never ends is measured as it is: what it costs shows in the figures.
fn await_drained() {
    let began = Instant::now();
    let mut from = (process_cpu_ns(), Instant::now());
    while from.1.elapsed() < STILL && began.elapsed() < DRAINED_WITHIN {
        std::thread::sleep(STEP);
        let used = process_cpu_ns();
        if used > from.0 + STILL_NS {
            from = (used, Instant::now());
        }
    }
}

/// The raw counter, its rate found out by a real clock.
struct TickClock {
    began: Instant,
    ticks: u64,
}

impl TickClock {
    fn start() -> Self {
        Self { began: Instant::now(), ticks: counter::read() }
    }

    /// Over the time since its start; not a number where the processor has no counter.
    fn tick_ns(&self) -> f64 {
        let ticks = counter::read() - self.ticks;
        self.began.elapsed().as_secs_f64() * 1e9 / ticks as f64
    }
}

/// `None` where the system does not tell the thread's page faults.
fn produce(burst: &Burst, barrier: &Barrier, emit: impl Fn(u64)) -> Option<Produced> {
    (0..burst.warm_up).for_each(&emit);
    let mut latencies = Latencies::new();
    barrier.wait();
    barrier.wait();
    let faults = minor_faults();
    let cpu = thread_cpu_ns();
    let began = Instant::now();
    match burst.mode {
        Mode::Plain => (0..burst.events).for_each(&emit),
        Mode::Timed => {
            for index in 0..burst.events {
                let before = counter::read();
                emit(index);
                latencies.add(counter::read() - before);
            }
        }
        Mode::Rate(rate) => emit_at_rate(burst.events, rate / burst.threads as f64, emit),
    }
    let ended = Instant::now();
    let cpu_ns = thread_cpu_ns() - cpu;
    Some(Produced { began, ended, cpu_ns, minor_faults: minor_faults()? - faults?, latencies })
}

/// A millisecond's events at its begin, then sleep to its end; one that is late does not sleep.
fn emit_at_rate(events: u64, per_second: f64, emit: impl Fn(u64)) {
    let began = Instant::now();
    let mut index = 0;
    let mut steps = 0_u32;
    while index < events {
        steps += 1;
        let end = STEP * steps;
        // Whole events: what is left over comes in the next step.
        let due = (end.as_secs_f64() * per_second) as u64;
        (index..due.min(events)).for_each(&emit);
        index = due.min(events);
        std::thread::sleep(end.saturating_sub(began.elapsed()));
    }
}

fn summary(burst: &Burst, tick_ns: f64, produced: Vec<Produced>) -> anyhow::Result<Emitted> {
    let events = burst.threads * burst.events;
    let first = produced.iter().map(|one| one.began).min().context("no producer")?;
    let last = produced.iter().map(|one| one.ended).max().context("no producer")?;
    let wall: Duration = produced.iter().map(|one| one.ended - one.began).sum();
    let mut all = Latencies::new();
    produced.iter().for_each(|one| all.merge(&one.latencies));
    Ok(Emitted {
        events,
        cpu_ns: produced.iter().map(|one| one.cpu_ns).sum::<f64>() / events as f64,
        wall_ns: wall.as_secs_f64() * 1e9 / events as f64,
        seconds: (last - first).as_secs_f64(),
        minor_faults: produced.iter().map(|one| one.minor_faults).sum(),
        tail: (burst.mode == Mode::Timed).then(|| all.tail(tick_ns)),
    })
}

/// Counts of latencies, in ticks of the raw counter.
struct Latencies {
    buckets: Vec<u64>,
    longest: u64,
}

impl Latencies {
    fn new() -> Self {
        Self { buckets: vec![0; (EXACT + STEPS * OCTAVES) as usize], longest: 0 }
    }

    #[inline]
    fn add(&mut self, ticks: u64) {
        let last = self.buckets.len() - 1;
        self.buckets[bucket_of(ticks).min(last)] += 1;
        self.longest = self.longest.max(ticks);
    }

    fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.longest = self.longest.max(other.longest);
    }

    fn tail(&self, tick_ns: f64) -> Tail {
        let ns = |ticks: u64| ticks as f64 * tick_ns;
        Tail {
            p50_ns: ns(self.quantile(0.5)),
            p999_ns: ns(self.quantile(0.999)),
            p9999_ns: ns(self.quantile(0.9999)),
            max_ns: ns(self.longest),
        }
    }

    fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.buckets.iter().sum::<u64>() as f64 * share) as u64;
        let mut seen = 0;
        let at = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        ticks_of(at.unwrap_or(0) as u64)
    }
}

fn bucket_of(ticks: u64) -> usize {
    if ticks < EXACT {
        return ticks as usize;
    }
    let octave = ticks.ilog2();
    let step = (ticks >> (octave - STEP_BITS)) & (STEPS - 1);
    (EXACT + u64::from(octave - EXACT_BITS) * STEPS + step) as usize
}

/// The least of a bucket.
fn ticks_of(bucket: u64) -> u64 {
    if bucket < EXACT {
        return bucket;
    }
    let octave = u64::from(EXACT_BITS) + (bucket - EXACT) / STEPS;
    (STEPS + (bucket - EXACT) % STEPS) << (octave - u64::from(STEP_BITS))
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> f64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of the process.
fn process_cpu_ns() -> f64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Page faults without input of the calling thread so far. Reads into memory that is there: asking causes none.
fn minor_faults() -> Option<u64> {
    let mut table = [0; 1024];
    let filled = std::fs::File::open("/proc/thread-self/stat").ok()?.read(&mut table).ok()?;
    let text = std::str::from_utf8(&table[..filled]).ok()?;
    // minflt is field 10; the name of the thread, field 2, may hold anything but its last bracket.
    text.rsplit(')').next()?.split_whitespace().nth(7)?.parse().ok()
}

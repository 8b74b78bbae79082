//! Drop sessions at saturation: what a reader of the stream finds, received and lost, is what was emitted.
//!
//! Each run is one session that is enabled before the first event and stopped after the last, so every attempt is its own.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use diagport_session::{
    EndReason, EventDefinition, EventPipe, ProcessDescription, ProviderConfig, SessionConfig, SessionEnd,
    SessionType, Sink, WaitFinished,
};
use support::judge::Judgement;
use support::peers::Peers;

use crate::life::filling;
use crate::plan::{FIXED_PAYLOAD_BYTES, Load};
use crate::random::Random;
use crate::stream::Stream;
use crate::watchdog::Watchdog;
use crate::world::{WORK, Work, lock};

const PROVIDER: &str = "Stress";
const EVENT_ID: u32 = 1;
const MOST_EVENTS: u64 = 400_000;
const MOST_THREADS: u64 = 10_000;
/// One judged run in so many is one of the most threads.
const CHURN_AMONG_JUDGED: u64 = 5;
const SAY_EVERY: u64 = 100;
const JUDGE: &str = "tracecheck";
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) runs: u64,
    /// How many of the runs TraceEvent reads as well.
    pub(crate) judged: u64,
    /// Light runs have budgets up to 1 MB and a tenth of the threads.
    pub(crate) load: Load,
}

/// What one run does.
#[derive(Debug)]
struct RunPlan {
    budget_bytes: u64,
    /// Threads at once.
    workers: u64,
    /// Threads in all.
    lives: u64,
    events_per_life: u64,
    payload_bytes: u64,
    reader: Pace,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Reads nothing before all is emitted.
    Late,
    /// Takes at most so many bytes each millisecond.
    Slow(usize),
    Full,
}

#[derive(Debug, Default)]
struct Row {
    runs: u64,
    emitted: u64,
    received: u64,
    lost: u64,
    lossy: u64,
    judged: u64,
}

/// Runs them all and prints a table.
///
/// # Errors
/// At the first run whose numbers differ, with its seed.
pub(crate) fn run(options: &Options, watchdog: &Watchdog) -> anyhow::Result<()> {
    let peers = if options.judged == 0 { None } else { Peers::or_skip("stress accounting", &[JUDGE]) };
    let mut seeds = Random::new(options.seed);
    let mut rows = BTreeMap::<String, Row>::new();
    let mut judged = 0;
    for run in 0..options.runs {
        // The first of a series is the seed itself, so that one run can be repeated.
        let seed = if run == 0 { options.seed } else { seeds.next() };
        let is_judged =
            peers.is_some() && run * options.judged / options.runs >= judged && judged < options.judged;
        let churn = is_judged && judged.is_multiple_of(CHURN_AMONG_JUDGED);
        let plan = RunPlan::draw(seed, churn, options.load);
        watchdog.watch(format!("accounting run {run}, seed {seed}, {plan:?}"));
        let row = rows.entry(plan.class()).or_default();
        let judge = peers.filter(|_| is_judged);
        row.check(&plan, judge).with_context(|| {
            format!(
                "run {run}: {plan:?}\nrepeat: cargo xtask stress --case accounting --runs 1 --seed {seed}"
            )
        })?;
        judged += u64::from(is_judged);
        if (run + 1).is_multiple_of(SAY_EVERY) {
            println!("accounting: {} runs, {judged} judged", run + 1);
        }
    }
    print(&rows);
    Ok(())
}

impl RunPlan {
    fn draw(seed: u64, churn: bool, load: Load) -> Self {
        let mut random = Random::new(seed);
        let (most_bytes, most_threads) = match load {
            Load::Full => (64 << 20, MOST_THREADS),
            Load::Light => (1 << 20, MOST_THREADS / 10),
        };
        let budget_bytes = random.magnitude(256 << 10, most_bytes);
        let is_churn = churn || random.one_in(4);
        let wanted_bytes = budget_bytes * random.between(1, 4);
        let workers = random.between(1, 8);
        let lives = match (churn, is_churn) {
            (true, _) => most_threads,
            (false, true) => random.magnitude(64, most_threads),
            (false, false) => workers,
        };
        // At least as many bytes in each event as it takes to fill the budget with the most events.
        let least_payload_bytes = wanted_bytes / MOST_EVENTS;
        let payload_bytes = random.magnitude(16, 4_096).max(least_payload_bytes);
        let events_per_life = (wanted_bytes / payload_bytes / lives).clamp(1, MOST_EVENTS);
        let reader = match random.below(4) {
            0 => Pace::Full,
            1 => Pace::Slow(usize::try_from(random.magnitude(4 << 10, 256 << 10)).unwrap_or(4 << 10)),
            _ => Pace::Late,
        };
        Self { budget_bytes, workers, lives, events_per_life, payload_bytes, reader }
    }

    fn class(&self) -> String {
        match self.lives {
            1 => "1 thread".to_owned(),
            2..=8 => "2-8 threads".to_owned(),
            9..1_000 => "churn below 1,000".to_owned(),
            MOST_THREADS => "churn of 10,000".to_owned(),
            _ => "churn 1,000-9,999".to_owned(),
        }
    }
}

impl Row {
    fn check(&mut self, plan: &RunPlan, judge: Option<&Peers>) -> anyhow::Result<()> {
        let Outcome { tried, end, bytes } = emit(plan)?;
        let stream = Stream::read(&bytes);
        let counted = end.statistics;
        let emitted: u64 = tried.values().sum();
        ensure!(end.reason == EndReason::Stopped, "{end:?}");
        ensure!(stream.is_complete, "the stream has no end");
        ensure!(stream.wrong.is_empty(), "{}", stream.wrong.join("\n"));
        let (received, lost) = (stream.received, stream.lost);
        ensure!(received + lost == emitted, "{received} received + {lost} lost, but {emitted} emitted");
        let by_server = (counted.emitted, counted.written, counted.dropped);
        ensure!(by_server == (emitted, received, lost), "the server's own count: {counted:?}, {lost} lost");
        let mut by_thread = stream.by_thread;
        // The thread of ProcessInfo loses nothing.
        by_thread.retain(|thread, count| *count > 0 || tried.contains_key(thread));
        // Threads that came while many ended ones were unread, and found no capacity, are lost together as thread 0 (SES-THREAD-4).
        let mut together = by_thread.remove(&0).unwrap_or(0);
        for (thread, tried) in &tried {
            let alone = by_thread.remove(thread).unwrap_or(0);
            ensure!(alone <= *tried, "thread {thread}: {alone} of {tried} events");
            let missing = tried - alone;
            ensure!(
                missing <= together,
                "thread {thread}: {alone} of {tried} events, {together} lost together"
            );
            together -= missing;
        }
        ensure!(
            together == 0 && by_thread.is_empty(),
            "{together} too many together, strangers: {by_thread:?}"
        );
        if let Some(peers) = judge {
            let folder = support::temp_folder()?;
            let file = folder.path().join("run.nettrace");
            std::fs::write(&file, &bytes)?;
            let judgement = Judgement::of(peers, JUDGE, &file, &[])?;
            ensure!(judgement.error().is_none(), "TraceEvent: {:?}", judgement.error());
            let theirs = (judgement.count_id(PROVIDER, EVENT_ID), judgement.lost());
            let ours = (received, i64::try_from(lost)?);
            ensure!(theirs == ours, "TraceEvent received and lost {theirs:?}, {ours:?} is right");
            self.judged += 1;
        }
        self.runs += 1;
        self.emitted += emitted;
        self.received += received;
        self.lost += lost;
        self.lossy += u64::from(lost > 0);
        Ok(())
    }
}

struct Outcome {
    /// Attempts by OS thread id.
    tried: HashMap<u64, u64>,
    end: SessionEnd,
    bytes: Vec<u8>,
}

fn emit(plan: &RunPlan) -> anyhow::Result<Outcome> {
    let pipe = EventPipe::new(ProcessDescription::of_this_process());
    let definition = EventDefinition::new(EVENT_ID, WORK);
    let event: Work = pipe.provider(PROVIDER).define(definition, ["index", "life", "bytes"])?;
    let session = pipe.create_session(SessionConfig {
        budget_bytes: plan.budget_bytes,
        stop_grace: FOR_EVER,
        ..SessionConfig::new(SessionType::FileStream, vec![ProviderConfig::everything(PROVIDER)])
    })?;
    let far = Arc::new(FarEnd::default());
    session.start(Box::new(PacedSink { far: Arc::clone(&far), pace: plan.reader }));
    let workers: Vec<_> = (0..plan.workers)
        .map(|worker| {
            let lives = (worker..plan.lives).step_by(usize::try_from(plan.workers).unwrap_or(1));
            let (event, count, payload) = (event.clone(), plan.events_per_life, plan.payload_bytes);
            thread::spawn(move || -> io::Result<Vec<(u64, u64)>> {
                lives.map(|life| spawn_life(event.clone(), life, count, payload)).collect()
            })
        })
        .collect();
    let mut tried = HashMap::new();
    for worker in workers {
        let lives = worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??;
        for (thread, attempts) in lives {
            *tried.entry(thread).or_default() += attempts;
        }
    }
    far.all_emitted.store(true, Ordering::Release);
    session.request_stop();
    let WaitFinished::Finished(end) = session.wait_finished(FOR_EVER) else { anyhow::bail!("no end") };
    let bytes = std::mem::take(&mut *lock(&far.bytes));
    Ok(Outcome { tried, end, bytes })
}

/// One thread from its first event to its end; its OS id and what it tried.
fn spawn_life(event: Work, life: u64, count: u64, payload_bytes: u64) -> io::Result<(u64, u64)> {
    let life = i64::try_from(life).unwrap_or(0);
    let size = usize::try_from(payload_bytes.saturating_sub(FIXED_PAYLOAD_BYTES)).unwrap_or(0);
    let thread = thread::Builder::new().spawn(move || {
        let mut bytes = vec![0; size];
        for index in 0..i64::try_from(count).unwrap_or(0) {
            bytes.fill(filling(index, life));
            let _ = event.write((index, life, &bytes));
        }
        u64::from(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())
    })?;
    let id = thread.join().map_err(|_| io::Error::other("a producer panicked"))?;
    Ok((id, count))
}

#[derive(Debug, Default)]
struct FarEnd {
    bytes: Mutex<Vec<u8>>,
    all_emitted: AtomicBool,
}

struct PacedSink {
    far: Arc<FarEnd>,
    pace: Pace,
}

impl Sink for PacedSink {
    fn write(&mut self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
        let all_emitted = self.far.all_emitted.load(Ordering::Acquire);
        let most = match self.pace {
            Pace::Full => usize::MAX,
            _ if all_emitted => usize::MAX,
            Pace::Late => 0,
            Pace::Slow(bytes_per_ms) => bytes_per_ms,
        };
        if most != usize::MAX {
            thread::sleep(wait.min(Duration::from_millis(1)));
        }
        let taken = bytes.len().min(most);
        lock(&self.far.bytes).extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn peer_closed(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) {}
}

fn print(rows: &BTreeMap<String, Row>) {
    println!(
        "{:<20} {:>6} {:>6} {:>12} {:>12} {:>12} {:>7}",
        "case", "runs", "lossy", "emitted", "received", "lost", "judged"
    );
    for (class, row) in rows {
        let Row { runs, emitted, received, lost, lossy, judged } = row;
        println!("{class:<20} {runs:>6} {lossy:>6} {emitted:>12} {received:>12} {lost:>12} {judged:>7}");
    }
    let runs: u64 = rows.values().map(|row| row.runs).sum();
    let judged: u64 = rows.values().map(|row| row.judged).sum();
    println!(
        "accounting: received + lost = emitted in all {runs} runs, by each capture id, by each thread and by the server's own count; by TraceEvent's EventsLost in {judged}"
    );
}

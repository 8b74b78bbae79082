//! Everything at once, and an oracle: threads that come and go, sessions of all kinds that start and end in every way, readers of every
//! kind, callbacks that emit, stop and panic, events defined late. What a reader of each stream finds must be what happened.
//!
//! `DIAGPORT_STRESS_SEEDS=FROM-TO` runs other seeds than the usual few.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and says what it found"
)]

mod support;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::time::Duration;
use std::{panic, thread};

use diagport_session::{
    BufferingMode, EnableCause, EndReason, EventContext, EventDefinition, EventFilter, EventLevel, EventPipe,
    FilterSense, ProviderConfig, Session, SessionConfig, SessionId, SessionType, StackWalk, WriteOutcome,
};
use support::*;

/// What one OS thread id has tried.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    attempts: u64,
    /// Of them those that a Block session may lose: too large, or on a drain thread.
    may_be_lost: u64,
}

struct Kind {
    event: Tick,
    provider: &'static str,
    id: u32,
    keywords: u64,
    level: EventLevel,
}

struct World {
    pipe: EventPipe,
    clock: Option<Arc<StepClock>>,
    kinds: RwLock<Vec<Arc<Kind>>>,
    /// By OS thread id. The lasting sessions see every attempt.
    tried: Mutex<BTreeMap<u64, Tried>>,
    /// Names the life of a thread: OS ids come back.
    next_life: AtomicI64,
    sessions_over: AtomicBool,
    over: AtomicBool,
    open_callbacks: Mutex<HashSet<SessionId>>,
    /// What else went wrong, on threads whose panics are contained.
    wrong: Mutex<Vec<String>>,
}

const PROVIDERS: [&str; 3] = ["Load", "Load-Two", "Load-Three"];
const LEVELS: [EventLevel; 4] =
    [EventLevel::LogAlways, EventLevel::Error, EventLevel::Informational, EventLevel::Verbose];

impl World {
    fn new(seed: u64) -> Arc<Self> {
        let clock = seed.is_multiple_of(2).then(|| Arc::new(StepClock::default()));
        let pipe = match &clock {
            Some(clock) => EventPipe::with_clock(description(), Arc::clone(clock) as _),
            None => EventPipe::new(description()),
        };
        let world = Arc::new(Self {
            pipe,
            clock,
            kinds: RwLock::default(),
            tried: Mutex::default(),
            next_life: AtomicI64::new(0),
            sessions_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
            open_callbacks: Mutex::default(),
            wrong: Mutex::default(),
        });
        (0..6).for_each(|id| world.define(&mut Random(seed * 31 + id + 1), id as u32));
        world
    }

    fn define(&self, random: &mut Random, id: u32) {
        let provider = PROVIDERS[random.below(3) as usize];
        let (keywords, level) = (random.below(8), LEVELS[random.below(4) as usize]);
        let definition = EventDefinition::new(id, "Tick").keywords(keywords).level(level);
        let event = self.pipe.provider(provider).define(definition, ["index", "life", "text"]).unwrap();
        self.kinds.write().unwrap().push(Arc::new(Kind { event, provider, id, keywords, level }));
    }

    fn kind(&self, random: &mut Random) -> Arc<Kind> {
        let kinds = self.kinds.read().unwrap();
        Arc::clone(&kinds[random.below(kinds.len() as u64) as usize])
    }

    fn blame(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// Writes `count` events as one life of the calling thread.
    fn write(&self, random: &mut Random, count: u64, parking: bool) {
        let life = self.next_life.fetch_add(1, Ordering::Relaxed);
        let mut tried = Tried::default();
        for index in 0..count {
            let kind = self.kind(random);
            let chars = match random.below(200) {
                0 => 32_758, // 65,535 bytes would need an odd size: 65,534 and 65,536 are the neighbours
                1 => 32_759,
                2..20 => random.below(5_000) as usize,
                _ => random.below(40) as usize,
            };
            let stack = [random.below(50), 2, 3];
            let some = random.below(4) == 0;
            let context = EventContext {
                activity_id: [if some { 9 } else { 0 }; 16],
                stack: &stack[..if some { 3 } else { 0 }],
                ..EventContext::default()
            };
            let outcome = kind.event.write_with(&context, (index as i64, life, &"x".repeat(chars)));
            tried.attempts += 1;
            tried.may_be_lost += u64::from(!parking || 18 + 2 * chars > 65_535);
            if outcome == WriteOutcome::Disabled {
                self.blame(format!("life {life} index {index}: a lasting session does not want it"));
            }
        }
        let mut all = self.tried.lock().unwrap();
        let of_thread = all.entry(thread_id() as u64).or_default();
        of_thread.attempts += tried.attempts;
        of_thread.may_be_lost += tried.may_be_lost;
    }

    /// The pipe's sums are true at every moment, and its attempts only grow.
    fn watch_sums(&self) {
        let mut emitted = 0;
        while !self.sessions_over.load(Ordering::Relaxed) {
            let sums = self.pipe.statistics();
            if sums.emitted < emitted || sums.emitted != sums.written + sums.dropped {
                self.blame(format!("{sums} after emitted={emitted}"));
            }
            emitted = sums.emitted;
            thread::yield_now();
        }
    }

    /// Registers callbacks that write, stop their session, panic; and check their own order.
    fn set_callbacks(self: &Arc<Self>, seed: u64) {
        for provider in PROVIDERS {
            let (world, random) = (Arc::downgrade(self), Mutex::new(Random(seed + 77)));
            let is_first = provider == PROVIDERS[0];
            self.pipe.provider(provider).on_enable_change(move |change| {
                let Some(world) = world.upgrade() else { return };
                let mut random = Random(random.lock().unwrap().below(u64::MAX) | 1);
                if is_first {
                    let mut open = world.open_callbacks.lock().unwrap();
                    let expected = match change.cause {
                        EnableCause::SessionStarted => open.insert(change.session_id),
                        EnableCause::SessionStopped => open.remove(&change.session_id),
                    };
                    if !expected {
                        world.blame(format!("{change:?} twice or before its start"));
                    }
                }
                if world.over.load(Ordering::Relaxed) {
                    // The lasting sessions end one after the other.
                    return;
                }
                world.write(&mut random, 20, true);
                if random.below(4) == 0
                    && let Some(session) = world.pipe.session(change.session_id)
                    && session.config().rundown_keyword != LASTING
                {
                    session.request_stop();
                }
                assert!(random.below(5) != 0, "a callback panics");
            });
        }
        let (world, random) = (Arc::downgrade(self), Mutex::new(Random(seed + 99)));
        self.pipe.on_rundown(move |writer| {
            let Some(world) = world.upgrade() else { return };
            let mut random = Random(random.lock().unwrap().below(u64::MAX) | 1);
            if writer.keyword() == LASTING {
                return;
            }
            let kind = world.kind(&mut random);
            for index in 0..50 {
                writer.write(&kind.event, (index, RUNDOWN_LIFE, "rundown"));
            }
            world.write(&mut random, 5, false);
            assert!(random.below(5) != 0, "a rundown hook panics");
        });
    }
}

/// A rundown keyword by which a lasting session is known.
const LASTING: u64 = 1 << 40;
const RUNDOWN_LIFE: i64 = -1;

fn lasting(world: &World, mode: BufferingMode, budget_bytes: u64) -> (Session, MemoryPeer) {
    let config = SessionConfig {
        rundown_keyword: LASTING,
        stack_walk: StackWalk::On,
        providers: vec![ProviderConfig::everything("*")],
        ..config(mode, budget_bytes)
    };
    let session = world.pipe.create_session(config).unwrap();
    session.enable();
    (session, MemoryPeer::reading())
}

/// Threads that come, write and go.
fn produce(world: &World, seed: u64, lives: u64) {
    let mut random = Random(seed);
    for _ in 0..lives {
        let (count, seed) = (random.below(60), random.below(u64::MAX) | 1);
        if random.below(3) == 0 {
            world.write(&mut Random(seed), count, true);
        } else {
            thread::scope(|scope| drop(scope.spawn(|| world.write(&mut Random(seed), count, true))));
        }
    }
}

fn random_config(random: &mut Random) -> SessionConfig {
    let mode = if random.below(2) == 0 { BufferingMode::Drop } else { BufferingMode::Block };
    let budget_bytes = [300, 2_000, 20_000, 200_000, 1 << 20][random.below(5) as usize];
    let mut providers = Vec::new();
    for provider in PROVIDERS.into_iter().chain(["*", "Nobody"]) {
        if random.below(2) == 0 {
            let filter = match random.below(4) {
                0 => EventFilter::new(FilterSense::Allow, vec![0, 2, 4, 6, 7]),
                1 => EventFilter::new(FilterSense::Deny, vec![1, 3, 7]),
                _ => EventFilter::ALL,
            };
            let level = LEVELS[random.below(4) as usize];
            providers
                .push(ProviderConfig { filter, ..ProviderConfig::new(provider, random.below(8), level) });
        }
    }
    if providers.is_empty() {
        providers.push(ProviderConfig::everything("*"));
    }
    SessionConfig {
        buffering_mode: mode,
        budget_bytes,
        rundown_keyword: if random.below(2) == 0 { 0xFF } else { 0 },
        stack_walk: if random.below(2) == 0 { StackWalk::On } else { StackWalk::Off },
        stall_limit: Some(Duration::from_millis(5 + random.below(50))),
        stop_grace: Duration::from_millis(5 + random.below(50)),
        ..SessionConfig::new(SessionType::IpcStream, providers)
    }
}

fn random_peer(random: &mut Random) -> Peer {
    match random.below(16) {
        0 => Peer::Stalls,
        1 => Peer::BreaksAfter(random.below(100_000) as usize),
        2 => Peer::Fails,
        3 => Peer::Panics,
        4 => Peer::Closed,
        5..8 => Peer::Crawls(100 + random.below(5_000) as usize),
        _ => Peer::Reads,
    }
}

/// Starts and ends sessions in every way, and judges each.
fn control(world: &Arc<World>, seed: u64, sessions: u64) -> [u64; 2] {
    let mut random = Random(seed);
    let (mut complete, mut cut) = (0, 0);
    for _ in 0..sessions {
        let config = random_config(&mut random);
        let session = match world.pipe.create_session(config.clone()) {
            Ok(session) => session,
            Err(error) => panic!("{error}"),
        };
        let (finished, told) = mpsc::channel();
        session.on_finished(Box::new(move |end| {
            finished.send(end).unwrap();
            panic!("an end callback panics");
        }));
        let peer = MemoryPeer::new(random_peer(&mut random), world.clock.as_ref());
        let pause = |random: &mut Random| {
            let (turns, emitted) = (random.below(300), random.below(400));
            for _ in 0..turns {
                if session.statistics().emitted >= emitted {
                    break;
                }
                thread::yield_now();
            }
        };
        if random.below(3) == 0 {
            session.enable();
            pause(&mut random);
        }
        let starts = random.below(10) != 0;
        thread::scope(|scope| {
            if random.below(8) == 0 {
                // A stop from elsewhere, at any moment.
                scope.spawn(|| session.request_stop());
            }
            if starts {
                session.start(peer.sink());
                pause(&mut random);
                if random.below(3) == 0 {
                    peer.set(random_peer(&mut random));
                    pause(&mut random);
                }
            }
            match random.below(6) {
                0 => session.abort("given up"),
                1 => {
                    session.request_stop();
                    session.abort("given up in its stop");
                }
                2 => {
                    scope.spawn(|| session.request_stop());
                    session.request_stop();
                }
                _ => session.request_stop(),
            }
        });
        let end = finish(&session);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), end, "seed {seed}");
        assert_eq!((session.waiting_count(), session.held_bytes(), session.lane_count()), (0, 0, 0));
        assert!(world.pipe.session(session.id()).is_none(), "the slot is free");
        let counted = end.statistics;
        assert_eq!(counted.emitted, counted.written + counted.dropped);
        let reading = read(&peer.bytes());
        let received = reading.producers().count() as u64;
        let what = format!("seed {seed}, {}, {end:?}, {config:?}", session.id());
        assert_eq!(received, counted.written, "{what}");
        match end.reason {
            EndReason::Stopped if !peer.bytes().is_empty() => {
                println!("{what}");
                account(&peer, &end);
                complete += 1;
            }
            _ => cut += 1,
        }
        judge_events(world, &config, &reading, &what);
    }
    [complete, cut]
}

/// Each event is one that the session wants, comes once, and in its thread's order.
fn judge_events(world: &World, config: &SessionConfig, reading: &Reading, what: &str) {
    let kinds = world.kinds.read().unwrap();
    let mut last_of_life = BTreeMap::new();
    for event in reading.producers() {
        let definition = &event.definition;
        let kind =
            kinds.iter().find(|kind| kind.provider == definition.provider && kind.id == definition.event_id);
        let kind = kind.unwrap_or_else(|| panic!("{what}: nobody defined {definition:?}"));
        // Several entries of one provider make the rules of merging; here each comes once, `*` never in full but alone.
        let wanted = config.providers.iter().any(|entry| {
            let is_star = entry.name == "*" && entry.keywords == u64::MAX;
            (is_star || entry.name == kind.provider)
                && (kind.keywords == 0 || kind.keywords & entry.keywords != 0)
                && (kind.level == EventLevel::LogAlways
                    || entry.level == EventLevel::LogAlways
                    || kind.level <= entry.level)
                && entry.filter.passes(kind.id)
        });
        assert!(wanted, "{what}: {definition:?}");
        let number = |at: usize| i64::from_le_bytes(event.payload[at..at + 8].try_into().unwrap());
        let (index, life) = (number(0), number(8));
        let before = last_of_life.insert(life, index);
        assert!(
            before.is_none_or(|before| before < index),
            "{what}: life {life}: {before:?} and then {index}"
        );
    }
}

/// A session that saw everything: received + lost is what was tried, thread by thread; and a Block session lost only what it may.
fn judge_lasting(world: &World, session: &Session, peer: &MemoryPeer, mode: BufferingMode) {
    session.request_stop();
    let end = finish(session);
    assert_eq!(end.reason, EndReason::Stopped);
    let reading = account(peer, &end);
    assert_eq!(reading.producers().count() as u64, end.statistics.written);
    judge_events(world, session.config(), &reading, "lasting");
    let mut seen = reading.lost_by_thread.clone();
    for event in reading.producers() {
        *seen.entry(event.thread_id).or_default() += 1;
    }
    let tried = world.tried.lock().unwrap();
    let attempts: BTreeMap<u64, u64> = tried
        .iter()
        .map(|(thread, tried)| (*thread, tried.attempts))
        .filter(|(_, tried)| *tried > 0)
        .collect();
    assert_eq!(seen, attempts, "{mode:?}: received + lost, by thread");
    assert_eq!(end.statistics.emitted, attempts.values().sum::<u64>());
    if mode == BufferingMode::Block {
        for (thread, lost) in &reading.lost_by_thread {
            let may = tried[thread].may_be_lost;
            assert!(*lost <= may, "{mode:?}: thread {thread} lost {lost}, of which {may} may be lost");
        }
    }
    println!("lasting {mode:?}: {} of {} lost", reading.lost, end.statistics.emitted);
}

fn stress(seed: u64) {
    println!("seed {seed}");
    let world = World::new(seed);
    world.set_callbacks(seed);
    let budgets = [(BufferingMode::Block, 200_000), (BufferingMode::Drop, 70_000)];
    let lasting = budgets.map(|(mode, budget)| (mode, lasting(&world, mode, budget)));
    // Both are enabled before anything can be written, also by a callback.
    lasting.iter().for_each(|(_, (session, peer))| session.start(peer.sink()));
    // Told of before the load, or the last callback below may be told of them first, and others may write after it.
    until("both are told of", || world.open_callbacks.lock().unwrap().len() == lasting.len());
    let ends = thread::scope(|scope| {
        for worker in 0..3 {
            let world = &world;
            scope.spawn(move || produce(world, seed * 1_000 + worker + 1, 60));
        }
        let world = &world;
        scope.spawn(move || {
            let mut random = Random(seed * 1_000 + 500);
            for id in 6..40 {
                world.define(&mut random, id);
                thread::yield_now();
                world.write(&mut random, 2, true);
            }
        });
        scope.spawn(move || world.watch_sums());
        let controls: Vec<_> = (0..3)
            .map(|control_of| scope.spawn(move || control(world, seed * 1_000 + 700 + control_of, 15)))
            .collect();
        let ends: Vec<_> = controls.into_iter().map(|control| control.join()).collect();
        world.sessions_over.store(true, Ordering::Relaxed);
        ends.into_iter().map(Result::unwrap).fold([0; 2], |a, b| [a[0] + b[0], a[1] + b[1]])
    });
    println!("{} streams complete, {} cut", ends[0], ends[1]);
    // Callbacks run in order: after this one, none is left that could write.
    let (sender, receiver) = mpsc::channel();
    world.pipe.provider(PROVIDERS[0]).on_enable_change(move |change| {
        // Later ones find nobody who listens.
        let _ = sender.send(change.cause);
    });
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(EnableCause::SessionStarted));
    world.over.store(true, Ordering::Relaxed);
    for (mode, (session, peer)) in &lasting {
        judge_lasting(&world, session, peer, *mode);
    }
    assert_eq!(world.wrong.lock().unwrap().as_slice(), [] as [String; 0]);
    let sums = world.pipe.statistics();
    assert_eq!((sums.live_sessions, sums.emitted), (0, sums.written + sums.dropped));
}

/// Panics of callbacks are many here, and all of them wanted.
fn quiet_expected_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if !text.ends_with(" panics") {
            usual(info);
        }
    }));
}

// spec-test: SES-LOSS-1, SES-LOSS-2, SES-BLOCK-1, SES-LIFE-6, SES-FAIL-3, SES-CALLBACK-2, SES-STREAM-2
#[test]
fn invariants_hold_while_everything_happens_at_once() {
    quiet_expected_panics();
    let seeds = std::env::var("DIAGPORT_STRESS_SEEDS").unwrap_or_else(|_| "1-6".to_owned());
    let (from, to) = seeds.split_once('-').unwrap_or((&seeds, &seeds));
    for seed in from.parse::<u64>().unwrap()..=to.parse().unwrap() {
        stress(seed);
    }
}

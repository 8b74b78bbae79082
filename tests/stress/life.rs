//! One thread's writing, with each attempt held against what is known of the sessions.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use diagport_session::{BufferingMode, EventContext, WriteOutcome};

use crate::plan::{FIXED_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES, ProducerPlan, Sizes};
use crate::random::Random;
use crate::reader_sink::PLANNED_PANIC;
use crate::world::{Kind, MAX_SESSIONS, Phase, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    MayWait,
    /// It frees capacity itself.
    Drains,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    certain: u64,
    uncertain: u64,
    may_be_lost: u64,
}

/// Numbers its attempts from 0. Hands its counts over when it is dropped.
pub(crate) struct Life {
    world: Arc<World>,
    thread: Thread,
    number: i64,
    index: i64,
    counts: [Counts; MAX_SESSIONS],
    bytes: Vec<u8>,
}

impl Life {
    pub(crate) fn new(world: &Arc<World>, thread: Thread) -> Self {
        Self {
            world: Arc::clone(world),
            thread,
            number: world.next_life(),
            index: 0,
            counts: [Counts::default(); MAX_SESSIONS],
            bytes: Vec::new(),
        }
    }

    /// Any kind, any size.
    pub(crate) fn write_any(&mut self, random: &mut Random, sizes: Sizes) {
        let kind = usize::try_from(random.below(self.world.plan.kinds.len() as u64)).unwrap_or(0);
        let stack = [random.below(50), 2, 3];
        let some = random.one_in(4);
        let context = EventContext {
            activity_id: [if some { 9 } else { 0 }; 16],
            stack: if some { &stack } else { &[] },
            ..EventContext::default()
        };
        let size = sizes.draw(random);
        self.write(kind, &context, size);
    }

    pub(crate) fn write(&mut self, kind: usize, context: &EventContext<'_>, size: u64) {
        let world = Arc::clone(&self.world);
        self.bytes.clear();
        self.bytes.resize(usize::try_from(size).unwrap_or(0), filling(self.index, self.number));
        let event = world.kind(kind);
        let mut before = [0; MAX_SESSIONS];
        for (phase, tally) in before.iter_mut().zip(&world.tallies) {
            *phase = tally.phase();
        }
        let (outcome, payload_bytes) = match &event {
            Kind::Work(event) => {
                let outcome = event.write_with(context, (self.index, self.number, &self.bytes));
                (outcome, FIXED_PAYLOAD_BYTES + size)
            }
            Kind::Nothing(event) => (event.write_with(context, ()), 0),
        };
        self.index += 1;
        if self.index % 16 == 0 {
            world.attempts.fetch_add(16, Ordering::Relaxed);
        }
        let mut seen = false;
        for (index, tally) in world.tallies.iter().enumerate() {
            if world.wants[index] >> kind & 1 == 0 {
                continue;
            }
            let counts = &mut self.counts[index];
            let enabled = Phase::Enabled as u8;
            match (before[index], tally.phase()) {
                (from, to) if (from, to) == (enabled, enabled) => {
                    counts.certain += 1;
                    seen = true;
                }
                (from, to) if from == to && from != Phase::Perhaps as u8 => continue,
                _ => counts.uncertain += 1,
            }
            let fits = payload_bytes <= MAX_PAYLOAD_BYTES.min(world.rooms[index]);
            counts.may_be_lost += u64::from(!fits || self.thread == Thread::Drains);
        }
        if seen && outcome == WriteOutcome::Disabled {
            world.blame(format!("life {} index {}: no session wants it", self.number, self.index - 1));
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.world.attempts.fetch_add(self.index.unsigned_abs() % 16, Ordering::Relaxed);
        for (counts, tally) in self.counts.iter().zip(&self.world.tallies) {
            tally.certain.fetch_add(counts.certain, Ordering::Relaxed);
            tally.uncertain.fetch_add(counts.uncertain, Ordering::Relaxed);
            tally.may_be_lost.fetch_add(counts.may_be_lost, Ordering::Relaxed);
        }
    }
}

/// The byte that fills an event.
pub(crate) fn filling(index: i64, life: i64) -> u8 {
    (index.wrapping_mul(31) ^ life.wrapping_mul(7)).to_le_bytes()[0]
}

/// Writes on when its thread is torn down.
struct Farewell {
    life: Life,
    random: Random,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        for _ in 0..3 {
            self.life.write_any(&mut self.random, Sizes::Small);
        }
    }
}

thread_local! {
    static FAREWELL: RefCell<Option<Farewell>> = const { RefCell::new(None) };
}

/// Threads that come, write and go, one after the other, each in one of several ways.
pub(crate) fn produce(world: &Arc<World>, plan: &ProducerPlan) {
    let mut random = Random::new(plan.seed);
    for _ in 0..plan.lives {
        let (world, mut random, sizes) = (Arc::clone(world), Random::new(random.next()), plan.sizes);
        let events = if random.one_in(4) { random.below(plan.events + 1) } else { plan.events };
        // Joined by its handle: a scope does not wait for thread-local destructors.
        let thread = thread::Builder::new().name("stress-producer".into()).spawn(move || {
            let mut life = Life::new(&world, Thread::MayWait);
            let way = random.below(6);
            if way == 0 {
                // Before the engine's own thread-local, so it is destroyed after it.
                FAREWELL
                    .set(Some(Farewell { life: Life::new(&world, Thread::MayWait), random: random.clone() }));
            }
            for _ in 0..events {
                life.write_any(&mut random, sizes);
            }
            match way {
                1 => FAREWELL.set(Some(Farewell { life, random })),
                2 => panic!("{PLANNED_PANIC}"),
                _ => {}
            }
        });
        match thread {
            Ok(thread) => drop(thread.join()),
            Err(error) => eprintln!("stress: no thread: {error}"),
        }
    }
}

/// What an enable callback writes that dumps the state of its provider: ten times a small Block budget.
pub(crate) fn dump_state(world: &Arc<World>, budget_bytes: u64, mode: BufferingMode) {
    if mode != BufferingMode::Block || budget_bytes > 256 << 10 {
        return;
    }
    let mut life = Life::new(world, Thread::MayWait);
    let size = 8 << 10;
    for _ in 0..10 * budget_bytes / size {
        life.write(0, &EventContext::default(), size);
    }
}

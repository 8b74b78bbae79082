//! The budget, the queue and the counts, driven by hand: one test thread plays all producers and the reader, so nothing waits.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use diagport_buffer::{
    BufferingMode, EventBuffer, Lane, LaneWrite, MAX_PAYLOAD_BYTES, Parking, ProducerThread, Record,
    WakeReader, WakeReason,
};

#[derive(Default)]
struct Bell {
    rings: Mutex<Vec<WakeReason>>,
    parked: AtomicUsize,
}

impl WakeReader for Bell {
    fn wake(&self, reason: WakeReason) {
        if reason == WakeReason::ProducerParked {
            self.parked.fetch_add(1, Ordering::Relaxed);
        }
        self.rings.lock().unwrap().push(reason);
    }
}

struct Play {
    buffer: Arc<EventBuffer>,
    bell: Arc<Bell>,
    ticks: u64,
}

struct Producer {
    side: RefCell<diagport_buffer::Producer>,
    thread: Arc<ProducerThread>,
    lane: Arc<Lane>,
}

type Pairs = Vec<(u64, u64)>;

/// Records of 100 bytes or so in a buffer of 4 KB: chunks of 256 bytes, two records each.
const PAYLOAD: [u8; 90] = [7; 90];
const BUDGET: usize = 4096;

impl Play {
    fn new(mode: BufferingMode, budget_bytes: usize) -> Self {
        let bell = Arc::new(Bell::default());
        Self { buffer: EventBuffer::new(mode, budget_bytes, Arc::clone(&bell) as _), bell, ticks: 0 }
    }

    fn producer(&self, id: u64, parking: Parking) -> Producer {
        let mut side = diagport_buffer::Producer::new(id, format!("t{id}"), parking);
        let lane = self.buffer.add_lane(side.enter().thread()).unwrap();
        Producer { thread: Arc::clone(side.thread()), side: RefCell::new(side), lane }
    }

    fn write_bytes(&mut self, producer: &Producer, payload: &[u8]) -> LaneWrite {
        self.ticks += 1;
        let mut side = producer.side.borrow_mut();
        producer.lane.write(&mut side.enter(), self.ticks, &Record::new(0, payload))
    }

    fn write(&mut self, producer: &Producer) -> LaneWrite {
        let outcome = self.write_bytes(producer, &PAYLOAD);
        assert!(self.buffer.held_bytes() <= self.buffer.budget_bytes(), "the budget holds");
        outcome
    }

    fn fill(&mut self, producer: &Producer) -> u64 {
        let mut written = 0;
        while self.write(producer) == LaneWrite::Written {
            written += 1;
        }
        written
    }

    /// Everything there is: (thread, attempt) of each record in lane order, and attempts of each lane.
    fn read(&mut self) -> (Pairs, Pairs) {
        let (mut records, mut attempts) = (Vec::new(), Vec::new());
        self.buffer.collect(|take| {
            let thread = take.lane.thread().os_thread_id();
            attempts.push((thread, take.attempts));
            for mut chunk in take.chunks.drain(..) {
                while let Some(record) = chunk.front() {
                    records.push((thread, record.attempt));
                    chunk.pop_front();
                }
                self.buffer.release(chunk);
            }
        });
        self.buffer.end_round();
        (records, attempts)
    }
}

fn totals(play: &Play) -> (u64, u64) {
    let totals = play.buffer.totals();
    (totals.attempts, totals.drops)
}

/// Invariants 1 and 2: Drop mode never waits and counts each attempt.
#[test]
fn invariant_2_drop_mode_drops_and_counts() {
    let mut play = Play::new(BufferingMode::Drop, BUDGET);
    let a = play.producer(1, Parking::Allowed);
    let written = play.fill(&a);
    assert_eq!(written, 32, "sixteen chunks of two records");
    assert_eq!(play.write(&a), LaneWrite::Dropped);
    let (records, attempts) = play.read();
    assert_eq!(records.len() as u64, written);
    assert_eq!(attempts, [(1, written + 2)]);
    assert_eq!(play.write(&a), LaneWrite::Written, "what was read is free again");
    let (records, attempts) = play.read();
    assert_eq!((records, attempts), (vec![(1, written + 3)], vec![(1, written + 3)]));
    assert_eq!(totals(&play), (written + 3, 2));
}

/// Invariant 3: a thread that waits whenever it is read gets larger chunks all the same; otherwise it would stay behind threads that got theirs in better
/// times. So does one whose records fill no chunk to the brim.
#[test]
fn invariant_3_a_chunk_that_did_not_last_is_followed_by_a_larger_one() {
    for payload_bytes in [90, 2_500] {
        let mut play = Play::new(BufferingMode::Block, 1 << 20);
        let [a, hog] = [1, 2].map(|id| play.producer(id, Parking::Allowed));
        let payload = vec![7; payload_bytes];
        // Each round a writes into its one chunk, whatever it got, until it waits behind the hog, and then in its turn.
        let mut of_rounds = Vec::new();
        for _ in 0..8 {
            let mut written = u64::from(play.write_bytes(&a, &payload) == LaneWrite::Written);
            play.fill(&hog);
            while play.write_bytes(&a, &payload) == LaneWrite::Written {
                written += 1;
            }
            of_rounds.push(written);
            play.read();
            assert_eq!(play.write(&hog), LaneWrite::Written, "it waited first");
        }
        let per_chunk = |chunk_bytes: usize| (chunk_bytes / (24 + payload_bytes)) as u64;
        assert_eq!((of_rounds[0], of_rounds[7]), (per_chunk(4 << 10), per_chunk(64 << 10)), "{of_rounds:?}");
    }
}

/// Invariant 2: too large is a drop in both modes, and never waits.
#[test]
fn invariant_2_oversize_is_a_counted_drop_in_both_modes() {
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        let mut play = Play::new(mode, 1 << 20);
        let a = play.producer(1, Parking::Allowed);
        assert_eq!(play.write_bytes(&a, &vec![0; MAX_PAYLOAD_BYTES + 1]), LaneWrite::Dropped);
        assert_eq!(play.write_bytes(&a, &vec![0; MAX_PAYLOAD_BYTES]), LaneWrite::Written);
        assert_eq!(a.lane.discard(&mut a.side.borrow_mut().enter()), LaneWrite::Dropped);
        assert_eq!(play.read(), (vec![(1, 2)], vec![(1, 3)]));
        let mut small = Play::new(mode, 1000);
        let a = small.producer(1, Parking::Allowed);
        assert_eq!(small.write_bytes(&a, &[0; 1000]), LaneWrite::Dropped, "more than the whole budget");
    }
}

/// Invariant 3: strict order, nobody overtakes, freed capacity wakes the front and the chain goes on.
#[test]
fn invariant_3_the_queue_is_strict() {
    let mut play = Play::new(BufferingMode::Block, BUDGET);
    let [a, b, c, d] = [1, 2, 3, 4].map(|id| play.producer(id, Parking::Allowed));
    let written = play.fill(&a);
    assert_eq!(play.write(&b), LaneWrite::Blocked);
    assert_eq!(play.write(&c), LaneWrite::Blocked);
    assert_eq!(play.write(&c), LaneWrite::Blocked, "trying again keeps the place");
    assert_eq!(play.buffer.waiting_count(), 3);
    assert_eq!(totals(&play), (written, 0), "a blocked write is not counted yet");
    let (records, _) = play.read();
    assert_eq!(records.len() as u64, written);
    // Everything is free, but a is the front.
    assert_eq!(play.write(&d), LaneWrite::Blocked, "a newcomer does not overtake");
    assert_eq!(play.write(&c), LaneWrite::Blocked, "nor does the third");
    a.thread.park(); // returns: it was woken
    assert_eq!(play.write(&a), LaneWrite::Written);
    b.thread.park();
    assert_eq!(play.write(&b), LaneWrite::Written);
    c.thread.park();
    assert_eq!(play.write(&c), LaneWrite::Written);
    d.thread.park();
    assert_eq!(play.write(&d), LaneWrite::Written);
    assert_eq!(play.buffer.waiting_count(), 0);
    let (records, _) = play.read();
    assert_eq!(records, [(1, written + 1), (2, 1), (3, 1), (4, 1)], "nothing was lost");
    assert_eq!(totals(&play), (written + 4, 0));
    assert!(play.bell.parked.load(Ordering::Relaxed) >= 4, "the reader hears of each");
}

/// Invariant 3: one large chunk that is freed lets as many small waiters go as it holds, each woken by the one before it.
#[test]
fn invariant_3_one_freed_chunk_lets_many_go() {
    let mut play = Play::new(BufferingMode::Block, 1 << 20);
    let hog = play.producer(0, Parking::Allowed);
    let mut large = 0;
    while play.write_bytes(&hog, &[0; 60_000]) == LaneWrite::Written {
        large += 1;
    }
    let small: Vec<_> = (1..=8).map(|id| play.producer(id, Parking::Allowed)).collect();
    let waiting: Vec<_> = small
        .iter()
        .filter(|producer| play.write_bytes(producer, &[0; 3_000]) == LaneWrite::Blocked)
        .collect();
    assert_eq!(waiting.len(), 8, "nobody overtakes the hog, though there is room for small ones");
    let mut taken = Vec::new();
    play.buffer.collect(|take| taken.append(take.chunks));
    assert_eq!(taken.len(), large);
    // Two chunks: the front needs one, the eight others share the second.
    play.buffer.release(taken.pop().unwrap());
    hog.thread.park();
    assert_eq!(play.write_bytes(&hog, &[0; 60_000]), LaneWrite::Written);
    play.buffer.release(taken.pop().unwrap());
    for producer in &waiting {
        producer.thread.park(); // woken by the release, then each by the one before
        assert_eq!(play.write_bytes(producer, &[0; 3_000]), LaneWrite::Written);
    }
    assert_eq!(play.buffer.waiting_count(), 0);
    taken.into_iter().for_each(|chunk| play.buffer.release(chunk));
    assert_eq!(totals(&play).1, 0);
}

/// Invariant 3: a thread whose turn has come waits for a chunk of its own size, whichever is freed first; but no longer than to the end of the round.
#[test]
fn invariant_3_the_front_waits_for_a_chunk_of_its_own_size() {
    for round_ends in [false, true] {
        let mut play = Play::new(BufferingMode::Block, 1 << 20);
        let a = play.producer(1, Parking::Allowed);
        play.fill(&a);
        let mut taken = Vec::new();
        play.buffer.collect(|take| taken.append(take.chunks));
        // They have grown from 4 KB to 64 KB.
        let mut taken = taken.into_iter();
        play.buffer.release(taken.next().unwrap());
        assert_eq!(play.write(&a), LaneWrite::Blocked, "4 KB are free");
        if round_ends {
            play.buffer.end_round();
        } else {
            taken.by_ref().take(4).for_each(|chunk| play.buffer.release(chunk));
        }
        a.thread.park(); // returns: it was woken
        assert_eq!(play.write(&a), LaneWrite::Written);
        let record_bytes = 24 + PAYLOAD.len();
        let mut written = 1;
        // The queue is empty, so that it also takes what else is left.
        while play.write(&a) == LaneWrite::Written {
            written += 1;
        }
        let (least, most) = if round_ends { (1 << 10, 4 << 10) } else { (60 << 10, 128 << 10) };
        assert!((least..=most).contains(&(written * record_bytes)), "{written} records");
        taken.for_each(|chunk| play.buffer.release(chunk));
    }
}

/// Invariant 3: a wake-up that comes before its thread has parked is kept.
#[test]
fn invariant_3_a_wake_up_between_the_write_and_the_park_is_kept() {
    let mut play = Play::new(BufferingMode::Block, BUDGET);
    let a = play.producer(1, Parking::Allowed);
    play.fill(&a);
    play.read(); // frees capacity before the thread has parked
    a.thread.park();
    assert_eq!(play.write(&a), LaneWrite::Written);
    a.thread.unpark(); // one more than is needed
    a.thread.park();
    play.fill(&a);
    assert_eq!(play.write(&a), LaneWrite::Blocked, "a stray wake-up leaves the place in the queue");
    assert_eq!(play.buffer.waiting_count(), 1);
}

/// Invariant 4: the buffer of a parked producer can be read, and its lane stays.
#[test]
fn invariant_4_a_parked_producers_buffer_is_readable() {
    let mut play = Play::new(BufferingMode::Block, BUDGET);
    let a = play.producer(1, Parking::Allowed);
    let written = play.fill(&a);
    let (records, _) = play.read();
    assert_eq!(records.len() as u64, written);
    assert_eq!((play.buffer.waiting_count(), play.buffer.lane_count()), (1, 1));
}

/// Invariant 5: an abort lets everybody go, each event is counted once, whoever notices first.
#[test]
fn invariant_5_abort_counts_each_waiting_event_once() {
    let mut play = Play::new(BufferingMode::Block, BUDGET);
    let [a, b] = [1, 2].map(|id| play.producer(id, Parking::Allowed));
    let written = play.fill(&a);
    assert_eq!(play.write(&b), LaneWrite::Blocked);
    play.buffer.abort();
    assert_eq!(totals(&play), (written + 2, 2), "exact before the threads have run");
    play.buffer.close();
    a.thread.park();
    assert!(!a.lane.is_closed(), "its thread has something to learn yet");
    assert_eq!(play.write(&a), LaneWrite::Dropped);
    assert_eq!(play.write(&a), LaneWrite::Disabled);
    b.thread.park();
    assert_eq!(play.write(&b), LaneWrite::Dropped);
    assert!(b.lane.is_closed());
    assert_eq!(totals(&play), (written + 2, 2));
    let (records, attempts) = play.read();
    assert_eq!((records.len() as u64, attempts), (written, vec![(1, written + 1), (2, 1)]));
    assert_eq!(play.buffer.lane_count(), 0, "closed and read");
    assert_eq!(totals(&play), (written + 2, 2));
}

#[test]
fn after_an_abort_a_full_buffer_drops() {
    let mut play = Play::new(BufferingMode::Block, BUDGET);
    let a = play.producer(1, Parking::Allowed);
    play.buffer.abort();
    let written = play.fill(&a);
    assert_eq!(totals(&play), (written + 1, 1));
}

/// Invariant 6: a thread that frees capacity never waits for it, and does not overtake either.
#[test]
fn invariant_6_a_thread_that_never_parks_drops() {
    let mut play = Play::new(BufferingMode::Block, BUDGET);
    let a = play.producer(1, Parking::Allowed);
    let drain = play.producer(2, Parking::Never);
    play.fill(&a);
    assert_eq!(play.write(&drain), LaneWrite::Dropped);
    play.read();
    assert_eq!(play.write(&drain), LaneWrite::Dropped, "a is first");
    assert_eq!(play.write(&a), LaneWrite::Written);
    assert_eq!(play.write(&drain), LaneWrite::Written);
}

/// Invariant 9: the lane of an ended thread goes once it is read.
#[test]
fn invariant_9_ended_threads_are_forgotten() {
    let mut play = Play::new(BufferingMode::Drop, BUDGET);
    for id in 0..1000 {
        let producer = play.producer(id, Parking::Allowed);
        assert_eq!(play.write(&producer), LaneWrite::Written);
        producer.thread.mark_dead();
        assert_eq!(play.read(), (vec![(id, 1)], vec![(id, 1)]));
        assert_eq!(play.buffer.lane_count(), 0);
    }
    assert_eq!(totals(&play), (1000, 0));
}

/// Invariant 10: many threads share a small budget, because an idle lane holds none of it.
#[test]
fn invariant_10_many_threads_share_a_small_budget() {
    let mut play = Play::new(BufferingMode::Drop, 64 << 10);
    let producers: Vec<_> = (0..500).map(|id| play.producer(id, Parking::Allowed)).collect();
    for round in 1..=3 {
        for some in producers.chunks(10) {
            for producer in some {
                assert_eq!(play.write(producer), LaneWrite::Written);
            }
            let (records, _) = play.read();
            assert_eq!(records.len(), 10);
        }
        assert_eq!(totals(&play), (500 * round, 0));
    }
}

#[test]
fn a_reader_is_rung_for_the_first_record_and_the_fill_level() {
    let mut play = Play::new(BufferingMode::Drop, BUDGET);
    let a = play.producer(1, Parking::Allowed);
    assert_eq!(play.write(&a), LaneWrite::Written);
    assert_eq!(play.write(&a), LaneWrite::Written);
    assert_eq!(*play.bell.rings.lock().unwrap(), [WakeReason::FirstRecord]);
    play.fill(&a);
    let rings = play.bell.rings.lock().unwrap();
    assert!(rings[1..].iter().all(|reason| *reason == WakeReason::FillLevel) && rings.len() > 2, "{rings:?}");
}

#[test]
fn nothing_joins_a_closed_buffer() {
    let play = Play::new(BufferingMode::Block, BUDGET);
    play.buffer.close();
    let producer = diagport_buffer::Producer::new(1, String::new(), Parking::Allowed);
    assert!(play.buffer.add_lane(producer.thread()).is_none());
    assert_eq!(play.buffer.held_bytes(), 0);
}

/// A debugger stops a thread in the middle of an event, or its page does not come: the reader serves the others, and what that thread has comes later.
#[test]
fn invariant_12_a_thread_that_stays_in_its_gate_holds_up_nobody() {
    let mut play = Play::new(BufferingMode::Drop, BUDGET);
    let (stuck, other) = (play.producer(1, Parking::Allowed), play.producer(2, Parking::Allowed));
    assert_eq!(play.write(&stuck), LaneWrite::Written);
    assert_eq!(play.write(&other), LaneWrite::Written);
    let mut side = stuck.side.borrow_mut();
    let guard = side.enter();
    assert_eq!(play.read(), (vec![(2, 1)], vec![(2, 1)]));
    drop(guard);
    drop(side);
    assert_eq!(play.write(&stuck), LaneWrite::Written);
    assert_eq!(play.read(), (vec![(1, 1), (1, 2)], vec![(1, 2), (2, 1)]));
}

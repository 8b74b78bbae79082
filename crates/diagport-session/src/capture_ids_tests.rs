//! Drives the numbering by hand and reads it back by the format alone.

use std::collections::{BTreeMap, BTreeSet};

use diagport_nettrace::LossCounter;

use super::*;

/// What a reader makes of it, and what the writer was told.
#[derive(Default)]
struct Stream {
    reader: LossCounter,
    seen: Vec<Seen>,
    last_number: BTreeMap<u64, u32>,
    lost: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Event { id: u64, number: u32, thread: u64 },
    Info { id: u64, number: u32, thread: u64 },
    Point(Vec<(u64, u32)>),
}

impl Stream {
    fn step(&mut self, id: u64, number: u32) {
        let last = self.last_number.insert(id, number).unwrap_or(0);
        let step = number.wrapping_sub(last);
        assert!(step < 1 << 31, "id {id} goes from {last} to {number}");
        assert!(number >= last, "id {id} falls from {last} to {number}");
    }

    fn event(&mut self, number: CaptureNumber, thread: u64) {
        self.step(number.id, number.number);
        self.reader.event_number(number.id, thread, number.number);
        self.seen.push(Seen::Event { id: number.id, number: number.number, thread });
    }

    /// Every reader is exact only if each loss is booked on its own thread and none on nobody.
    fn check(&self) {
        let by_format: BTreeMap<_, _> =
            self.reader.lost_by_thread().map(|(thread, lost)| (thread.unwrap_or(0), lost)).collect();
        let wrong: Vec<_> = self
            .lost
            .keys()
            .chain(by_format.keys())
            .filter(|thread| by_format.get(thread) != self.lost.get(thread))
            .map(|thread| (thread, by_format.get(thread), self.lost.get(thread)))
            .collect();
        assert!(wrong.is_empty(), "thread, lost as read, truly lost: {wrong:?}");
    }

    fn infos(&self) -> usize {
        self.seen.iter().filter(|seen| matches!(seen, Seen::Info { .. })).count()
    }

    fn points(&self) -> Vec<&Vec<(u64, u32)>> {
        let mut points = Vec::new();
        for seen in &self.seen {
            if let Seen::Point(listed) = seen {
                points.push(listed);
            }
        }
        points
    }
}

impl CaptureOutput for Stream {
    fn info_event(&mut self, number: CaptureNumber, thread: CaptureThread<'_>) {
        self.step(number.id, number.number);
        self.reader.event_number(number.id, thread.os_thread_id, number.number);
        self.seen.push(Seen::Info { id: number.id, number: number.number, thread: thread.os_thread_id });
    }

    fn sequence_point(&mut self, listed: Vec<(u64, u32)>) {
        for (id, number) in &listed {
            assert!(self.last_number.contains_key(id), "id {id} is listed and has no event");
            self.step(*id, *number);
        }
        self.reader.sequence_point(&listed);
        self.seen.push(Seen::Point(listed));
    }
}

/// Threads by number, each with its hold of an id.
#[derive(Default)]
struct Play {
    ids: Option<CaptureIds>,
    stream: Stream,
    holdings: BTreeMap<u64, Holding>,
}

impl Play {
    fn limited(max_ids: usize) -> Self {
        let ids = CaptureIds { max_ids, ..CaptureIds::new() };
        Self { ids: Some(ids), ..Self::default() }
    }

    fn new() -> Self {
        Self::limited(MAX_CAPTURE_IDS)
    }

    fn ids(&mut self) -> (&mut CaptureIds, &mut Stream, &mut BTreeMap<u64, Holding>) {
        (self.ids.as_mut().unwrap(), &mut self.stream, &mut self.holdings)
    }

    fn event(&mut self, thread: u64) -> CaptureNumber {
        let (ids, stream, holdings) = self.ids();
        let number = ids.event(holdings.entry(thread).or_default(), thread, stream);
        stream.event(number, thread);
        number
    }

    fn lose(&mut self, thread: u64, lost: u64) {
        let (ids, stream, holdings) = self.ids();
        let who = CaptureThread { os_thread_id: thread, name: "t" };
        ids.lose(holdings.entry(thread).or_default(), who, lost, stream);
        if lost > 0 {
            *stream.lost.entry(thread).or_default() += lost;
        }
    }

    fn end(&mut self, thread: u64) {
        let (ids, _, holdings) = self.ids();
        ids.release(&mut holdings.remove(&thread).unwrap());
    }

    fn point(&mut self) -> Vec<(u64, u32)> {
        let (ids, stream, _) = self.ids();
        let listed = ids.point();
        stream.sequence_point(listed.clone());
        listed
    }
}

fn id_of(play: &mut Play, thread: u64) -> u64 {
    play.event(thread).id
}

// spec-test: SES-NUM-1
#[test]
fn an_id_is_a_slot_and_its_numbers_go_on() {
    let mut play = Play::new();
    assert_eq!((id_of(&mut play, 11), id_of(&mut play, 12), id_of(&mut play, 13)), (1, 2, 3));
    play.end(12);
    play.end(11);
    assert_eq!(play.event(14), CaptureNumber { id: 1, number: 2 });
    assert_eq!(play.event(15), CaptureNumber { id: 2, number: 2 });
    assert_eq!(play.event(16), CaptureNumber { id: 4, number: 1 });
    play.point();
    play.stream.check();
    assert_eq!(play.stream.infos(), 0, "a lossless stream holds no info event");
}

// spec-test: SES-NUM-2
#[test]
fn a_hole_follows_an_event_of_the_thread_that_lost() {
    let mut play = Play::new();
    play.event(11);
    play.lose(11, 5); // its own event is the last one on the id
    play.end(11);
    play.lose(12, 3); // takes over the id, and starts with a loss
    play.event(12);
    play.lose(13, 7); // a new id, silent for ever
    play.end(13);
    play.event(14);
    play.point();
    play.stream.check();
    let info = |id, number, thread| Seen::Info { id, number, thread };
    let event = |id, number, thread| Seen::Event { id, number, thread };
    let wanted = vec![
        event(1, 1, 11),
        info(1, 7, 12),
        event(1, 11, 12),
        info(2, 1, 13),
        event(2, 9, 14),
        Seen::Point(vec![(1, 11), (2, 9)]),
    ];
    assert_eq!(play.stream.seen, wanted);
}

// spec-test: SES-NUM-3
#[test]
fn a_point_lists_a_freed_id_once_more() {
    let mut play = Play::new();
    play.event(11);
    play.event(12);
    assert_eq!(play.point(), [(1, 1), (2, 1)]);
    play.end(12);
    assert_eq!(play.point(), [(1, 1), (2, 1)]);
    assert_eq!(play.point(), [(1, 1)]);
    play.lose(11, 4);
    play.end(11);
    assert_eq!(play.point(), [(1, 5)]);
    assert_eq!(play.point(), []);
    play.stream.check();
}

// spec-test: SES-NUM-3
#[test]
fn a_thread_that_shows_nothing_is_in_no_point() {
    let mut play = Play::new();
    play.lose(11, 0);
    assert_eq!(play.point(), []);
    play.event(12);
    assert_eq!(play.point(), [(1, 1)]);
}

// spec-test: SES-NUM-4
#[test]
fn live_threads_beyond_the_limit_share_ids() {
    let mut play = Play::new();
    let mut random = Random(5);
    for round in 0..3 {
        for thread in 1..=6_000 {
            if random.below(2) == 0 {
                play.lose(thread, random.below(3));
            }
            play.event(thread);
        }
        for thread in (1..=6_000).skip(round).step_by(7) {
            play.end(thread);
        }
        play.point();
    }
    play.stream.check();
    assert_eq!(*play.stream.last_number.keys().max().unwrap(), MAX_CAPTURE_IDS as u64);
}

// spec-test: SES-NUM-5
#[test]
fn an_id_is_given_up_before_its_number_ends() {
    let mut play = Play::new();
    play.event(11);
    play.event(12);
    play.lose(11, (1 << 32) + 5);
    assert_eq!(play.event(11).id, 3);
    assert_eq!(play.event(12).id, 2);
    play.point();
    play.end(11);
    play.end(12);
    assert_eq!(play.event(13).id, 2);
    assert_eq!(play.event(14).id, 3);
    assert_eq!(play.event(15).id, 4, "the old id is never taken again");
    play.point();
    play.stream.check();
    assert_eq!(play.stream.last_number[&1], RETIRE_AT);
    let mut listing_1 = play.stream.points().into_iter().filter(|point| point.iter().any(|(id, _)| *id == 1));
    assert!(listing_1.next_back().unwrap().contains(&(1, RETIRE_AT)), "it is listed with its last number");
}

// spec-test: SES-NUM-5
#[test]
fn events_alone_also_use_an_id_up() {
    let mut play = Play::limited(3);
    for thread in 11..=16 {
        play.event(thread);
    }
    let first = CaptureNumber { id: 1, number: 2 };
    assert_eq!(play.stream.seen[3], Seen::Event { id: first.id + 1, number: 2, thread: 14 });
    // As if that many events had been written on id 2.
    for number in [1 << 30, 2 << 30, 3 << 30, RETIRE_AT - 2] {
        let (ids, stream, _) = play.ids();
        (ids.slots[1].number, ids.slots[1].shown) = (number, number);
        stream.reader = LossCounter::new();
        stream.last_number.insert(2, number);
    }
    let thread = *play.holdings.iter().find(|(_, holding)| holding.index == Some(1)).unwrap().0;
    let numbers: Vec<_> = (0..4).map(|_| play.event(thread)).collect();
    assert_eq!(numbers[0], CaptureNumber { id: 2, number: RETIRE_AT - 1 });
    assert_eq!(numbers[1], CaptureNumber { id: 2, number: RETIRE_AT });
    assert_ne!(numbers[2].id, 2);
    assert_eq!(numbers[3].id, numbers[2].id);
    assert!(play.stream.points()[0].contains(&(2, RETIRE_AT)));
}

// spec-test: SES-NUM-5
#[test]
fn with_every_id_used_up_the_last_one_goes_on() {
    let mut play = Play::limited(2);
    for thread in [11, 12] {
        play.event(thread);
        play.lose(thread, u64::from(RETIRE_AT));
    }
    let before = play.event(12).number;
    assert_eq!(play.event(12).number, before + 1);
}

// spec-test: SES-NUM-6
#[test]
fn no_step_is_two_billion() {
    let mut play = Play::new();
    play.event(11);
    play.event(12);
    play.lose(11, (1 << 31) + 5);
    play.event(11);
    play.lose(12, (1 << 31) - 1);
    play.point();
    // `Stream::step` has checked each step.
    play.stream.check();
    assert_eq!(play.stream.infos(), 0);
}

/// xorshift: the same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

// spec-test: SES-NUM-1, SES-NUM-2, SES-NUM-3
#[test]
fn random_threads_on_few_ids_are_counted_each_on_its_own() {
    for seed in 1..=300 {
        let mut random = Random(seed);
        let mut play = Play::limited([1, 2, 3, 16, 5_000][random.below(5) as usize]);
        let (mut live, mut next) = (BTreeSet::new(), 100);
        for _ in 0..400 {
            match random.below(10) {
                0 => {
                    next += 1;
                    live.insert(next);
                }
                1 => drop(play.point()),
                2 if !live.is_empty() => {
                    let thread = *live.iter().nth(random.below(live.len() as u64) as usize).unwrap();
                    live.remove(&thread);
                    if play.holdings.contains_key(&thread) {
                        play.end(thread);
                    }
                }
                kind if !live.is_empty() => {
                    let thread = *live.iter().nth(random.below(live.len() as u64) as usize).unwrap();
                    if kind < 6 {
                        play.lose(thread, 1 + random.below(4));
                    } else {
                        play.event(thread);
                    }
                }
                _ => {}
            }
        }
        play.point();
        println!("seed {seed}");
        play.stream.check();
    }
}

//! How much a stream proves to be lost, by its numbers alone.

use std::collections::HashMap;

use crate::{Event, Record};

/// A step forward of this much or more is not loss but an unknown start or a step back.
// spec: LOSS-STEP-1
const HALF: u32 = 1 << 31;

/// Capture thread ids that are looked for first; streams switch between few at a time.
const RECENT: usize = 4;

/// Counts lost events from sequence numbers and sequence points.
///
/// Feed it every record in stream order. The numbers of a capture thread start at 1, whether or not it was seen before, and go
/// on modulo 2^32. Memory is one entry for each capture thread id and each thread id.
///
/// ```
/// let mut loss = diagport_nettrace::LossCounter::new();
/// loss.event_number(7, 7, 1);
/// loss.event_number(7, 7, 4); // 2 and 3 are missing
/// loss.sequence_point(&[(7, 5)]); // 5 was tried after 4
/// assert_eq!(loss.lost(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LossCounter {
    captures: Vec<(u64, Capture)>,
    index: HashMap<u64, usize>,
    /// Where the ids seen last are, so that most events need no look-up.
    recent: [usize; RECENT],
    by_thread: HashMap<Option<u64>, u64>,
    lost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Capture {
    last_number: u32,
    lost: u64,
    /// Thread of the last event written on this id.
    owner: Option<u64>,
}

impl LossCounter {
    /// Nothing seen, nothing lost.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next record of a stream; only events and sequence points matter.
    pub fn record(&mut self, record: &Record) {
        match record {
            Record::Event(event) => self.event(event),
            Record::SequencePoint { threads, .. } => self.sequence_point(threads),
            _ => {}
        }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        self.event_number(event.capture_thread, event.thread_id, event.sequence);
    }

    /// Takes the next event as its three numbers.
    // spec: LOSS-EVENT-1
    pub fn event_number(&mut self, capture_thread: u64, thread_id: u64, sequence: u32) {
        let place = self.place(capture_thread);
        let capture = &mut self.captures[place].1;
        let gap = sequence.wrapping_sub(1).wrapping_sub(capture.last_number);
        let owner = capture.owner;
        capture.last_number = sequence;
        capture.owner = Some(thread_id);
        self.book(place, owner, gap);
    }

    /// Where the numbers of a capture thread id are kept.
    fn place(&mut self, capture_thread: u64) -> usize {
        let is_it = |place: &usize| self.captures.get(*place).is_some_and(|(id, _)| *id == capture_thread);
        if let Some(&place) = self.recent.iter().find(|place| is_it(place)) {
            return place;
        }
        let place = *self.index.entry(capture_thread).or_insert_with(|| {
            self.captures.push((capture_thread, Capture::default()));
            self.captures.len() - 1
        });
        self.recent.rotate_right(1);
        self.recent[0] = place;
        place
    }

    /// Takes a sequence point: pairs of capture thread id and the last number it tried.
    // spec: LOSS-POINT-1
    pub fn sequence_point(&mut self, threads: &[(u64, u32)]) {
        for &(capture_thread, number) in threads {
            let place = self.place(capture_thread);
            let capture = &mut self.captures[place].1;
            let gap = number.wrapping_sub(capture.last_number);
            let owner = capture.owner;
            capture.last_number = number;
            self.book(place, owner, gap);
        }
    }

    /// A hole belongs to the thread of the event before it, or to nobody.
    // spec: LOSS-OWNER-1
    fn book(&mut self, place: usize, owner: Option<u64>, gap: u32) {
        if gap == 0 || gap >= HALF {
            return;
        }
        self.lost += u64::from(gap);
        *self.by_thread.entry(owner).or_default() += u64::from(gap);
        self.captures[place].1.lost += u64::from(gap);
    }

    /// Events lost in all.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Events lost on one capture thread id; 0 for an id never seen.
    pub fn lost_on_capture_thread(&self, capture_thread: u64) -> u64 {
        self.index.get(&capture_thread).map_or(0, |&place| self.captures[place].1.lost)
    }

    /// Loss by thread, in no order. `None` is loss before any event of its capture thread id.
    pub fn lost_by_thread(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        self.by_thread.iter().map(|(thread, lost)| (*thread, *lost))
    }
}

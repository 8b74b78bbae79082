//! Numbers events on capture ids so that every reader counts the same loss, and the true one.
//!
//! Readers know events by a capture id and a number on it; a hole is loss, and belongs to the OS thread of the event before the
//! hole. They forget ids beyond 5,000, take an unknown id's first number as its start, and give up where a number falls or
//! leaps by 2^31. So producers only count their attempts, and here the drain numbers: an id is a small slot that one live thread holds
//! and the next one takes over, its numbers go on, and before a hole that would not follow an event of the losing thread
//! comes an *info event* of that thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Readers forget further ids.
pub(crate) const MAX_CAPTURE_IDS: usize = 5_000;
/// The longest hole that is left without a point inside. Readers take a leap of 2^31 for a fall.
const MAX_HOLE: u32 = 1 << 30;
/// An id whose number has come this far is given up: a hole behind number 0 would not count.
const RETIRE_AT: u32 = 0xF000_0000;

/// Who loses or writes an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CaptureThread<'a> {
    pub(crate) os_thread_id: u64,
    pub(crate) name: &'a str,
}

/// An event's place in the numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CaptureNumber {
    pub(crate) id: u64,
    pub(crate) number: u32,
}

/// What the numbering has to write into the stream, before whatever the caller writes next.
pub(crate) trait CaptureOutput {
    fn info_event(&mut self, number: CaptureNumber, thread: CaptureThread<'_>);
    /// Pairs of id and number.
    fn sequence_point(&mut self, listed: Vec<(u64, u32)>);
}

/// A thread's hold of an id; made with `default`, given back by [`CaptureIds::release`].
#[derive(Debug, Default)]
pub(crate) struct Holding {
    index: Option<usize>,
}

/// All ids of one stream. Id n is at index n-1.
#[derive(Debug)]
pub(crate) struct CaptureIds {
    slots: Vec<Slot>,
    free: BinaryHeap<Reverse<usize>>,
    /// Where the search for an id to share goes on.
    next_shared: usize,
    max_ids: usize,
}

#[derive(Debug, Default)]
struct Slot {
    /// The last number given, to an event or to a loss.
    number: u32,
    /// The last number in the stream, of an event or in a point.
    shown: u32,
    /// The OS thread of the last event in the stream; None while there is none.
    owner: Option<u64>,
    holders: u32,
    retired: bool,
    /// It was given back and is due in one more point.
    list_once: bool,
}

impl CaptureIds {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: BinaryHeap::new(), next_shared: 0, max_ids: MAX_CAPTURE_IDS }
    }

    /// The next number for an event that shows `os_thread_id`; the holder takes an id if it has none.
    // spec: SES-NUM-1
    pub(crate) fn event(
        &mut self,
        holding: &mut Holding,
        os_thread_id: u64,
        out: &mut dyn CaptureOutput,
    ) -> CaptureNumber {
        let index = self.usable(holding, out);
        let slot = &mut self.slots[index];
        CaptureNumber { id: index as u64 + 1, number: slot.show_event(os_thread_id) }
    }

    /// Counts `lost` events of the thread, after whatever it has in the stream.
    // spec: SES-NUM-2, SES-NUM-6
    pub(crate) fn lose(
        &mut self,
        holding: &mut Holding,
        thread: CaptureThread<'_>,
        mut lost: u64,
        out: &mut dyn CaptureOutput,
    ) {
        while lost > 0 {
            let index = self.usable(holding, out);
            let slot = &mut self.slots[index];
            if slot.owner != Some(thread.os_thread_id) {
                let number = slot.show_event(thread.os_thread_id);
                out.info_event(CaptureNumber { id: index as u64 + 1, number }, thread);
                continue;
            }
            let room = MAX_HOLE.saturating_sub(slot.number.wrapping_sub(slot.shown));
            if room == 0 {
                out.sequence_point(self.point());
                continue;
            }
            let to_retirement =
                RETIRE_AT.checked_sub(slot.number).filter(|left| *left > 0).unwrap_or(u32::MAX);
            let step = lost.min(u64::from(room.min(to_retirement)));
            slot.number = slot.number.wrapping_add(step as u32); // at most `room`
            lost -= step;
        }
    }

    /// Gives the id back: its thread has ended and has nothing more to show.
    pub(crate) fn release(&mut self, holding: &mut Holding) {
        let Some(index) = holding.index.take() else { return };
        let slot = &mut self.slots[index];
        slot.holders -= 1;
        if slot.holders == 0 && !slot.retired {
            slot.list_once = true;
            self.free.push(Reverse(index));
        }
    }

    /// What a sequence point lists now: ids that have an event in the stream and are held, or were given back since the last
    /// point, or whose number has moved.
    // spec: SES-NUM-3
    pub(crate) fn point(&mut self) -> Vec<(u64, u32)> {
        let mut listed = Vec::new();
        for (id, slot) in (1..).zip(&mut self.slots) {
            let due = slot.holders > 0 && !slot.retired || slot.list_once || slot.number != slot.shown;
            if slot.owner.is_some() && due {
                slot.shown = slot.number;
                slot.list_once = false;
                listed.push((id, slot.number));
            }
        }
        listed
    }

    /// The holder's id; a new one if it has none or its id is used up.
    // spec: SES-NUM-5
    fn usable(&mut self, holding: &mut Holding, out: &mut dyn CaptureOutput) -> usize {
        loop {
            let index = match holding.index {
                Some(index) if !self.slots[index].retired => index,
                _ => self.take(holding),
            };
            if self.slots[index].number < RETIRE_AT || !self.has_other_id() {
                return index;
            }
            out.sequence_point(self.point());
            self.slots[index].retired = true;
        }
    }

    /// Whether an id can be given up. With all of them spent (5,000 × 4·10^9 numbers) the last one goes on.
    fn has_other_id(&self) -> bool {
        self.slots.len() < self.max_ids || self.slots.iter().filter(|slot| !slot.retired).count() > 1
    }

    /// The lowest free id, else a new one, else one that others hold too.
    // spec: SES-NUM-4
    fn take(&mut self, holding: &mut Holding) -> usize {
        self.release(holding);
        let index = loop {
            match self.free.pop() {
                Some(Reverse(index)) if self.slots[index].retired => {}
                Some(Reverse(index)) => break index,
                None if self.slots.len() < self.max_ids => {
                    self.slots.push(Slot::default());
                    break self.slots.len() - 1;
                }
                None => break self.shared(),
            }
        };
        let slot = &mut self.slots[index];
        slot.holders += 1;
        slot.list_once = false;
        holding.index = Some(index);
        index
    }

    fn shared(&mut self) -> usize {
        loop {
            self.next_shared = (self.next_shared + 1) % self.slots.len();
            if !self.slots[self.next_shared].retired {
                return self.next_shared;
            }
        }
    }
}

impl Slot {
    fn show_event(&mut self, os_thread_id: u64) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.shown = self.number;
        self.owner = Some(os_thread_id);
        self.number
    }
}

#[cfg(test)]
#[path = "capture_ids_tests.rs"]
mod tests;

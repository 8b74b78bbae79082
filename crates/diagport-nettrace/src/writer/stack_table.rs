//! Which stacks have an id. A table of our own: it hashes whole frames, and a lookup takes no more than that and one comparison.

use std::hash::{BuildHasher, RandomState};

/// What the table takes for each stack besides its frames, about.
const STACK_ENTRY_BYTES: usize = 80;
const FIRST_SLOTS: usize = 16;

#[derive(Debug)]
pub(super) struct StackTable {
    /// The frames of id 1, 2, …
    stacks: Vec<Box<[u64]>>,
    /// Ids, 0 where free, each with its hash's upper half. A power of two, at most half of them taken.
    slots: Vec<Slot>,
    /// Of the process: frames may be what somebody else chose.
    seed: u64,
    /// The id given out last, 0 for none.
    recent: u32,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    id: u32,
}

impl StackTable {
    pub(super) fn new() -> Self {
        let seed = RandomState::new().hash_one(0);
        Self { stacks: Vec::new(), slots: Vec::new(), seed, recent: 0, bytes: 0 }
    }

    /// The last id given out in this region; ids start at 1.
    pub(super) fn last_id(&self) -> u32 {
        self.stacks.len() as u32
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn frames(&self, id: u32) -> Option<&[u64]> {
        self.stacks.get((id as usize).wrapping_sub(1)).map(|frames| &**frames)
    }

    #[inline]
    pub(super) fn recent_id(&self, frames: &[u64]) -> Option<u32> {
        (self.frames(self.recent) == Some(frames)).then_some(self.recent)
    }

    pub(super) fn id_of(&mut self, frames: &[u64]) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let hash = hash(self.seed, frames);
        let mut at = hash as usize;
        loop {
            let slot = self.slots[at & (self.slots.len() - 1)];
            if slot.id == 0 {
                return None;
            }
            if slot.hash == (hash >> 32) as u32 && self.frames(slot.id) == Some(frames) {
                self.recent = slot.id;
                return Some(slot.id);
            }
            at = at.wrapping_add(1);
        }
    }

    /// Gives the next id to a stack that has none. An empty one is not found by its frames.
    pub(super) fn push(&mut self, frames: &[u64]) -> u32 {
        self.stacks.push(frames.into());
        if !frames.is_empty() {
            self.bytes += size_of_val(frames) + STACK_ENTRY_BYTES;
            self.recent = self.last_id();
            if 2 * self.stacks.len() > self.slots.len() {
                self.grow();
            } else {
                self.occupy(self.last_id());
            }
        }
        self.last_id()
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(FIRST_SLOTS);
        self.slots.clear();
        self.slots.resize(slots, Slot::default());
        (1..=self.last_id()).for_each(|id| self.occupy(id));
    }

    fn occupy(&mut self, id: u32) {
        let Some(frames) = self.frames(id) else { return };
        if frames.is_empty() {
            return;
        }
        let hash = hash(self.seed, frames);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].id != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = Slot { hash: (hash >> 32) as u32, id };
    }

    /// Forgets all stacks; keeps the slots.
    pub(super) fn clear(&mut self) {
        self.stacks.clear();
        self.slots.fill(Slot::default());
        (self.recent, self.bytes) = (0, 0);
    }
}

/// Two multiplications for each four frames that do not wait for each other.
fn hash(seed: u64, frames: &[u64]) -> u64 {
    // Odd numbers without a pattern: the fractions of the golden ratio and of the square root of 2.
    const KEYS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0x6A09_E667_F3BC_C909];
    let (quads, rest) = frames.as_chunks::<4>();
    let (mut left, mut right) = (seed, seed ^ frames.len() as u64);
    for [a, b, c, d] in quads {
        left = fold(a ^ KEYS[0], b ^ left);
        right = fold(c ^ KEYS[1], d ^ right);
    }
    for frame in rest {
        left = fold(frame ^ KEYS[0], left ^ KEYS[1]);
    }
    fold(left ^ KEYS[0], right ^ KEYS[1])
}

/// Both halves of the product, so that each bit of it depends on all bits of both.
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

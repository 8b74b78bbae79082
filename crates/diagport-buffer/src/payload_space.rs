//! Encoding a payload straight into a chunk.
#![allow(
    unsafe_code,
    reason = "writes into memory that is not initialised: one of the few places of DESIGN's rule"
)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::chunk_memory::copy;

/// Where the fields of an event are encoded to, one after the other.
pub trait PayloadOut {
    /// Appends the bytes, if they fit; else the payload has failed.
    fn put(&mut self, bytes: &[u8]);

    /// Appends the text as UTF-16 with a terminator and returns true; false, and nothing is appended, where it has other characters than 1 to 127.
    fn put_ascii(&mut self, text: &str) -> bool;

    /// Gives the payload up.
    fn fail(&mut self);

    /// Whether it was given up, so that the rest is in vain.
    fn has_failed(&self) -> bool;
}

/// Whether the text is characters 1 to 127. Without an early end, so that it is a few instructions for sixteen of them.
#[inline]
#[must_use]
pub fn is_plain_ascii(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & (byte.wrapping_sub(1) < 0x7F))
}

/// The free end of a chunk. What does not fit makes it fail; then nothing of it counts.
#[derive(Debug)]
pub struct PayloadSpace<'a> {
    next: NonNull<u8>,
    left_bytes: usize,
    used_bytes: usize,
    failed: bool,
    chunk: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

impl<'a> PayloadSpace<'a> {
    #[inline(always)]
    pub(crate) fn new(room: &'a mut [MaybeUninit<u8>]) -> Self {
        Self {
            left_bytes: room.len(),
            next: NonNull::from(room).cast(),
            used_bytes: 0,
            failed: false,
            chunk: PhantomData,
        }
    }

    /// Bytes that were put, all of them initialised. None if it has failed.
    #[inline(always)]
    pub(crate) fn used_bytes(&self) -> Option<usize> {
        (!self.failed).then_some(self.used_bytes)
    }

    /// Where the next so many bytes go.
    #[inline(always)]
    fn take(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        if bytes > self.left_bytes {
            self.fail();
            return None;
        }
        let at = self.next;
        // SAFETY: within the room, by the line above.
        self.next = unsafe { at.add(bytes) };
        self.left_bytes -= bytes;
        self.used_bytes += bytes;
        Some(at)
    }
}

impl PayloadOut for PayloadSpace<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        if let Some(at) = self.take(bytes.len()) {
            // SAFETY: so many bytes of the room, which is borrowed mutably and so overlaps nothing.
            unsafe { copy(NonNull::from(bytes).cast(), at, bytes.len()) };
        }
    }

    #[inline(always)]
    fn put_ascii(&mut self, text: &str) -> bool {
        // The text is the caller's and may be of any length: what cannot fit is not looked at. (A third of the bytes may be enough in UTF-16.)
        if text.len() / 3 * 2 > self.left_bytes {
            self.fail();
            return true;
        }
        if !is_plain_ascii(text) {
            return false;
        }
        if let Some(at) = self.take(2 * text.len() + 2) {
            // SAFETY: so many pairs of bytes of the room, of alignment 1, borrowed mutably as long as this value is.
            let units = unsafe {
                std::slice::from_raw_parts_mut(at.as_ptr().cast::<MaybeUninit<[u8; 2]>>(), text.len() + 1)
            };
            if let Some((terminator, units)) = units.split_last_mut() {
                for (unit, byte) in units.iter_mut().zip(text.bytes()) {
                    unit.write([byte, 0]);
                }
                terminator.write([0, 0]);
            }
        }
        true
    }

    #[inline(always)]
    fn fail(&mut self) {
        self.failed = true;
        self.left_bytes = 0;
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(room_bytes: usize, put: impl FnOnce(&mut PayloadSpace<'_>), wanted: Option<&[u8]>) {
        let mut room = vec![MaybeUninit::new(0xEE); room_bytes];
        let mut space = PayloadSpace::new(&mut room);
        put(&mut space);
        let used = space.used_bytes();
        let bytes: Vec<u8> = room
            .iter()
            .map(|byte| {
                // SAFETY: initialised above.
                unsafe { byte.assume_init() }
            })
            .collect();
        assert_eq!(used.map(|used| &bytes[..used]), wanted);
        let end = used.unwrap_or(room_bytes);
        assert!(bytes[end..].iter().all(|byte| *byte == 0xEE), "nothing beyond what was put");
    }

    #[test]
    fn what_fits_is_put_and_what_does_not_fails() {
        check(0, |_| {}, Some(&[]));
        check(3, |space| space.put(&[1, 2, 3]), Some(&[1, 2, 3]));
        check(6, |space| assert!(space.put_ascii("ab")), Some(&[b'a', 0, b'b', 0, 0, 0]));
        check(9, |space| assert!(!space.put_ascii("a\0b") && !space.put_ascii("\u{e9}")), Some(&[]));
        check(2, |space| space.put(&[1, 2, 3]), None);
        check(5, |space| assert!(space.put_ascii("ab")), None);
        for length in 0..150 {
            let bytes: Vec<u8> = (0..length).collect();
            check(150, |space| space.put(&bytes), Some(&bytes));
        }
    }

    #[test]
    fn after_a_failure_nothing_is_put() {
        let mut room = [MaybeUninit::new(7_u8); 4];
        let mut space = PayloadSpace::new(&mut room);
        space.put(&[1]);
        space.put(&[0; 9]);
        space.put(&[2]);
        assert!(space.has_failed() && space.used_bytes().is_none());
        // SAFETY: initialised above.
        assert_eq!(unsafe { room[1].assume_init() }, 7);
    }
}

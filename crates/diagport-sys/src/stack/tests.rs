//! The walk over made-up regions, and the real capture with junk for a frame pointer. Whole stacks of real code are in `tests/stack.rs`.
#![allow(
    unsafe_code,
    reason = "a region between two pages that cannot be read, and calls of the walk itself"
)]

use std::ptr;

use super::*;

const CODE: usize = 0x5500_0000_1000;
const PAGE: usize = 4096;

/// Words with an unreadable page before and behind: a read outside ends the test process.
struct Fenced {
    map: *mut libc::c_void,
    words: usize,
}

impl Fenced {
    fn new(words: &[usize]) -> Self {
        assert!(size_of_val(words) <= PAGE, "one page of words");
        // SAFETY: a fresh private mapping, placed by the kernel.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        // SAFETY: the middle page of the mapping above.
        let opened =
            unsafe { libc::mprotect(map.wrapping_byte_add(PAGE), PAGE, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(opened, 0);
        let fenced = Self { map, words: words.len() };
        let target = ptr::with_exposed_provenance_mut(fenced.low());
        // SAFETY: `low..high` is inside the page just opened, and nothing else knows it.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr(), target, words.len()) };
        fenced
    }

    /// The words end where the page ends.
    fn low(&self) -> usize {
        self.high() - self.words * size_of::<usize>()
    }

    fn high(&self) -> usize {
        self.map.expose_provenance() + 2 * PAGE
    }

    fn walk(&self, start: usize, most: usize) -> Vec<u64> {
        let mut frames = vec![0; most];
        // SAFETY: the whole region is mapped and readable.
        let count = unsafe { walk(start, self.low(), self.high(), &mut frames) };
        frames.truncate(count);
        frames
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing points into it any more.
        unsafe { libc::munmap(self.map, 3 * PAGE) };
    }
}

/// Words of a region, where `Link(n)` is the address of word n and `Byte(n)` that of byte n.
#[derive(Clone, Copy)]
enum Word {
    Link(usize),
    Byte(usize),
    Plain(usize),
}
use Word::{Byte, Link, Plain};

fn check(name: &str, words: &[Word], start: Word, most: usize, expected: &[usize]) {
    let fenced = Fenced::new(&vec![0; words.len()]);
    let value = |word: Word| match word {
        Link(index) => fenced.low() + index * size_of::<usize>(),
        Byte(index) => fenced.low() + index,
        Plain(value) => value,
    };
    for (index, word) in words.iter().enumerate() {
        let target = ptr::with_exposed_provenance_mut(fenced.low() + index * size_of::<usize>());
        // SAFETY: one of the region's words.
        unsafe { ptr::write(target, value(*word)) };
    }
    let expected: Vec<u64> = expected.iter().map(|address| *address as u64).collect();
    assert_eq!(fenced.walk(value(start), most), expected, "{name}");
}

#[test]
fn chains_end_where_they_leave_the_region_or_make_no_sense() {
    let chain = [Link(2), Plain(CODE), Link(5), Plain(CODE + 1), Plain(7), Plain(0), Plain(CODE + 2)];
    check("a chain, ended by a zero frame pointer", &chain, Link(0), 9, &[CODE, CODE + 1, CODE + 2]);
    check("cut at the limit", &chain, Link(0), 2, &[CODE, CODE + 1]);
    check("no room at all", &chain, Link(0), 0, &[]);
    check("the last word is half a record", &chain, Link(6), 9, &[]);
    check("the region's end", &chain, Link(7), 9, &[]);
    check("one word below the region", &chain, Plain(0), 9, &[]);
    check("not aligned", &[Plain(0), Plain(CODE), Plain(CODE)], Byte(1), 9, &[]);
    check(
        "to what is not aligned",
        &[Byte(20), Plain(CODE), Plain(CODE), Plain(CODE), Plain(CODE)],
        Link(0),
        9,
        &[CODE],
    );
    check("to itself", &[Link(0), Plain(CODE)], Link(0), 9, &[CODE]);
    check("backwards", &[Link(2), Plain(CODE), Link(0), Plain(CODE + 1)], Link(2), 9, &[CODE + 1]);
    check("into its own record", &[Link(1), Plain(CODE), Plain(CODE)], Link(0), 9, &[CODE]);
    check("the return address is zero", &[Link(2), Plain(0), Plain(0), Plain(CODE)], Link(0), 9, &[]);
    check("the return address is a small number", &[Link(2), Plain(4095)], Link(0), 9, &[]);
    check("far above", &[Plain(usize::MAX - 7), Plain(CODE)], Link(0), 9, &[CODE]);
    check("an empty region", &[], Plain(0), 9, &[]);
}

/// Steele and Vigna's SplitMix64.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

#[test]
fn no_word_of_a_region_leads_outside() {
    let mut seed = u64::from(std::process::id());
    println!("seed {seed}");
    for _ in 0..200 {
        let fenced = Fenced::new(&[0; PAGE / size_of::<usize>()]);
        for address in (fenced.low()..fenced.high()).step_by(size_of::<usize>()) {
            // About the region, in eights or not, or anything.
            let word = match random(&mut seed) % 4 {
                0 => random(&mut seed),
                1 => fenced.low() + random(&mut seed) % (PAGE + 64),
                _ => fenced.low().wrapping_sub(64) + random(&mut seed) % (PAGE / 8 + 16) * 8,
            };
            // SAFETY: one of the region's words.
            unsafe { ptr::write(ptr::with_exposed_provenance_mut(address), word) };
        }
        for start in (fenced.low() - 64)..(fenced.high() + 64) {
            assert!(fenced.walk(start, 1000).len() <= PAGE / RECORD_BYTES);
        }
    }
}

#[test]
fn a_junk_frame_pointer_is_harmless() {
    let boxed = Box::new([0usize; 4]);
    let heap = boxed.as_ptr().addr();
    let mut seed = u64::from(std::process::id());
    println!("seed {seed}");
    let on_a_thread = move || {
        let mut frames = [0; 100];
        let here = machine::stack_pointer();
        let top = bounds::top_of_stack_with(here).unwrap();
        for junk in [0, 1, 8, heap, CODE, here - 4096, top - 8, top, top + 8, usize::MAX, usize::MAX - 7] {
            assert_eq!(capture_from(junk, &mut frames), 0, "{junk:#x} as frame pointer");
        }
        // Places on the stack that are no frames, all of them read: the walk must only stay inside.
        for address in here - 256..top + 64 {
            assert!(capture_from(address, &mut frames) <= frames.len());
        }
        for _ in 0..100_000 {
            assert!(capture_from(random(&mut seed), &mut frames) <= frames.len());
        }
    };
    std::thread::spawn(on_a_thread).join().unwrap();
}

#[test]
fn another_stack_is_not_walked() {
    let here = machine::stack_pointer();
    let top = bounds::top_of_stack_with(here).unwrap();
    // The heap may lie in the gigabytes below a stack, a coroutine's stack in its heap.
    for elsewhere in [0, here - (65 << 20), top, top + 64, usize::MAX] {
        assert_eq!(bounds::top_of_stack_with(elsewhere), None, "{elsewhere:#x}, the stack ends at {top:#x}");
    }
}

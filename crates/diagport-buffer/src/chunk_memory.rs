//! Where the bytes of a chunk are: on the heap, or in a slab of huge pages that many chunks share.
//!
//! The first touch of a page costs as much as dozens of events. In huge pages it costs a seventh, so large chunks of large sessions are cut
//! from slabs of the size of one; small ones come from the heap, because a slab is resident as a whole.
#![allow(
    unsafe_code,
    reason = "memory that is neither zeroed nor moved: one of the few places of DESIGN's rule"
)]

use std::alloc::{Layout, alloc, dealloc};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// About ten events ahead.
#[cfg(target_arch = "x86_64")]
const PREFETCH_BYTES: usize = 512;

/// Size and alignment of a huge page on the systems that have them.
pub(crate) const SLAB_BYTES: usize = 2 << 20;

/// So many bytes, of which the first `len` are initialised.
#[derive(Debug)]
pub(crate) struct ChunkMemory {
    start: NonNull<u8>,
    capacity: usize,
    len: usize,
    home: Home,
}

#[derive(Debug)]
enum Home {
    Nowhere,
    Heap,
    Slab { _slab: Arc<SlabMemory> },
}

// SAFETY: a ChunkMemory is the only owner of its bytes, like a Vec<u8>.
unsafe impl Send for ChunkMemory {}
// SAFETY: through a shared reference bytes are only read.
unsafe impl Sync for ChunkMemory {}

impl ChunkMemory {
    /// No memory.
    pub(crate) const NONE: Self =
        Self { start: NonNull::dangling(), capacity: 0, len: 0, home: Home::Nowhere };

    /// None where there is no memory.
    pub(crate) fn on_heap(capacity: usize) -> Option<Self> {
        let layout = Layout::array::<u8>(capacity).ok().filter(|_| capacity > 0)?;
        // SAFETY: the layout is not of size 0.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        Some(Self { start, capacity, len: 0, home: Home::Heap })
    }

    #[inline]
    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends. The caller has made sure that it fits.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.capacity - self.len, "invariant: whoever appends has asked for room");
        // SAFETY: `len` is within the allocation.
        let end = unsafe { self.start.add(self.len) };
        // SAFETY: there is room for all of it, and a borrow of other memory cannot overlap what this value owns.
        unsafe { copy(NonNull::from(bytes).cast(), end, bytes.len()) };
        self.len += bytes.len();
    }

    /// Brings near what will be written soon: a chunk comes from memory that another core, or nobody, touched last.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in 0..2 {
            // Not dereferenced, so it may lie beyond the end.
            let soon = self.start.as_ptr().wrapping_add(self.len + PREFETCH_BYTES + 64 * line);
            // The intrinsic becomes a prefetch for reading on the baseline processor, which leaves the other core its copy.
            // SAFETY: a hint: no address makes it fail, and a processor that does not know it does nothing.
            unsafe {
                std::arch::asm!("prefetchw [{}]", in(reg) soon, options(nostack, preserves_flags, readonly));
            }
        }
    }

    /// Brings near what will be read soon: the core that wrote it still has it.
    #[inline(always)]
    pub(crate) fn prefetch_for_reading(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let soon = self.start.as_ptr().wrapping_add(at + PREFETCH_BYTES);
            // SAFETY: a hint; no address makes it fail.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(soon.cast()) };
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(soon.wrapping_add(64).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    /// The free end.
    #[inline(always)]
    pub(crate) fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `len` is within the allocation.
        let end = unsafe { self.start.add(self.len) };
        // SAFETY: the rest of the allocation, owned and borrowed mutably; it need not be initialised.
        unsafe { std::slice::from_raw_parts_mut(end.as_ptr().cast(), self.capacity - self.len) }
    }

    /// Makes the first `bytes` of [`Self::spare`] part of what was appended.
    ///
    /// # Safety
    /// They are initialised, and there are so many.
    #[inline(always)]
    pub(crate) unsafe fn extend_over(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.capacity - self.len, "no more than there is");
        self.len += bytes;
    }

    /// What was appended.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised and owned; a dangling start has none.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// Payloads are short and their lengths are not known at compile time: a call of the C library would be a good part of an event.
///
/// # Safety
/// `len` bytes at `from` are readable, as many at `to` writable, and the two do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    match len {
        // Two blocks that overlap in the middle.
        16..=32 => {
            // SAFETY: the first 16 of at least 16 bytes.
            unsafe { copy_block::<16>(from, to, 0) };
            // SAFETY: the last 16 of them.
            unsafe { copy_block::<16>(from, to, len - 16) };
        }
        33..=64 => {
            // SAFETY: the first 32 of more than 32 bytes.
            unsafe { copy_block::<32>(from, to, 0) };
            // SAFETY: the last 32 of them.
            unsafe { copy_block::<32>(from, to, len - 32) };
        }
        // SAFETY: the caller's promise.
        _ => unsafe { to.copy_from_nonoverlapping(from, len) },
    }
}

/// # Safety
/// As [`copy`], for the `N` bytes from `at` on.
#[inline(always)]
unsafe fn copy_block<const N: usize>(from: NonNull<u8>, to: NonNull<u8>, at: usize) {
    // SAFETY: within what the caller may read.
    let from = unsafe { from.add(at) };
    // SAFETY: within what the caller may write.
    let to = unsafe { to.add(at) };
    // SAFETY: N bytes of both, by the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, N) };
}

impl Drop for ChunkMemory {
    fn drop(&mut self) {
        match &self.home {
            Home::Nowhere => {}
            Home::Heap => {
                let layout = Layout::array::<u8>(self.capacity).expect("invariant: it was allocated with it");
                // SAFETY: allocated by `on_heap` with this layout, and this is its owner's end.
                unsafe { dealloc(self.start.as_ptr(), layout) };
            }
            // The rest of the slab lives on, but these pages are not to count any more.
            Home::Slab { .. } => give_pages_back(self.start, self.capacity),
        }
    }
}

/// A slab that chunks are being cut from.
#[derive(Debug)]
pub(crate) struct Slab {
    memory: Arc<SlabMemory>,
    cut_bytes: usize,
}

/// Freed when the last chunk of it is.
#[derive(Debug)]
struct SlabMemory {
    start: NonNull<u8>,
}

// SAFETY: it only owns the allocation; each byte of it is given to one ChunkMemory.
unsafe impl Send for SlabMemory {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for SlabMemory {}

impl SlabMemory {
    fn layout() -> Layout {
        Layout::from_size_align(SLAB_BYTES, SLAB_BYTES).expect("invariant: a power of two")
    }
}

impl Slab {
    /// None where there is no memory.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: the layout is not of size 0.
        let start = NonNull::new(unsafe { alloc(SlabMemory::layout()) })?;
        ask_for_huge_pages(start);
        Some(Self { memory: Arc::new(SlabMemory { start }), cut_bytes: 0 })
    }

    /// None where less than that is left. `capacity` is a power of two, so that chunks begin at pages.
    pub(crate) fn cut(&mut self, capacity: usize) -> Option<ChunkMemory> {
        if capacity > SLAB_BYTES - self.cut_bytes {
            return None;
        }
        // SAFETY: within the slab, by the line above.
        let start = unsafe { self.memory.start.add(self.cut_bytes) };
        // These bytes are given to nobody else.
        self.cut_bytes += capacity;
        Some(ChunkMemory { start, capacity, len: 0, home: Home::Slab { _slab: Arc::clone(&self.memory) } })
    }
}

impl Drop for SlabMemory {
    fn drop(&mut self) {
        // SAFETY: allocated by `Slab::new` with this layout; every chunk of it holds a count, so none is left.
        unsafe { dealloc(self.start.as_ptr(), Self::layout()) };
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(start: NonNull<u8>) {
    // SAFETY: advice on memory of ours that changes no content.
    let advised =
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), SLAB_BYTES, rustix::mm::Advice::LinuxHugepage) };
    // Where it is refused, small pages are as good, only slower.
    let _ = advised;
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_start: NonNull<u8>) {}

#[cfg(target_os = "linux")]
fn give_pages_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: whole pages of ours that nobody reads any more; they read as zero afterwards.
    let advised =
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxDontNeed) };
    // Where it is refused, they stay resident until the slab goes.
    let _ = advised;
}

#[cfg(not(target_os = "linux"))]
fn give_pages_back(_start: NonNull<u8>, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_slab_do_not_overlap_and_outlive_it() {
        let mut slab = Slab::new().expect("memory");
        let mut chunks: Vec<_> = std::iter::from_fn(|| slab.cut(64 << 10)).collect();
        assert_eq!(chunks.len(), SLAB_BYTES / (64 << 10));
        assert!(slab.cut(4 << 10).is_none());
        drop(slab);
        for (number, chunk) in (0_u8..).zip(&mut chunks) {
            for _ in 0..64 {
                chunk.append(&[number; 1 << 10]);
            }
            assert_eq!(chunk.len(), chunk.capacity());
        }
        chunks.remove(5);
        for (number, chunk) in (0_u8..).filter(|number| *number != 5).zip(&chunks) {
            assert!(chunk.bytes().iter().all(|byte| *byte == number), "chunk {number}");
        }
    }

    #[test]
    fn memory_is_filled_from_its_beginning() {
        let mut memory = ChunkMemory::on_heap(10).expect("memory");
        memory.append(b"abc");
        memory.append(b"");
        memory.append(b"defghij");
        assert_eq!((memory.bytes(), memory.len()), (&b"abcdefghij"[..], 10));
        memory.clear();
        memory.append(b"xy");
        assert_eq!(memory.bytes(), b"xy");
        assert!(ChunkMemory::NONE.bytes().is_empty() && ChunkMemory::on_heap(0).is_none());
        assert!(ChunkMemory::on_heap(usize::MAX).is_none());
    }
}

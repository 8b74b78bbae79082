//! The system's allocator, which counts what a thread asks for and refuses it on request.
//!
//! A test binary that wants it names it as its `#[global_allocator]`; the session's tests include this file too.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    unsafe_code,
    reason = "JUSTIFICATION: an allocator can be written no other way, and it is in tests only"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) struct CountingAllocator;

/// Bytes that the process has and has not given back.
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Constants without a destructor: they can be used at any time of a thread's life, and using them allocates nothing.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static REFUSES: Cell<Refusal> = const { Cell::new(Refusal::Nothing) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Nothing,
    Everything,
}

/// What `work` returns, and how often it asked for memory on this thread.
pub(crate) fn count_allocations<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATIONS.get();
    let result = work();
    (result, ALLOCATIONS.get() - before)
}

/// Does `work` while this thread gets no memory. Whatever cannot do without ends the process.
pub(crate) fn without_memory<T>(work: impl FnOnce() -> T) -> T {
    struct Again;
    impl Drop for Again {
        fn drop(&mut self) {
            REFUSES.set(Refusal::Nothing);
        }
    }
    REFUSES.set(Refusal::Everything);
    let _again = Again;
    work()
}

pub(crate) fn live_bytes() -> usize {
    LIVE_BYTES.load(Ordering::SeqCst)
}

/// For tests that look at [`live_bytes`]: those of one binary run one after the other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn grants() -> bool {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    REFUSES.get() == Refusal::Nothing
}

fn took(memory: *mut u8, bytes: usize) -> *mut u8 {
    if !memory.is_null() {
        LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
    memory
}

// SAFETY: every block comes from `System` and goes back to it with the same layout; null, the answer of a refusal, is one that
// the contract of `GlobalAlloc` allows. Nothing in here panics or allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grants() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's layout, of which it promises what `System` asks.
        took(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !grants() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's layout, of which it promises what `System` asks.
        took(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller got `memory` from here, so from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if !grants() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller got `memory` from here, so from `System`, with this layout, and promises the new size.
        let moved = took(unsafe { System.realloc(memory, layout, new_bytes) }, new_bytes);
        if !moved.is_null() {
            LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        moved
    }
}

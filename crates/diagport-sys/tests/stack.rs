//! Stacks of real code. They are whole only where the code has frame pointers, which `.cargo/config.toml` asks for and `RUSTFLAGS` overrides.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "signal handlers")]

mod recursion;

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{ptr, thread};

use diagport_sys::stack::{capture, prepare};
use recursion::{CASES, MOST, check, descend, has_frame_pointers};

#[inline(never)]
fn outer(frames: &mut [u64]) -> usize {
    let count = capture(frames);
    black_box(count)
}

#[test]
fn recursion_shows_frame_by_frame() {
    if has_frame_pointers() {
        CASES.iter().for_each(|(depth, room)| check(*depth, *room));
        check(1000, 2000);
    }
}

#[test]
fn two_places_of_one_caller_differ() {
    if !has_frame_pointers() {
        return;
    }
    let (mut first, mut second) = ([0; MOST], [0; MOST]);
    let counts = (outer(&mut first), outer(&mut second));
    assert_eq!(counts.0, counts.1);
    assert_ne!(first[0], second[0], "the innermost frame says which call it was");
    assert_eq!(first[1..counts.0], second[1..counts.1], "the rest is the same");
}

#[test]
fn sixteen_threads_at_once() {
    if !has_frame_pointers() {
        return;
    }
    let together = Barrier::new(16);
    thread::scope(|scope| {
        for thread in 0..16 {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                for round in 0..2000 {
                    check((thread * 7 + round) % 60, MOST);
                }
            });
        }
    });
}

#[test]
fn a_thread_that_ends_still_captures() {
    struct AtEnd;
    static COUNT: AtomicUsize = AtomicUsize::new(usize::MAX);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let mut frames = [0; MOST];
            COUNT.store(descend(5, &mut frames), Ordering::Relaxed);
        }
    }
    thread_local! {
        static AT_END: AtEnd = const { AtEnd };
    }
    let expected = if has_frame_pointers() { 6 } else { 0 };
    // Its first capture is the one in the destructor.
    thread::spawn(|| AT_END.with(|_| ())).join().unwrap();
    let count = COUNT.load(Ordering::Relaxed);
    assert!((expected..=MOST).contains(&count), "{count} frames");
}

static IN_HANDLER: AtomicUsize = AtomicUsize::new(usize::MAX);

extern "C" fn handle(_signal: i32) {
    let mut frames = [0; MOST];
    IN_HANDLER.store(descend(3, &mut frames), Ordering::Relaxed);
}

/// How many frames a handler of `signal` sees that runs with `flags`.
fn frames_in_handler(signal: i32, flags: i32) -> usize {
    // SAFETY: all zeros is an action with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(i32) as usize;
    action.sa_flags = flags;
    // SAFETY: the handler stores to an atomic and captures, on a thread that is prepared.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }, 0);
    IN_HANDLER.store(usize::MAX, Ordering::Relaxed);
    // SAFETY: the signal has the handler above.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
    IN_HANDLER.load(Ordering::Relaxed)
}

#[test]
fn signal_handlers_capture_on_the_stack_of_the_thread_alone() {
    prepare();
    let on_own_stack = frames_in_handler(libc::SIGUSR1, 0);
    let expected = if has_frame_pointers() { 4 } else { 0 };
    assert!((expected..=MOST).contains(&on_own_stack), "{on_own_stack} frames");

    let mut memory = vec![0_u8; 64 << 10];
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    let mut before = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: `memory` is alive until the old alternate stack is back.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, &raw mut before) }, 0);
    let on_alternate_stack = frames_in_handler(libc::SIGUSR2, libc::SA_ONSTACK);
    // SAFETY: what the call above returned.
    assert_eq!(unsafe { libc::sigaltstack(&raw const before, ptr::null_mut()) }, 0);
    assert_eq!(on_alternate_stack, 0);
}

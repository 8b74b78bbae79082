//! A recursion of known depth, and what its stack must look like.
#![allow(unsafe_code, clippy::print_stdout, reason = "it reads a register, and a skipped test says so")]

use std::hint::black_box;

use diagport_sys::stack::capture;

/// What a session keeps of a stack.
pub(crate) const MOST: usize = 100;

/// Captures below `depth` frames of itself.
#[inline(never)]
pub(crate) fn descend(depth: usize, frames: &mut [u64]) -> usize {
    let count = if depth == 0 { capture(frames) } else { descend(depth - 1, frames) };
    // Something to do after the call, or it would be a jump and leave no frame.
    black_box(count)
}

/// Without frame pointers a test of whole stacks says so and is over. Found out without the code under test.
pub(crate) fn has_frame_pointers() -> bool {
    let (outer, inner) = (frame_pointer(), frame_pointer_of_callee());
    let local = (&raw const outer).addr();
    // The callee's frame is right below, and both are where the stack is now.
    let kept = inner < outer && outer - inner < 4096 && outer.abs_diff(local) < 4096;
    if !kept {
        println!("skipped: built without frame pointers (RUSTFLAGS overrides .cargo/config.toml)");
    }
    kept
}

#[inline(never)]
fn frame_pointer_of_callee() -> usize {
    black_box(frame_pointer())
}

#[inline(always)]
fn frame_pointer() -> usize {
    let value;
    // SAFETY: copies one register into another and touches nothing else.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {}, rbp", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mov {}, x29", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        value = 0;
    }
    value
}

/// `depth` frames of recursion show as that many equal return addresses, as far as there is room.
pub(crate) fn check(depth: usize, room: usize) {
    let mut frames = vec![u64::MAX; room];
    let count = descend(depth, &mut frames);
    let case = format!("depth {depth}, room {room}: {:x?}", &frames[..count.min(room)]);
    assert!(count <= room, "{case}");
    assert!(frames[count..].iter().all(|frame| *frame == u64::MAX), "written behind the count: {case}");
    let inside = depth.min(room);
    assert!(count >= inside, "{case}");
    assert!(frames[..inside].windows(2).all(|pair| pair[0] == pair[1]), "one call site: {case}");
    if depth < room {
        assert!(count > depth, "the caller of the recursion is missing: {case}");
        assert!(depth == 0 || frames[depth] != frames[0], "{case}");
    } else {
        assert_eq!(count, room, "cut at the limit: {case}");
    }
}

/// Depth, and room for addresses.
pub(crate) const CASES: [(usize, usize); 9] =
    [(0, MOST), (1, MOST), (2, MOST), (31, MOST), (80, MOST), (99, MOST), (100, MOST), (1000, MOST), (10, 0)];

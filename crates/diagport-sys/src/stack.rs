//! The stack of the calling thread, by frame pointers.
//!
//! A function compiled with frame pointers starts with two words on the stack, and the frame-pointer register holds their address:
//!
//! ```text
//!   frame pointer --> | frame pointer of the caller | --> | of its caller | --> ...   addresses grow
//!                     | return address into caller  |     | return address |
//! ```
//!
//! Nothing promises that the register holds such an address: code built without frame pointers uses it for anything. So each record must lie within
//! the thread's own stack, between the stack pointer and the top, aligned and above the record before it; the walk ends where one does not. Wrong
//! addresses are then possible, a read outside the stack is not.
//!
//! Linux on x86-64 and AArch64; elsewhere every stack is empty. A workspace gets whole stacks when it is compiled with
//! `-C force-frame-pointers=yes`; frames of libraries compiled without are missing.

mod bounds;
mod machine;
#[cfg(all(test, target_os = "linux"))]
mod tests;

/// The two words of a frame record.
const RECORD_BYTES: usize = 2 * size_of::<usize>();
/// No code lies in the first page; a "return address" there is data, or the zero that ends a chain.
const FIRST_CODE_ADDRESS: usize = 4096;

/// Writes return addresses of the calling thread into `frames`, the innermost first, and returns how many.
///
/// The first is where the function that calls `capture` returns to. A stack deeper than `frames` is cut at its outer end; what lies behind the count is
/// left as it was. Nothing on another stack (a signal's alternate stack, a coroutine's) and nothing deeper than 64 MiB is walked: 0.
///
/// Costs one or two nanoseconds a frame, no system call, no allocation, no lock, in thread-local destructors and signal handlers too. Only a thread's
/// first capture asks the system for the limits of its stack, which allocates and, on the main thread, reads a file: a thread whose signal handlers capture does [`prepare`] first.
#[inline(always)]
#[must_use = "the count says how much of `frames` holds addresses"]
pub fn capture(frames: &mut [u64]) -> usize {
    capture_from(machine::frame_pointer(), frames)
}

/// Asks the system for the limits of the calling thread's stack, so that a later [`capture`] need not. Any number of times; the later ones are free.
pub fn prepare() {
    let _known = bounds::top_of_stack_with(machine::stack_pointer());
}

/// The walk from whatever `frame_pointer` is.
#[inline(never)]
fn capture_from(frame_pointer: usize, frames: &mut [u64]) -> usize {
    let stack_pointer = machine::stack_pointer();
    let Some(top) = bounds::top_of_stack_with(stack_pointer) else { return 0 };
    // SAFETY: a thread's stack is readable from its stack pointer to its top (what the kernel has not mapped yet it maps at a touch), it stays so
    // while the thread runs, and this thread is busy here. The stack pointer only falls below `stack_pointer` in what is called from here.
    #[allow(unsafe_code, reason = "the region's contract is kept, see above")]
    unsafe {
        walk(frame_pointer, stack_pointer, top, frames)
    }
}

/// Follows the chain from the record at `start` as long as records lie in `low..high`.
///
/// # Safety
///
/// Every byte of `low..high` can be read during the call. `start` and the bytes themselves may be anything.
#[inline]
#[allow(unsafe_code, reason = "its argument is a region of raw memory")]
unsafe fn walk(start: usize, low: usize, high: usize, frames: &mut [u64]) -> usize {
    let Some(last) = high.checked_sub(RECORD_BYTES) else { return 0 };
    let (mut record, mut lowest, mut count) = (start, low, 0);
    for frame in frames {
        if record < lowest || record > last || !record.is_multiple_of(align_of::<usize>()) {
            break;
        }
        // SAFETY: `low <= record` and `record + RECORD_BYTES <= high` were just checked, and the caller vouches for that region.
        let (caller, return_address) = unsafe { machine::load_record(record) };
        if return_address < FIRST_CODE_ADDRESS {
            break;
        }
        *frame = return_address as u64;
        count += 1;
        // Strictly upwards: a chain that bites its tail ends, and no word is taken for two things.
        lowest = record + RECORD_BYTES;
        record = caller;
    }
    count
}

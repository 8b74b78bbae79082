//! Where the calling thread's stack lies, asked for once a thread.

use std::cell::Cell;

/// A stack pointer in `low..high` is on the thread's stack, and everything from it up to `high` can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    low: usize,
    high: usize,
}

impl Bounds {
    /// Not asked for yet.
    const UNKNOWN: Self = Self { low: 0, high: 0 };
    /// Holds no address: the system does not say, or is being asked right now.
    const NOWHERE: Self = Self { low: usize::MAX, high: usize::MAX };

    #[inline]
    fn holds(self, stack_pointer: usize) -> bool {
        self.low <= stack_pointer && stack_pointer < self.high
    }
}

thread_local! {
    // A constant without a destructor: no registration, no allocation, and alive until the thread is gone.
    static BOUNDS: Cell<Bounds> = const { Cell::new(Bounds::UNKNOWN) };
}

/// The end of the calling thread's stack, when `stack_pointer` is on it.
#[inline]
pub(super) fn top_of_stack_with(stack_pointer: usize) -> Option<usize> {
    BOUNDS
        .try_with(|bounds| {
            let mut known = bounds.get();
            if known == Bounds::UNKNOWN {
                known = learn(bounds);
            }
            known.holds(stack_pointer).then_some(known.high)
        })
        .ok()
        .flatten()
}

#[cold]
fn learn(bounds: &Cell<Bounds>) -> Bounds {
    // A signal handler that captures while the system is asked must not ask again: the C library holds a lock meanwhile.
    bounds.set(Bounds::NOWHERE);
    let known = ask_system().unwrap_or(Bounds::NOWHERE);
    bounds.set(known);
    known
}

/// How much of a stack is taken for its own, from the top. The main thread's stack grows, and its limit may be raised at run time or be absent, so that
/// later mappings (a coroutine's stack, say) lie inside what the C library calls its stack. The kernel keeps 128 MiB below the top free of them.
#[cfg(target_os = "linux")]
const DEEPEST_BYTES: usize = 64 << 20;

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "four calls of the C library")]
fn ask_system() -> Option<Bounds> {
    use std::mem::MaybeUninit;
    use std::ptr;

    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: always.
    let this_thread = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread's handle is valid, and the call initialises the attributes it gets room for.
    let error = unsafe { libc::pthread_getattr_np(this_thread, attributes.as_mut_ptr()) };
    if error != 0 {
        return None;
    }
    let (mut low, mut size) = (ptr::null_mut(), 0);
    // SAFETY: `attributes` was initialised by the successful call above; the two results have room.
    let error = unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size) };
    // SAFETY: initialised above, destroyed once and not used again.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    if error != 0 {
        return None;
    }
    let high = low.addr().checked_add(size)?;
    Some(Bounds { low: low.addr().max(high.saturating_sub(DEEPEST_BYTES)), high })
}

#[cfg(not(target_os = "linux"))]
fn ask_system() -> Option<Bounds> {
    None
}

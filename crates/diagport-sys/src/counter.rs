//! The processor's own counter: the cheapest clock there is, where it can be trusted.
//!
//! It counts at a steady rate that nobody states, so whoever reads it keeps pairs of it and a real clock. It is trusted where the processor
//! says that it never stops or changes pace, and the kernel, which has compared it over all processors, has chosen it as its own clock.

use std::sync::OnceLock;

/// Whether [`read`] counts at one steady rate on all processors. Found out once in a process, from the processor and the kernel.
#[must_use]
pub fn is_steady() -> bool {
    static STEADY: OnceLock<bool> = OnceLock::new();
    *STEADY.get_or_init(machine::is_steady)
}

/// The counter now; 0 always where there is none, and no use at all unless [`is_steady`]. Reads of one thread do not go back; those of two threads may be
/// apart by the time that a cache line takes between their processors.
#[inline(always)]
#[must_use]
pub fn read() -> u64 {
    machine::read()
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[allow(unsafe_code, reason = "the crate's purpose")]
mod machine {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Leaf "advanced power management", bit "invariant TSC" of EDX.
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;

    pub(super) fn is_steady() -> bool {
        let has_leaf = __cpuid(0x8000_0000).eax >= POWER_LEAF;
        let invariant = has_leaf && __cpuid(POWER_LEAF).edx & INVARIANT != 0;
        let chosen =
            std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        invariant && chosen.is_ok_and(|name| name.trim() == "tsc")
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 has the instruction, and Linux leaves it to programs.
        unsafe { _rdtsc() }
    }
}

#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
#[allow(unsafe_code, reason = "the crate's purpose")]
mod machine {
    /// The generic timer is steady and common to all processors by its architecture.
    pub(super) fn is_steady() -> bool {
        true
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        let count: u64;
        // SAFETY: Linux lets programs read the virtual counter; it touches no memory.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
        }
        count
    }
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux")))]
mod machine {
    pub(super) fn is_steady() -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_counts_on_at_one_rate() {
        if !is_steady() {
            println!("skipped: this machine's counter is not its kernel's clock");
            return;
        }
        let rate = || {
            let (begin, from) = (Instant::now(), read());
            while begin.elapsed() < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
            (read() - from) as f64 / begin.elapsed().as_secs_f64()
        };
        // A machine that is busy interrupts some measurements, not all.
        let rates: Vec<(f64, f64)> = (0..20).map(|_| (rate(), rate())).collect();
        let agree = rates.iter().any(|(first, second)| (first / second - 1.0).abs() < 0.01);
        assert!(agree, "counts a second: {rates:?}");
    }
}

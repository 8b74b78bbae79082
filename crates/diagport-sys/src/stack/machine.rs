//! The registers and the load, in assembly: the stack's words belong to other functions and may be uninitialised, which only assembly may read.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use std::arch::asm;

/// What the frame-pointer register holds in the function that this is inlined into.
#[inline(always)]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn frame_pointer() -> usize {
    let value;
    // SAFETY: copies one register into another and touches nothing else.
    #[allow(unsafe_code, reason = "no language construct names the register")]
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, rbp", out(reg) value, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mov {}, x29", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// The stack pointer in the function that this is inlined into.
#[inline(always)]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn stack_pointer() -> usize {
    let value;
    // SAFETY: copies one register into another and touches nothing else.
    #[allow(unsafe_code, reason = "no language construct names the register")]
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, rsp", out(reg) value, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mov {}, sp", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// The two words at `address`: the caller's frame pointer and the return address.
///
/// # Safety
///
/// The 16 bytes at `address` can be read. They need hold nothing in particular, and need not be initialised.
#[inline(always)]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(unsafe_code, reason = "its argument is a raw address")]
pub(super) unsafe fn load_record(address: usize) -> (usize, usize) {
    let caller;
    let return_address: usize;
    // SAFETY: two loads from memory that the caller vouches for; no store, no stack, no flags.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {caller}, [{address}]",
            "mov {return_address}, [{address} + 8]",
            address = in(reg) address,
            caller = out(reg) caller,
            return_address = lateout(reg) return_address,
            options(readonly, nostack, preserves_flags)
        );
    }
    // SAFETY: as above, both words in one load.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "ldp {caller}, {return_address}, [{address}]",
            address = in(reg) address,
            caller = lateout(reg) caller,
            return_address = lateout(reg) return_address,
            options(readonly, nostack, preserves_flags)
        );
    }
    // Code that signs return addresses keeps the signature above the 48 bits of an address.
    #[cfg(target_arch = "aarch64")]
    let return_address = return_address & 0x0000_ffff_ffff_ffff;
    (caller, return_address)
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) use elsewhere::{frame_pointer, load_record, stack_pointer};

/// No stack has these limits, so no walk starts.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod elsewhere {
    #[inline(always)]
    pub(in super::super) fn frame_pointer() -> usize {
        0
    }

    #[inline(always)]
    pub(in super::super) fn stack_pointer() -> usize {
        0
    }

    /// # Safety
    ///
    /// Reads nothing.
    #[allow(unsafe_code, reason = "the signature of the others")]
    pub(in super::super) unsafe fn load_record(_address: usize) -> (usize, usize) {
        (0, 0)
    }
}

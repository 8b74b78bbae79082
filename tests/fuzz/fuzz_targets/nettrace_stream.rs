//! Any bytes as a stream.
#![no_main]

use diagport_fuzz::reading;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The size of the pieces comes from the bytes, so that a finding is one file.
    let seed = bytes.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    reading::check_uses(&reading::check(bytes, 1 + seed % (bytes.len() + 1)));
});

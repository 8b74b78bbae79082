//! Hex, and the way to the recorded vectors.

#![allow(dead_code, reason = "every test binary takes its part")]

use std::path::PathBuf;

/// Folder of the recorded conversations.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/ipc"))
}

/// Bytes of a hex text; blanks and `|` only part it.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'|').collect();
    assert!(digits.len().is_multiple_of(2), "odd number of hex digits in {text:?}");
    digits
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).unwrap();
            u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("{pair:?} in {text:?} is not hex"))
        })
        .collect()
}

/// Lower-case hex, four bytes a group.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let groups: Vec<String> =
        bytes.chunks(4).map(|group| group.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    groups.join(" ")
}

/// A string as it stands on the wire.
pub(crate) fn wire_string(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let count = u32::try_from(units.len()).unwrap().to_le_bytes();
    count.into_iter().chain(units.into_iter().flat_map(u16::to_le_bytes)).collect()
}

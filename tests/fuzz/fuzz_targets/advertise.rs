//! The first bytes of a reverse connection.
#![no_main]

use diagport_codec::{Advertise, AdvertisePrefix, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let judged = Advertise::decode_prefix(bytes);
    match judged {
        Ok(AdvertisePrefix::Complete(advertise)) => {
            let again = advertise.encode();
            assert_eq!(again[..limits::ADVERTISE_BYTES - 2], bytes[..limits::ADVERTISE_BYTES - 2]);
            assert_eq!(Advertise::decode(&again), Ok(advertise));
        }
        Ok(AdvertisePrefix::Incomplete { needed_bytes }) => {
            assert_eq!(bytes.len() + needed_bytes, limits::ADVERTISE_BYTES);
        }
        Err(_) => assert!(bytes.len() >= 8),
    }
    // What is refused stays refused, and what is complete says the same, whatever follows.
    let longer = Advertise::decode_prefix(&[bytes, &[0; 40]].concat());
    if !matches!(judged, Ok(AdvertisePrefix::Incomplete { .. })) {
        assert_eq!(longer, judged);
    }
});

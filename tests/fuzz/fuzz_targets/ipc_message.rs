//! What arrives on a connection: messages one behind the other, in pieces.
#![no_main]

use diagport_codec::{IpcMessage, Prefix, decode_prefix, end_of_input};
use diagport_fuzz::requests;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    loop {
        let judged = decode_prefix(rest);
        check_growth(rest, &judged);
        let Ok(Prefix::Complete { message, consumed_bytes }) = judged else { break };
        let whole = &rest[..consumed_bytes];
        assert_eq!(IpcMessage::decode_exact(whole).as_ref(), Ok(&message));
        let again = message.encode().expect("what came off the wire fits it");
        assert_eq!(again[..18], whole[..18], "the reserved bytes are not kept");
        assert_eq!(again[20..], whole[20..]);
        requests::check(&message);
        rest = &rest[consumed_bytes..];
    }
});

/// A shorter look may want more bytes, but says nothing that the longer one does not.
fn check_growth(bytes: &[u8], judged: &Result<Prefix, diagport_codec::DecodeError>) {
    for length in [bytes.len() / 2, bytes.len().saturating_sub(1), bytes.len().min(19), bytes.len().min(20)] {
        match decode_prefix(&bytes[..length]) {
            Ok(Prefix::Incomplete { needed_bytes }) => {
                assert!(needed_bytes > 0);
                let _ = end_of_input(&bytes[..length]);
                if matches!(judged, Ok(Prefix::Complete { .. })) {
                    assert!(length + needed_bytes <= bytes.len());
                }
            }
            sooner => assert_eq!(&sooner, judged),
        }
    }
}

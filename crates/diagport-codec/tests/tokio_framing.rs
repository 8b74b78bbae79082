//! The `tokio_util` cover says what the incremental decoder says.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]
#![cfg(feature = "tokio-util")]

use bytes::BytesMut;
use diagport_codec::{DecodeError, IpcCodecError, IpcMessage, IpcMessageCodec, Request};
use tokio_util::codec::{Decoder, Encoder};

fn message(session_id: u64) -> IpcMessage {
    Request::StopTracing { session_id }.encode().unwrap()
}

// spec-test: IPC-HDR-5
#[test]
fn messages_come_out_as_their_last_byte_comes_in() {
    let mut wire = BytesMut::new();
    for session_id in [1, 2] {
        IpcMessageCodec.encode(message(session_id), &mut wire).unwrap();
    }
    let mut buffer = BytesMut::new();
    let mut seen = Vec::new();
    for (at, byte) in wire.iter().enumerate() {
        buffer.extend_from_slice(&[*byte]);
        if let Some(message) = IpcMessageCodec.decode(&mut buffer).unwrap() {
            seen.push((at + 1, message));
        }
    }
    assert_eq!(seen, [(28, message(1)), (56, message(2))]);
    assert!(IpcMessageCodec.decode_eof(&mut buffer).unwrap().is_none());
}

// spec-test: IPC-HDR-3, IPC-HDR-6
#[test]
fn strangers_and_cut_messages_are_errors() {
    let wire = message(1).encode().unwrap();
    let decode_error = |bytes: &[u8]| match IpcMessageCodec.decode_eof(&mut BytesMut::from(bytes)) {
        Err(IpcCodecError::Decode(error)) => error,
        other => panic!("{other:?}"),
    };
    let cut = DecodeError::PayloadTruncated { expected_bytes: 8, available_bytes: 7 };
    assert_eq!(decode_error(&wire[..27]), cut);
    assert_eq!(decode_error(&wire[..3]), DecodeError::HeaderTruncated { available_bytes: 3 });
    let mut buffer = BytesMut::from(&b"GET / HTTP/1.1\r\n\r\n\r\n"[..]);
    let error = IpcMessageCodec.decode(&mut buffer).unwrap_err();
    assert!(matches!(error, IpcCodecError::Decode(DecodeError::BadMagic)), "{error}");
}

//! The one mapping from decode errors to result codes.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use diagport_codec::{Command, DecodeError, HResult};

// spec-test: ERR-MAP-1, ERR-CODE-1
#[test]
fn every_decode_error_has_its_code() {
    let command = Command::new(9, 9);
    let field = "field";
    let (bad, unknown, fail) = (0x8013_1384, 0x8013_1385, 0x8000_4005);
    let unknown_magic = 0x8013_1386;
    let table = [
        (DecodeError::HeaderTruncated { available_bytes: 3 }, bad),
        (DecodeError::SizeBelowHeader { size: 19 }, bad),
        (DecodeError::BadMagic, unknown_magic),
        (DecodeError::PayloadTruncated { expected_bytes: 2, available_bytes: 1 }, bad),
        (DecodeError::BytesAfterMessage { extra_bytes: 1 }, bad),
        (DecodeError::UnknownCommand { command }, unknown),
        (DecodeError::NotAReply { command }, unknown),
        (DecodeError::EmptyPayload { command }, bad),
        (DecodeError::FieldTruncated { field, needed_bytes: 2, remaining_bytes: 1 }, bad),
        (DecodeError::CountTooLarge { field, count: 2, remaining_bytes: 1 }, bad),
        (DecodeError::UnterminatedString { field }, bad),
        (DecodeError::NullString { field }, bad),
        (DecodeError::EmptyString { field }, bad),
        (DecodeError::SessionType { value: 2 }, bad),
        (DecodeError::ZeroCircularBuffer, bad),
        (DecodeError::StreamFormat { value: 2 }, bad),
        (DecodeError::ProviderCount { count: 0 }, bad),
        (DecodeError::ProviderLevel { value: 6 }, bad),
        (DecodeError::BufferingMode { value: 2 }, bad),
        (DecodeError::NoTracepoint, bad),
        (DecodeError::EmptyTracepointName, fail),
        (DecodeError::TracepointNameTooLong { name_bytes: 437 }, fail),
        (DecodeError::DuplicateTracepointId { event_id: 7 }, fail),
        (DecodeError::BadAdvertiseMagic, unknown_magic),
    ];
    for (error, code) in table {
        assert_eq!(error.hresult(), HResult(code), "{error}");
        assert!(!error.to_string().is_empty());
    }
}

// spec-test: ERR-CODE-1
#[test]
fn codes_have_the_values_that_tools_know() {
    for (code, value) in [
        (HResult::OK, 0),
        (HResult::BAD_ENCODING, 0x8013_1384),
        (HResult::UNKNOWN_COMMAND, 0x8013_1385),
        (HResult::UNKNOWN_MAGIC, 0x8013_1386),
        (HResult::UNKNOWN_ERROR, 0x8013_1387),
        (HResult::NOT_SUPPORTED, 0x8013_1515),
        (HResult::FAIL, 0x8000_4005),
        (HResult::NOT_YET_AVAILABLE, 0x8013_135B),
        (HResult::RUNTIME_UNINITIALIZED, 0x8013_1371),
        (HResult::PROFILER_ALREADY_ACTIVE, 0x8013_136A),
        (HResult::INVALID_ARGUMENT, 0x8007_0057),
        (HResult::INSUFFICIENT_BUFFER, 0x8007_007A),
        (HResult::ENVVAR_NOT_FOUND, 0x8007_00CB),
    ] {
        assert_eq!(code.0, value);
        assert!(code.meaning().is_some(), "{code}");
        assert_eq!(code.is_ok(), value == 0);
    }
}

//! What is refused, with which error, and what is accepted beside it: every limit at its value and one past it.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod vectors;

use diagport_codec::{
    Command, DecodeError, EncodeError, HResult, IpcMessage, Prefix, ProcessInfo, ProcessInfoVersion, Reply,
    Request, RuntimeCookie, decode_environment, decode_prefix, end_of_input, limits,
};
use vectors::unhex;

fn decode(command: Command, payload: &[u8]) -> Result<Request, DecodeError> {
    Request::decode(&IpcMessage::new(command, payload.to_vec()))
}

fn check(name: &str, command: Command, payload: &str, expected: Option<DecodeError>) {
    assert_eq!(decode(command, &unhex(payload)).err(), expected, "{name}");
}

fn header(magic_tail: &str, size: u16) -> Vec<u8> {
    let mut bytes = b"DOTNET_IPC_V".to_vec();
    bytes.extend_from_slice(&unhex(magic_tail));
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&unhex("0400 3412"));
    bytes
}

// spec-test: IPC-HDR-2, IPC-HDR-3, IPC-HDR-5, IPC-HDR-6
#[test]
fn headers() {
    let incomplete = |needed_bytes| Ok(Prefix::Incomplete { needed_bytes });
    let nul = "3100";
    assert_eq!(decode_prefix(&[]), incomplete(20));
    assert_eq!(decode_prefix(&header(nul, 20)[..19]), incomplete(1));
    assert_eq!(decode_prefix(&header(nul, 21)), incomplete(1));
    assert_eq!(decode_prefix(&header(nul, u16::MAX)), incomplete(limits::MAX_PAYLOAD_BYTES));
    // The reserved word is ignored; what follows the message belongs to nobody.
    let mut two = header(nul, 20);
    two.extend_from_slice(&header(nul, 20));
    let message = IpcMessage::new(Command::PROCESS_INFO, Vec::new());
    assert_eq!(decode_prefix(&two), Ok(Prefix::Complete { message: message.clone(), consumed_bytes: 20 }));
    assert_eq!(IpcMessage::decode_exact(&two[..20]), Ok(message));
    assert_eq!(IpcMessage::decode_exact(&two), Err(DecodeError::BytesAfterMessage { extra_bytes: 20 }));
    // Size first, then all 14 bytes of the magic, both before any payload.
    assert_eq!(decode_prefix(&header("3200", 19)), Err(DecodeError::SizeBelowHeader { size: 19 }));
    assert_eq!(decode_prefix(&header("3200", u16::MAX)), Err(DecodeError::BadMagic));
    assert_eq!(decode_prefix(&header("3101", 20)), Err(DecodeError::BadMagic));
    // The end of the input.
    assert_eq!(end_of_input(&[]), DecodeError::HeaderTruncated { available_bytes: 0 });
    let cut = DecodeError::PayloadTruncated { expected_bytes: 5, available_bytes: 0 };
    assert_eq!(end_of_input(&header(nul, 25)), cut);
    assert_eq!(IpcMessage::decode_exact(&header(nul, 25)), Err(cut));
}

// spec-test: IPC-HDR-4
#[test]
fn the_largest_message_and_one_byte_more() {
    let message = |payload_bytes| IpcMessage::new(Command::OK_REPLY, vec![0; payload_bytes]).encode();
    assert_eq!(message(limits::MAX_PAYLOAD_BYTES).unwrap().len(), limits::MAX_MESSAGE_BYTES);
    let message_bytes = limits::MAX_MESSAGE_BYTES + 1;
    assert_eq!(message(limits::MAX_PAYLOAD_BYTES + 1), Err(EncodeError::MessageTooLarge { message_bytes }));
}

/// Every pair of set and id, without payload and with one: 131,072 messages.
// spec-test: IPC-REQ-2, IPC-REQ-3, IPC-REQ-4, IPC-CMD-1
#[test]
fn every_command_number_is_known_or_unknown_whatever_its_payload() {
    let no_payload = [
        Command::PROCESS_INFO,
        Command::PROCESS_INFO_2,
        Command::PROCESS_INFO_3,
        Command::RESUME_RUNTIME,
        Command::PROCESS_ENVIRONMENT,
        Command::DISABLE_PERF_MAP,
    ];
    for (set, id) in (0..=u8::MAX).flat_map(|set| (0..=u8::MAX).map(move |id| (set, id))) {
        let command = Command::new(set, id);
        let (empty, junk) = (decode(command, &[]), decode(command, &[0xFF; 3]));
        if set == 0xFF || command.name().is_none() {
            let unknown = Err(DecodeError::UnknownCommand { command });
            assert_eq!((&empty, &junk), (&unknown, &unknown), "{command}");
        } else if no_payload.contains(&command) {
            assert_eq!(empty.as_ref().map(Request::command), Ok(command));
            assert_eq!(empty, junk, "{command}: the payload is ignored");
        } else {
            assert_eq!(empty, Err(DecodeError::EmptyPayload { command }));
            let code = HResult::from(&junk.unwrap_err());
            assert_eq!(code, HResult::BAD_ENCODING, "{command}");
        }
    }
    assert_eq!(Command::KNOWN.len(), 23);
}

/// A string field's ways to be wrong, shown on the startup hook.
// spec-test: IPC-STR-1, IPC-STR-2, IPC-STR-3, IPC-STR-4, IPC-STR-5, IPC-FIELD-1, IPC-FIELD-2
#[test]
fn strings() {
    let field = "startupHookPath";
    for (payload, expected) in [
        ("00000000", Ok(None)),
        ("00000000 ff", Ok(None)),
        ("01000000 0000", Ok(Some(""))),
        ("02000000 4100 0000", Ok(Some("A"))),
        ("02000000 4100 0000 ffff", Ok(Some("A"))),
        ("04000000 4100 0000 4200 0000", Ok(Some("A"))),
        ("02000000 00d8 0000", Ok(Some("\u{FFFD}"))),
        ("03000000 00de 4100 0000", Ok(Some("\u{FFFD}A"))),
        ("03000000 3dd8 00de 0000", Ok(Some("😀"))),
        ("01000000 4100", Err(DecodeError::UnterminatedString { field })),
        ("02000000 0000 4100", Err(DecodeError::UnterminatedString { field })),
        ("01000000 0001", Err(DecodeError::UnterminatedString { field })),
        ("01000000 00", Err(DecodeError::CountTooLarge { field, count: 1, remaining_bytes: 1 })),
        ("00000080 0000", Err(DecodeError::CountTooLarge { field, count: 0x8000_0000, remaining_bytes: 2 })),
        ("01000080 0000", Err(DecodeError::CountTooLarge { field, count: 0x8000_0001, remaining_bytes: 2 })),
        ("ffffffff", Err(DecodeError::CountTooLarge { field, count: u32::MAX, remaining_bytes: 0 })),
        ("000000", Err(DecodeError::FieldTruncated { field, needed_bytes: 4, remaining_bytes: 3 })),
    ] {
        let path = decode(Command::APPLY_STARTUP_HOOK, &unhex(payload));
        let expected =
            expected.map(|path: Option<&str>| Request::ApplyStartupHook { path: path.map(str::to_owned) });
        assert_eq!(path, expected, "{payload}");
    }
}

// spec-test: DUMP-REQ-2, PROF-REQ-2
#[test]
fn dump_and_profiler() {
    let dump = Command::GENERATE_CORE_DUMP_2;
    check("any type, any flags", dump, "01000000 0000 ffffffff ffffffff", None);
    let null = DecodeError::NullString { field: "dumpName" };
    check("null name", dump, "00000000 01000000 00000000", Some(null));
    let cut = DecodeError::FieldTruncated { field: "flags", needed_bytes: 4, remaining_bytes: 3 };
    check("a cut field outranks the null name", dump, "00000000 01000000 000000", Some(cut));
    let attach = Command::ATTACH_PROFILER;
    let head = format!("e8030000 {} 02000000 5000 0000", "11".repeat(16));
    let too_large = |count| DecodeError::CountTooLarge { field: "clientData", count, remaining_bytes: 2 };
    check("fewer data than there are", attach, &format!("{head} 01000000 aabb"), None);
    check("as many", attach, &format!("{head} 02000000 aabb"), None);
    check("one more", attach, &format!("{head} 03000000 aabb"), Some(too_large(3)));
    check("very many more", attach, &format!("{head} ffffffff aabb"), Some(too_large(u32::MAX)));
}

// spec-test: PROC-INFO-5
#[test]
fn a_long_command_line_is_cut_at_a_code_point() {
    for (name, unit) in [("one unit", "x"), ("two units", "😀"), ("three bytes", "€")] {
        for version in ProcessInfoVersion::ALL {
            let info = ProcessInfo {
                process_id: 1,
                cookie: RuntimeCookie::from_bytes([1; 16]),
                command_line: format!("/bin/x{}", unit.repeat(40_000)),
                operating_system: "Linux".into(),
                architecture: "x64".into(),
                entry_assembly: Some("x".into()),
                clr_product_version: None,
                portable_rid: None,
            };
            let payload = info.encode(version).unwrap();
            let spare_bytes = limits::MAX_PAYLOAD_BYTES - payload.len();
            assert!(spare_bytes < 4, "{name}, {version:?}: {spare_bytes} bytes unused");
            let read = ProcessInfo::decode(version, &payload).unwrap();
            assert!(info.command_line.starts_with(&read.command_line), "{name}, {version:?}");
            assert_eq!(read.operating_system, "Linux");
            assert!(Reply::Ok { payload }.encode().encode().is_ok());
        }
    }
}

/// 20 header bytes, 24 of id and cookie, 6 for each empty text, 4 + 2(n + 1) for a text of n units.
// spec-test: PROC-INFO-5
#[test]
fn a_process_whose_other_texts_do_not_fit_has_no_reply() {
    let encode = |units| {
        let info = ProcessInfo {
            process_id: 1,
            cookie: RuntimeCookie::from_bytes([1; 16]),
            command_line: "cut away".into(),
            operating_system: "x".repeat(units),
            architecture: String::new(),
            entry_assembly: None,
            clr_product_version: None,
            portable_rid: None,
        };
        info.encode(ProcessInfoVersion::V1).map(|payload| limits::HEADER_BYTES + payload.len())
    };
    assert_eq!(encode(32_736), Ok(65_534));
    assert_eq!(encode(32_737), Err(EncodeError::MessageTooLarge { message_bytes: 65_536 }));
}

#[test]
fn a_long_error_text_is_cut_so_that_the_reply_fits() {
    let reply = Reply::Error { hresult: HResult::FAIL, message: Some("x".repeat(70_000)) };
    let bytes = reply.encode().encode().unwrap();
    assert!(bytes.len() >= limits::MAX_MESSAGE_BYTES - 1, "{}", bytes.len());
    let Ok(Reply::Error { message: Some(text), .. }) =
        Reply::decode(&IpcMessage::decode_exact(&bytes).unwrap())
    else {
        panic!("no text");
    };
    assert!(text.len() > 32_000 && text.bytes().all(|byte| byte == b'x'));
}

#[test]
fn an_environment_block_that_lies_about_its_count() {
    let field = "environment";
    for (block, count, remaining_bytes) in [("ffffffff 01000000 0000", u32::MAX, 6), ("01000000", 1, 0)] {
        let error = DecodeError::CountTooLarge { field, count, remaining_bytes };
        assert_eq!(decode_environment(&unhex(block)), Err(error));
    }
}

//! Payloads: two bytes say of which command or reply, the rest is the payload, so that no header stands in the way.
#![no_main]

use std::fmt::Debug;

use diagport_codec::{
    Command, DecodeError, EnvironmentReply, IpcMessage, ProcessInfo, ProcessInfoVersion, decode_environment,
    decode_result_code, decode_session_id, encode_environment,
};
use diagport_fuzz::requests;
use libfuzzer_sys::fuzz_target;

/// A command set that no command has: the payloads of successful replies. The id says which.
const REPLIES: u8 = 0xF0;

fuzz_target!(|bytes: &[u8]| {
    let Some(([set, id], payload)) = bytes.split_first_chunk() else { return };
    if *set == REPLIES {
        reply(*id, payload);
    } else {
        requests::check(&IpcMessage::new(Command::new(*set, *id), payload.to_vec()));
    }
});

fn reply(id: u8, payload: &[u8]) {
    match id {
        0 => process_info(ProcessInfoVersion::V1, payload),
        1 => process_info(ProcessInfoVersion::V2, payload),
        2 => process_info(ProcessInfoVersion::V3, payload),
        3 => {
            let Ok(entries) = decode_environment(payload) else { return };
            let named: Vec<String> = entries.into_iter().filter(|entry| entry.contains('=')).collect();
            assert_eq!(decode_environment(&encode_environment(&named)), Ok(named));
        }
        4 => same(EnvironmentReply::decode(payload), |reply| EnvironmentReply::decode(&reply.encode())),
        5 => drop(decode_session_id(payload)),
        _ => drop(decode_result_code(payload)),
    }
}

fn process_info(version: ProcessInfoVersion, payload: &[u8]) {
    let Ok(info) = ProcessInfo::decode(version, payload) else { return };
    // A payload may be larger than a message: then the command line is cut, or the other texts alone do not fit.
    let Ok(again) = info.encode(version) else { return };
    let read = ProcessInfo::decode(version, &again).expect("what encodes decodes");
    assert!(info.command_line.starts_with(&read.command_line));
    assert_eq!(read, ProcessInfo { command_line: read.command_line.clone(), ..info });
}

fn same<T: Debug + PartialEq>(decoded: Result<T, DecodeError>, again: impl Fn(&T) -> Result<T, DecodeError>) {
    if let Ok(value) = decoded {
        assert_eq!(again(&value).as_ref(), Ok(&value));
    }
}

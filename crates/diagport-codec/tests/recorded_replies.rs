//! Every reply and every Advertise that real runtimes were recorded to send decodes, down to the fields, and encodes back to the same bytes.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod vectors;

use std::fs;
use std::path::{Path, PathBuf};

use diagport_codec::{
    Advertise, AdvertisePrefix, EnvironmentReply, HResult, IpcMessage, Prefix, ProcessInfo,
    ProcessInfoVersion, Reply, Request, decode_environment, decode_prefix, decode_result_code,
    decode_session_id, encode_environment, encode_session_id, limits,
};

/// Files in the folder: a wrong path must not pass as "all zero of them are right".
const REPLIES: usize = 47;
const ADVERTISED: usize = 16;

fn recorded(extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(vectors::folder())
        .expect("tests/vectors/ipc")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// The message at the start, and what follows it.
fn split(bytes: &[u8]) -> (IpcMessage, &[u8]) {
    match decode_prefix(bytes).unwrap() {
        Prefix::Complete { message, consumed_bytes } => (message, &bytes[consumed_bytes..]),
        Prefix::Incomplete { .. } => panic!("a cut message"),
    }
}

/// The payload of a success again, by way of what it means.
fn payload_again(request: &Request, payload: &[u8]) -> Vec<u8> {
    match request {
        Request::ProcessInfo(version) => {
            ProcessInfo::decode(*version, payload).unwrap().encode(*version).unwrap()
        }
        Request::ProcessEnvironment => EnvironmentReply::decode(payload).unwrap().encode(),
        Request::StopTracing { session_id } => {
            assert_eq!(decode_session_id(payload), Ok(*session_id));
            encode_session_id(*session_id)
        }
        _ => decode_result_code(payload).unwrap().0.to_le_bytes().to_vec(),
    }
}

fn check_reply(path: &Path) {
    let shown = path.display();
    let (bytes, asked) = (fs::read(path).unwrap(), fs::read(path.with_extension("c2s")).unwrap());
    let request = Request::decode(&IpcMessage::decode_exact(&asked).unwrap()).unwrap();
    let (message, rest) = split(&bytes);
    let reply = Reply::decode(&message).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let (again, rest_again) = match &reply {
        Reply::Ok { payload } if request == Request::ProcessEnvironment => {
            let announced = EnvironmentReply::decode(payload).unwrap();
            assert_eq!(announced, EnvironmentReply::announcing(rest).unwrap(), "{shown}");
            let entries = decode_environment(rest).unwrap();
            assert!(entries.iter().all(|entry| entry.contains('=')), "{shown}: {entries:?}");
            (Reply::Ok { payload: payload_again(&request, payload) }, encode_environment(entries))
        }
        Reply::Ok { payload } => (Reply::Ok { payload: payload_again(&request, payload) }, Vec::new()),
        Reply::Error { .. } => (reply.clone(), Vec::new()),
    };
    let again = [again.encode().encode().unwrap(), rest_again].concat();
    assert_eq!(vectors::hex(&again), vectors::hex(&bytes), "{shown}: {reply:?} to {request:?}");
}

// spec-test: IPC-HDR-1, ERR-REPLY-1, ERR-REPLY-2, ERR-REPLY-3, EP-REPLY-1, PROC-INFO-1, PROC-ENV-1, PROC-ENV-2
#[test]
fn recorded_replies_encode_back_to_the_same_bytes() {
    let files = recorded("s2c");
    assert_eq!(files.len(), REPLIES);
    files.iter().for_each(|path| check_reply(path));
}

fn reply(name: &str) -> Reply {
    let bytes = fs::read(vectors::folder().join(name)).unwrap();
    Reply::decode(&split(&bytes).0).unwrap()
}

#[test]
fn recorded_replies_mean_what_happened() {
    let Reply::Ok { payload } = reply("client-info/00.s2c") else { panic!("no process info") };
    let info = ProcessInfo::decode(ProcessInfoVersion::V3, &payload).unwrap();
    assert_eq!((info.operating_system.as_str(), info.architecture.as_str()), ("Linux", "x64"));
    assert_eq!(info.entry_assembly.as_deref(), Some("epload"));
    assert_eq!(info.portable_rid.as_deref(), Some("linux-x64"));
    assert_eq!(reply("client-resume/00.s2c"), Reply::success());
    assert_eq!(reply("client-hook/00.s2c"), Reply::error(HResult(0x8007_0057)));
    let Reply::Error { hresult, message: Some(text) } = reply("dump-bad-path/00.s2c") else {
        panic!("no error with text")
    };
    assert_eq!(hresult, HResult(0x8000_4005));
    assert!(text.starts_with("[createdump] Could not create output file '/nonexistent/x.dmp'"), "{text}");
}

/// A runtime's side of a reverse connection up to the stream: the Advertise, then the reply to what the tool asked.
// spec-test: ADV-1, ADV-2, ADV-3
#[test]
fn recorded_advertises_encode_back_to_the_same_bytes() {
    let files = recorded("adv");
    assert_eq!(files.len(), ADVERTISED);
    for path in &files {
        let (bytes, shown) = (fs::read(path).unwrap(), path.display());
        let Ok(AdvertisePrefix::Complete(advertise)) = Advertise::decode_prefix(&bytes) else {
            panic!("{shown}: no Advertise")
        };
        let (head, rest) = bytes.split_at(limits::ADVERTISE_BYTES);
        assert_eq!(vectors::hex(&advertise.encode()), vectors::hex(head), "{shown}: {advertise:?}");
        let reply = Reply::decode(&IpcMessage::decode_exact(rest).unwrap()).unwrap();
        let again = reply.encode().encode().unwrap();
        assert_eq!(vectors::hex(&again), vectors::hex(rest), "{shown}: {reply:?}");
        // One runtime, one identity: the same on each of its connections.
        let first = fs::read(path.with_file_name("00.adv")).unwrap();
        assert_eq!(first[..limits::ADVERTISE_BYTES], *head, "{shown}");
    }
}

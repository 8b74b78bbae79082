//! 190 requests that three real runtimes answered: where the codec alone decides, it decides as .NET 11.0.0.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod vectors;

use std::collections::BTreeMap;
use std::fs;

use diagport_codec::{
    Command, DecodeError, HResult, IpcMessage, Prefix, Reply, Request, decode_prefix, end_of_input,
};
use serde_json::Value;

const REFERENCE: &str = "11.0.0";

/// What the codec says to a request as it was sent.
#[derive(Debug, PartialEq, Eq, Clone)]
enum Verdict {
    /// A request: what happens to it is the server's business.
    Request,
    /// Refused by the codec.
    Refused(HResult),
    /// More bytes are awaited.
    Waiting,
}

fn judge(bytes: &[u8], half_close: bool) -> Verdict {
    let decoded = match decode_prefix(bytes) {
        Ok(Prefix::Complete { message, .. }) => Request::decode(&message),
        Ok(Prefix::Incomplete { .. }) if half_close => Err(end_of_input(bytes)),
        Ok(Prefix::Incomplete { .. }) => return Verdict::Waiting,
        Err(error) => Err(error),
    };
    decoded.map_or_else(|error: DecodeError| Verdict::Refused(error.hresult()), |_| Verdict::Request)
}

/// What the reference's reply says about the codec's part: codes that no handler gives are the codec's.
fn expected(line: &Value) -> Option<Verdict> {
    let answer = &line["replies"][REFERENCE];
    let reply = answer["reply"].as_str().unwrap();
    let head = vectors::unhex(reply.split('<').next().unwrap());
    if head.is_empty() {
        return None;
    }
    assert!(head.len() >= 20, "{}: reply {reply}", line["name"]);
    match Reply::decode(&IpcMessage::new(Command::new(head[16], head[17]), head[20..].to_vec())) {
        Ok(Reply::Error { hresult, .. })
            if [HResult::BAD_ENCODING, HResult::UNKNOWN_COMMAND, HResult::UNKNOWN_MAGIC]
                .contains(&hresult) =>
        {
            Some(Verdict::Refused(hresult))
        }
        Ok(_) => Some(Verdict::Request),
        // ProcessInfo with a payload: the runtime sends memory of its own, which is no reply.
        Err(_) => None,
    }
}

fn exceptions() -> BTreeMap<String, (Verdict, String)> {
    let text = fs::read_to_string(vectors::folder().join("battery-exceptions.json")).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    list.iter()
        .map(|entry| {
            let verdict = match entry["codec"].as_str().unwrap() {
                "request" => Verdict::Request,
                "waiting" => Verdict::Waiting,
                code => Verdict::Refused(HResult(u32::from_str_radix(&code[2..], 16).unwrap())),
            };
            let reason = entry["reason"].as_str().unwrap().to_owned();
            assert!(reason.len() > 20, "{entry}: a reason is a sentence");
            (entry["name"].as_str().unwrap().to_owned(), (verdict, reason))
        })
        .collect()
}

// spec-test: IPC-HDR-2, IPC-HDR-3, IPC-HDR-6, IPC-REQ-2, IPC-REQ-3, IPC-STR-5, EP-CT-3, EP-CT-7, EP-PROV-2, EP-PROV-4, ERR-MAP-1
#[test]
fn the_codec_decides_as_the_reference_runtime() {
    let text = fs::read_to_string(vectors::folder().join("battery.jsonl")).unwrap();
    let mut exceptions = exceptions();
    let mut differences = Vec::new();
    let mut lines = 0;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        lines += 1;
        let name = line["name"].as_str().unwrap();
        let bytes = vectors::unhex(line["request"].as_str().unwrap());
        let verdict = judge(&bytes, line["half_close"].as_bool().unwrap());
        let expected = expected(&line);
        match exceptions.remove(name) {
            Some((_, _)) if expected.as_ref() == Some(&verdict) => {
                differences.push(format!("{name}: the exception is not needed any more"));
            }
            Some((excepted, reason)) if excepted != verdict => {
                differences.push(format!("{name}: {verdict:?}, the exception says {excepted:?} ({reason})"));
            }
            Some(_) => {}
            None if expected.as_ref() != Some(&verdict) => {
                differences.push(format!("{name}: {verdict:?}, {REFERENCE} says {expected:?}"));
            }
            None => {}
        }
    }
    differences.extend(exceptions.keys().map(|name| format!("{name}: an exception for no line")));
    assert_eq!(lines, 190);
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

//! Inputs to start from: the recorded messages and streams that the tests use, in the form each target reads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

const HEADER_BYTES: usize = 20;
const MAGIC: &[u8] = b"DOTNET_IPC_V1\0";
/// What the target `ipc_payload` takes for the command set of reply payloads, and its ids.
const REPLIES: u8 = 0xF0;
const REPLY_KINDS: u8 = 7;
/// Streams follow some replies; so much is a reply.
const MAX_REPLY_BYTES: usize = 4096;
const PORT_TEXTS: [&str; 6] = [
    "/tmp/a.sock,connect,suspend;/tmp/b.sock,listen,nosuspend",
    "a,LISTEN,xsuspend;;,b,,nosuspend",
    "/tmp/tool.sock,connect",
    "dotnet-diagnostic-4242-1789398-socket",
    "dotnet-diagnostic-dsrouter-4242-1789398-socket",
    "dotnet-diagnostic-dsrouter-4242",
];

/// Fills `folder` with the seeds of `target` that have at most `most_bytes`, and with nothing else.
pub(super) fn write(target: &str, vectors: &Path, most_bytes: usize, folder: &Path) -> anyhow::Result<()> {
    let seeds = match target {
        "advertise" => files(&vectors.join("ipc"), &["adv"])?,
        "ipc_message" => messages(vectors)?,
        "ipc_payload" => messages(vectors)?.iter().flat_map(|message| payloads(message)).collect(),
        "nettrace_stream" => {
            let mut streams = files(&vectors.join("nettrace"), &["nettrace", "netperf"])?;
            streams.extend(files(&vectors.join("loss"), &["nettrace"])?);
            streams
        }
        "port_text" => PORT_TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect(),
        // The rest make their inputs into streams or calls themselves.
        _ => Vec::new(),
    };
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (number, seed) in seeds.iter().filter(|seed| seed.len() <= most_bytes).enumerate() {
        fs::write(folder.join(number.to_string()), seed).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// All that both sides said, one message or more each.
fn messages(vectors: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut messages = files(&vectors.join("ipc"), &["c2s", "s2c"])?;
    let battery = fs::read_to_string(vectors.join("ipc/battery.jsonl")).context("battery.jsonl")?;
    for line in battery.lines() {
        let case: Value = serde_json::from_str(line).context("battery.jsonl")?;
        messages.extend(case["request"].as_str().and_then(unhex));
    }
    Ok(messages)
}

/// The payload of a message behind its command, and behind each kind of reply.
fn payloads(message: &[u8]) -> Vec<Vec<u8>> {
    let Some((header, payload)) = message.split_at_checked(HEADER_BYTES) else { return Vec::new() };
    if !header.starts_with(MAGIC) {
        return Vec::new();
    }
    let mut seeds = vec![[&header[16..18], payload].concat()];
    if header[16] == 0xFF && payload.len() <= MAX_REPLY_BYTES {
        seeds.extend((0..REPLY_KINDS).map(|kind| [&[REPLIES, kind], payload].concat()));
    }
    seeds
}

/// The files below `folder` with one of these extensions, in the order of their names.
fn files(folder: &Path, extensions: &[&str]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        paths.sort();
        for path in paths {
            let extension = path.extension().unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if extensions.iter().any(|wanted| extension == *wanted) {
                found.push(fs::read(&path).with_context(|| path.display().to_string())?);
            }
        }
    }
    Ok(found)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, least: usize) {
        let folder = std::env::temp_dir().join(format!("diagport-seeds-{target}-{}", std::process::id()));
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
        write(target, &vectors, 64 << 10, &folder).unwrap();
        let count = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert!(count >= least, "{target}: {count} seeds");
    }

    #[test]
    fn the_vectors_give_seeds() {
        check("advertise", 10);
        check("ipc_message", 100);
        check("ipc_payload", 100);
        check("nettrace_stream", 20);
        check("port_text", PORT_TEXTS.len());
        check("nettrace_round_trip", 0);
    }

    #[test]
    fn a_message_gives_its_payload() {
        let request = [MAGIC, &[22, 0, 2, 1, 0, 0], &[7, 8]].concat();
        assert_eq!(payloads(&request), [[2, 1, 7, 8]]);
        assert_eq!(payloads(&request[..19]), [[0_u8; 0]; 0]);
        let reply = [MAGIC, &[22, 0, 0xFF, 0, 0, 0], &[7, 8]].concat();
        assert_eq!(payloads(&reply).len(), 1 + usize::from(REPLY_KINDS));
        assert_eq!(unhex("0aff"), Some(vec![10, 255]));
    }
}

//! Every request the released tools were seen to send decodes, and encodes back to the same bytes.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod vectors;

use std::fs;
use std::path::{Path, PathBuf};

use diagport_codec::{
    BufferingMode, CollectTracing, CollectTracingVersion, Command, DumpFlags, DumpType,
    GenerateCoreDumpVersion, IpcMessage, ProcessInfoVersion, Request, SessionOutput, StackWalk, StreamFormat,
    limits,
};

/// Requests in the folder: a wrong path must not pass as "all zero of them are right".
const RECORDED: usize = 72;

fn recorded() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(vectors::folder())
        .expect("tests/vectors/ipc")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c2s"))
        .collect();
    files.sort();
    files
}

fn check(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let shown = path.display();
    let message = IpcMessage::decode_exact(&bytes).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let request = Request::decode(&message).unwrap_or_else(|error| panic!("{shown}: {error}"));
    assert_eq!(request.command(), message.command, "{shown}");
    let again = request.encode().and_then(|message| message.encode());
    let again = again.unwrap_or_else(|error| panic!("{shown}: {request:?}: {error}"));
    assert_eq!(vectors::hex(&again), vectors::hex(&bytes), "{shown}: {request:?}");
}

// spec-test: IPC-HDR-1, IPC-REQ-1, EP-CT-1, EP-PROV-1, IPC-STR-1
#[test]
fn recorded_requests_encode_back_to_the_same_bytes() {
    let files = recorded();
    assert_eq!(files.len(), RECORDED);
    files.iter().for_each(|path| check(path));
}

fn request(name: &str) -> Request {
    let bytes = fs::read(vectors::folder().join(name)).unwrap();
    Request::decode(&IpcMessage::decode_exact(&bytes).unwrap()).unwrap()
}

fn collect(name: &str) -> CollectTracing {
    match request(name) {
        Request::CollectTracing(request) => request,
        other => panic!("{name} is {other:?}"),
    }
}

/// What the tools' everyday commands ask for: version, MB, stacks, mode, rundown keyword, provider names.
#[test]
fn everyday_sessions_mean_what_the_tools_were_told() {
    use CollectTracingVersion::{V2, V6};
    use {BufferingMode::*, StackWalk::*};
    let default_rundown = limits::DEFAULT_RUNDOWN_KEYWORD;
    for (name, version, megabytes, stacks, mode, rundown, provider) in [
        ("trace-ctrl-c/00.c2s", V2, 256, On, Drop, default_rundown, "Peer-Load"),
        ("trace-args/00.c2s", V2, 256, On, Drop, 0, "Peer-Load"),
        ("trace-drop-explicit/00.c2s", V2, 256, On, Drop, default_rundown, "Peer-Load"),
        ("trace-block/00.c2s", V6, 1, On, Block, default_rundown, "Peer-Load"),
        ("client-collect-slow/00.c2s", V6, 1, Off, Block, 0, "Peer-Load"),
        (
            "trace-profile-gc-verbose/00.c2s",
            V2,
            256,
            On,
            Drop,
            default_rundown,
            "Microsoft-Windows-DotNETRuntime",
        ),
    ] {
        let request = collect(name);
        let names: Vec<&str> = request.providers.iter().map(|provider| provider.name.as_str()).collect();
        let output = SessionOutput::Streaming {
            circular_buffer_mb: megabytes,
            format: StreamFormat::NetTrace,
            stack_walk: stacks,
            buffering_mode: mode,
        };
        assert_eq!(
            (request.version, &request.output, request.rundown_keyword, names.as_slice()),
            (version, &output, rundown, [provider].as_slice()),
            "{name}"
        );
    }
    let arguments = &collect("trace-args/00.c2s").providers[0].arguments;
    assert_eq!(arguments.as_deref(), Some("a=b;c=\"d;e=f\""));
}

#[test]
fn other_recorded_requests_mean_what_the_tools_were_told() {
    assert_eq!(request("client-info/00.c2s"), Request::ProcessInfo(ProcessInfoVersion::V3));
    assert_eq!(request("client-env/00.c2s"), Request::ProcessEnvironment);
    assert_eq!(request("client-resume/00.c2s"), Request::ResumeRuntime);
    assert_eq!(request("client-perfmap/00.c2s"), Request::EnablePerfMap { kind: 3 });
    assert_eq!(
        request("client-setenv/00.c2s"),
        Request::SetEnvironmentVariable { name: Some("A_NAME".into()), value: Some("a value".into()) }
    );
    assert_eq!(
        request("client-hook/00.c2s"),
        Request::ApplyStartupHook { path: Some("/nonexistent/hook.dll".into()) }
    );
    let Request::GenerateCoreDump(dump) = request("dump-mini/00.c2s") else { panic!("no dump") };
    assert_eq!((dump.version, dump.dump_type), (GenerateCoreDumpVersion::V3, DumpType::NORMAL));
    assert_eq!(dump.flags, DumpFlags::NONE);
    assert_eq!(request("trace-default/02.c2s").command(), Command::STOP_TRACING);
}

//! One message of each kind, byte for byte, in both directions.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod vectors;

use diagport_codec::{
    Advertise, AdvertisePrefix, AttachProfiler, BufferingMode, CollectTracing, CollectTracingVersion,
    DecodeError, DumpFlags, DumpType, EnvironmentReply, EventFilter, FilterSense, GenerateCoreDump,
    GenerateCoreDumpVersion, Guid, HResult, IpcMessage, ProcessInfo, ProcessInfoVersion, ProviderRequest,
    Reply, Request, RuntimeCookie, SessionOutput, StackWalk, StartupProfiler, StreamFormat, TracepointConfig,
    TracepointSet, decode_environment, decode_result_code, decode_session_id, encode_environment, limits,
};
use vectors::{hex, unhex};

const MAGIC: &str = "444f544e 45545f49 50435f56 3100";
/// `"P"` and `"P-é"` as they stand on the wire.
const P: &str = "02000000 5000 0000";
const P_E: &str = "04000000 5000 2d00 e900 0000";

fn check(name: &str, request: &Request, golden: &str) {
    let golden = unhex(&format!("{MAGIC} {golden}"));
    let bytes = request.encode().and_then(|message| message.encode()).unwrap();
    assert_eq!(hex(&bytes), hex(&golden), "{name}: encode");
    let message = IpcMessage::decode_exact(&golden).unwrap();
    assert_eq!(Request::decode(&message).as_ref(), Ok(request), "{name}: decode");
}

fn guid() -> Guid {
    Guid::from_bytes(std::array::from_fn(|byte| u8::try_from(byte).unwrap()))
}

// spec-test: IPC-HDR-1, IPC-CMD-1, PROC-SET-1, PROC-PERF-1, PROC-HOOK-1
#[test]
fn process_requests() {
    check("info", &Request::ProcessInfo(ProcessInfoVersion::V1), "1400 0400 0000");
    check("info2", &Request::ProcessInfo(ProcessInfoVersion::V2), "1400 0404 0000");
    check("info3", &Request::ProcessInfo(ProcessInfoVersion::V3), "1400 0408 0000");
    check("resume", &Request::ResumeRuntime, "1400 0401 0000");
    check("environment", &Request::ProcessEnvironment, "1400 0402 0000");
    let set = Request::SetEnvironmentVariable { name: Some("P".into()), value: Some("P-é".into()) };
    check("set", &set, &format!("2800 0403 0000 | {P} | {P_E}"));
    let unset = Request::SetEnvironmentVariable { name: Some(String::new()), value: None };
    check("unset", &unset, "1e00 0403 0000 | 01000000 0000 | 00000000");
    check("perf map", &Request::EnablePerfMap { kind: 3 }, "1800 0405 0000 | 03000000");
    check("perf map off", &Request::DisablePerfMap, "1400 0406 0000");
    let hook = Request::ApplyStartupHook { path: Some("P".into()) };
    check("hook", &hook, &format!("1c00 0407 0000 | {P}"));
    check("null hook", &Request::ApplyStartupHook { path: None }, "1800 0407 0000 | 00000000");
}

// spec-test: DUMP-REQ-1, PROF-REQ-1, PROF-REQ-3, IPC-GUID-1
#[test]
fn dump_and_profiler_requests() {
    for (version, id) in [
        (GenerateCoreDumpVersion::V1, "01"),
        (GenerateCoreDumpVersion::V2, "02"),
        (GenerateCoreDumpVersion::V3, "03"),
    ] {
        let dump = GenerateCoreDump {
            version,
            path: "P".into(),
            dump_type: DumpType::FULL,
            flags: DumpFlags(DumpFlags::LOGGING.0 | DumpFlags::CRASH_REPORT.0),
        };
        let golden = format!("2400 01{id} 0000 | {P} | 04000000 | 05000000");
        check(id, &Request::GenerateCoreDump(dump), &golden);
    }
    let attach = Request::AttachProfiler(AttachProfiler {
        attach_timeout_ms: 1000,
        profiler_guid: guid(),
        profiler_path: Some("P".into()),
        client_data: vec![0xAA, 0xBB],
    });
    let golden =
        format!("3600 0301 0000 | e8030000 | 00010203 04050607 08090a0b 0c0d0e0f | {P} | 02000000 | aabb");
    check("attach", &attach, &golden);
    let startup =
        Request::StartupProfiler(StartupProfiler { profiler_guid: guid(), profiler_path: Some("P".into()) });
    let golden = format!("2c00 0302 0000 | 00010203 04050607 08090a0b 0c0d0e0f | {P}");
    check("startup", &startup, &golden);
    assert_eq!(guid().to_string(), "03020100-0504-0706-0809-0a0b0c0d0e0f");
}

fn session(
    version: CollectTracingVersion,
    rundown_keyword: u64,
    stack_walk: StackWalk,
    mode: BufferingMode,
) -> CollectTracing {
    CollectTracing {
        version,
        output: SessionOutput::Streaming {
            circular_buffer_mb: 256,
            format: StreamFormat::NetTrace,
            stack_walk,
            buffering_mode: mode,
        },
        rundown_keyword,
        providers: vec![ProviderRequest {
            arguments: Some("P-é".into()),
            ..ProviderRequest::new("P", 0xFFFF_0000_0000_0001, 5)
        }],
    }
}

// spec-test: EP-CT-1, EP-CT-2, EP-PROV-1, EP-FILTER-1
#[test]
fn event_pipe_requests() {
    use CollectTracingVersion::{V1, V2, V3, V4, V5, V6};
    let provider = format!("01000000 | 01000000 0000ffff | 05000000 | {P} | {P_E}");
    let default = limits::DEFAULT_RUNDOWN_KEYWORD;
    let check = |name, session: CollectTracing, golden: String| {
        check(name, &Request::CollectTracing(session), &golden);
    };
    check_stop();
    let v1 = session(V1, default, StackWalk::On, BufferingMode::Drop);
    check("v1", v1, format!("4000 0202 0000 | 00010000 01000000 | {provider}"));
    let v2 = session(V2, 0, StackWalk::On, BufferingMode::Drop);
    check("v2", v2, format!("4100 0203 0000 | 00010000 01000000 00 | {provider}"));
    let v3 = session(V3, default, StackWalk::Off, BufferingMode::Drop);
    check("v3", v3, format!("4200 0204 0000 | 00010000 01000000 01 00 | {provider}"));
    let v4 = session(V4, 0x8000_0000_0000_0020, StackWalk::On, BufferingMode::Drop);
    check("v4", v4, format!("4900 0205 0000 | 00010000 01000000 20000000 00000080 01 | {provider}"));
    let mut v5 = session(V5, default, StackWalk::Off, BufferingMode::Drop);
    v5.providers[0].filter = EventFilter { sense: FilterSense::Allow, ids: vec![7, 0x10000] };
    let head = "00000000 00010000 01000000 39010280 00000000 00";
    check("v5", v5, format!("5a00 0206 0000 | {head} | {provider} | 01 02000000 07000000 00000100"));
    let v6 = session(V6, default, StackWalk::Off, BufferingMode::Block);
    check("v6", v6, format!("5600 0207 0000 | {head} | {provider} | 00 00000000 | 01000000"));
}

fn check_stop() {
    let stop = Request::StopTracing { session_id: 0x0012_3456_7890 };
    check("stop", &stop, "1c00 0201 0000 | 90785634 12000000");
}

// spec-test: EP-CT-8, EP-TP-1
#[test]
fn user_events_requests() {
    for (version, id, size) in
        [(CollectTracingVersion::V5, "06", "7100"), (CollectTracingVersion::V6, "07", "7100")]
    {
        let tracepoints = TracepointConfig {
            default_name: Some("P".into()),
            sets: vec![
                TracepointSet { name: "P".into(), ids: vec![1, 2] },
                TracepointSet { name: "P-é".into(), ids: vec![] },
            ],
        };
        let request = CollectTracing {
            version,
            output: SessionOutput::UserEvents,
            rundown_keyword: 0,
            providers: vec![ProviderRequest {
                tracepoints: Some(tracepoints),
                ..ProviderRequest::new("P", 1, 4)
            }],
        };
        let provider = format!("01000000 | 01000000 00000000 | 04000000 | {P} | 00000000 | 00 00000000");
        let sets = format!("02000000 | {P} 02000000 01000000 02000000 | {P_E} 00000000");
        let golden = format!("{size} 02{id} 0000 | 01000000 | 00000000 00000000 | {provider} | {P} | {sets}");
        check(id, &Request::CollectTracing(request), &golden);
    }
}

fn check_reply(name: &str, reply: &Reply, golden: &str) {
    let golden = unhex(&format!("{MAGIC} {golden}"));
    assert_eq!(hex(&reply.encode().encode().unwrap()), hex(&golden), "{name}: encode");
    assert_eq!(
        Reply::decode(&IpcMessage::decode_exact(&golden).unwrap()).as_ref(),
        Ok(reply),
        "{name}: decode"
    );
}

// spec-test: ERR-REPLY-1, ERR-REPLY-2, ERR-REPLY-3, ERR-CODE-1, EP-REPLY-1
#[test]
fn replies() {
    check_reply("success", &Reply::success(), "1800 ff00 0000 | 00000000");
    check_reply("session", &Reply::session(9), "1c00 ff00 0000 | 09000000 00000000");
    check_reply("error", &Reply::error(HResult::BAD_ENCODING), "1800 ffff 0000 | 84131380");
    let hresult = HResult::FAIL;
    let silent = Reply::Error { hresult, message: Some(String::new()) };
    check_reply("dump without text", &silent, "1e00 ffff 0000 | 05400080 | 01000000 0000");
    let spoken = Reply::Error { hresult, message: Some("P-é".into()) };
    check_reply("dump with text", &spoken, &format!("2400 ffff 0000 | 05400080 | {P_E}"));
    assert_eq!(decode_session_id(&unhex("09000000 00000000")), Ok(9));
    assert_eq!(decode_result_code(&unhex("00000000")), Ok(HResult::OK));
    assert_eq!(HResult::BAD_ENCODING.to_string(), "0x80131384 (bad encoding)");
    assert_eq!(HResult(0x8007_007E).to_string(), "0x8007007E");
}

// spec-test: ERR-REPLY-4
#[test]
fn an_error_reply_is_read_whatever_follows_its_code() {
    let message = |payload: &str| IpcMessage::new(diagport_codec::Command::ERROR_REPLY, unhex(payload));
    let plain = Ok(Reply::error(HResult::FAIL));
    for payload in
        ["05400080", "05400080 00", "05400080 00000000", "05400080 ffffffff", "05400080 01000000 4100"]
    {
        assert_eq!(Reply::decode(&message(payload)), plain, "{payload}");
    }
    let cut = DecodeError::FieldTruncated { field: "hresult", needed_bytes: 4, remaining_bytes: 3 };
    assert_eq!(Reply::decode(&message("054000")), Err(cut));
    let request = Request::ResumeRuntime.encode().unwrap();
    assert_eq!(Reply::decode(&request), Err(DecodeError::NotAReply { command: request.command }));
}

fn process_info(version: ProcessInfoVersion) -> ProcessInfo {
    let since = |first, text: &str| (version >= first).then(|| text.to_owned());
    ProcessInfo {
        process_id: 0x4_0000_0001,
        cookie: RuntimeCookie(guid()),
        command_line: "P-é".into(),
        operating_system: "P".into(),
        architecture: String::new(),
        entry_assembly: since(ProcessInfoVersion::V2, "P"),
        clr_product_version: since(ProcessInfoVersion::V2, ""),
        portable_rid: since(ProcessInfoVersion::V3, "P"),
    }
}

// spec-test: PROC-INFO-1, PROC-INFO-2, PROC-INFO-3, PROC-INFO-4, IPC-STR-6
#[test]
fn process_info_replies() {
    let empty = "01000000 0000";
    let v1 = format!("01000000 04000000 | 00010203 04050607 08090a0b 0c0d0e0f | {P_E} | {P} | {empty}");
    let v2 = format!("{v1} | {P} | {empty}");
    let v3 = format!("01000000 | {v2} | {P}");
    for (version, golden) in
        [(ProcessInfoVersion::V1, v1), (ProcessInfoVersion::V2, v2), (ProcessInfoVersion::V3, v3)]
    {
        let info = process_info(version);
        assert_eq!(hex(&info.encode(version).unwrap()), hex(&unhex(&golden)), "{version:?}");
        assert_eq!(ProcessInfo::decode(version, &unhex(&golden)), Ok(info), "{version:?}");
        // A later layout appends fields.
        let longer = unhex(&format!("{golden} 01020304"));
        assert_eq!(ProcessInfo::decode(version, &longer), Ok(process_info(version)), "{version:?}");
    }
    // A field that this side does not know is sent as empty, never as null.
    let known_to_v1 = process_info(ProcessInfoVersion::V1).encode(ProcessInfoVersion::V3).unwrap();
    assert!(known_to_v1.ends_with(&unhex(&format!("{empty} {empty} {empty} {empty}"))));
}

// spec-test: PROC-ENV-1, PROC-ENV-2, PROC-ENV-3
#[test]
fn environment_reply_and_block() {
    let block = encode_environment(["A=", "no equals sign", "", "P=é"]);
    let golden = "02000000 | 03000000 4100 3d00 0000 | 04000000 5000 3d00 e900 0000";
    assert_eq!(hex(&block), hex(&unhex(golden)));
    assert_eq!(decode_environment(&block), Ok(vec!["A=".to_owned(), "P=é".to_owned()]));
    let reply = EnvironmentReply::announcing(&block).unwrap();
    assert_eq!(hex(&reply.encode()), "1a000000 0000");
    assert_eq!(EnvironmentReply::decode(&reply.encode()), Ok(reply));
    assert_eq!(encode_environment([""; 0]), [0; 4]);
}

// spec-test: ADV-1, ADV-2, ADV-3
#[test]
fn advertise() {
    let value = Advertise { cookie: RuntimeCookie(guid()), process_id: 0x1234 };
    let golden = unhex("41445652 5f563100 | 00010203 04050607 08090a0b 0c0d0e0f | 34120000 00000000 | 0000");
    assert_eq!(value.encode().as_slice(), golden);
    for len in 0..golden.len() {
        let needed_bytes = golden.len() - len;
        assert_eq!(
            Advertise::decode_prefix(&golden[..len]),
            Ok(AdvertisePrefix::Incomplete { needed_bytes }),
            "{len}"
        );
    }
    let mut longer = golden.clone();
    longer[33] = 0xFF;
    longer.push(0xFF);
    assert_eq!(
        Advertise::decode_prefix(&longer),
        Ok(AdvertisePrefix::Complete(value)),
        "last word is ignored"
    );
    let mut stranger = golden;
    stranger[7] = 1;
    assert_eq!(Advertise::decode_prefix(&stranger[..8]), Err(DecodeError::BadAdvertiseMagic));
}

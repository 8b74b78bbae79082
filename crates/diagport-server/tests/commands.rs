//! Every command but the session ones: request in, reply out.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use diagport_codec::{
    AttachProfiler, DumpFlags, DumpType, EnvironmentReply, GenerateCoreDump, GenerateCoreDumpVersion, Guid,
    HResult, ProcessInfo, ProcessInfoVersion, Reply, Request, StartupProfiler, decode_environment,
};
use diagport_server::{Host, HostIdentity, ServerBuilder};
use support::{TestServer, encode, error_of, message, read_reply, reply_of, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn success() -> Reply {
    Reply::success()
}

fn failure(hresult: HResult) -> Reply {
    Reply::Error { hresult, message: None }
}

async fn check(server: &TestServer, request: Request, expected: Reply) {
    assert_eq!(server.ask(&request).await, expected, "{request:?}");
}

// spec-test: SRV-INFO-1
#[tokio::test]
async fn process_info_in_all_versions() {
    let server = TestServer::start();
    for version in ProcessInfoVersion::ALL {
        let Reply::Ok { payload } = server.ask(&Request::ProcessInfo(version)).await else {
            panic!("{version:?}")
        };
        let info = ProcessInfo::decode(version, &payload).unwrap();
        assert_eq!(info.process_id, 4711);
        assert_eq!(info.cookie, server.handle.cookie());
        assert_ne!(info.cookie.to_bytes(), [0; 16]);
        assert_eq!(info.command_line, "/bin/target --all");
        let newer = version >= ProcessInfoVersion::V2;
        assert_eq!(info.clr_product_version.as_deref(), newer.then_some("9.0.0+test"));
        let newest = version >= ProcessInfoVersion::V3;
        assert_eq!(info.portable_rid.as_deref(), newest.then_some("linux-x64"));
    }
    // A payload nobody asked for is ignored.
    let reply = reply_of(&server.send_raw(&message(4, 0, &[0xAB; 300])).await);
    let Reply::Ok { payload } = reply else { panic!("{reply:?}") };
    assert_eq!(ProcessInfo::decode(ProcessInfoVersion::V1, &payload).unwrap().cookie, server.handle.cookie());
}

// spec-test: SRV-INFO-1
#[tokio::test]
async fn a_long_command_line_is_cut_and_still_answered() {
    #[derive(Debug)]
    struct Wordy;
    impl Host for Wordy {
        fn process_info(&self) -> HostIdentity {
            let mut identity = support::TestHost::default().identity;
            identity.command_line = "\u{1F600}x".repeat(40_000);
            identity
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let handle =
        ServerBuilder::new(support::test_pipe(), Arc::new(Wordy)).folder(folder.path()).start().unwrap();
    let path = handle.default_port_path().unwrap();
    let stream = diagport_transport::connect(path, support::SOON).await.unwrap();
    let reply = support::exchange(stream, &encode(&Request::ProcessInfo(ProcessInfoVersion::V3))).await;
    let Reply::Ok { payload } = reply else { panic!("{reply:?}") };
    let info = ProcessInfo::decode(ProcessInfoVersion::V3, &payload).unwrap();
    let units = info.command_line.encode_utf16().count();
    assert!(units > 32_000, "{units} units");
    assert!("\u{1F600}x".repeat(40_000).starts_with(&info.command_line));
}

// spec-test: SRV-ENVIRON-1
#[tokio::test]
async fn the_environment_follows_its_announcement() {
    let server = TestServer::start();
    let mut stream = server.open().await;
    stream.write_all(&encode(&Request::ProcessEnvironment)).await.unwrap();
    let Reply::Ok { payload } = read_reply(&mut stream).await else { panic!("refused") };
    let announced = EnvironmentReply::decode(&payload).unwrap().incoming_bytes;
    let mut block = Vec::new();
    soon(stream.read_to_end(&mut block)).await.unwrap();
    assert_eq!(block.len(), announced as usize);
    assert_eq!(decode_environment(&block).unwrap(), ["EMPTY=", "HOME=/root"]);
}

// spec-test: SRV-SETENV-1
#[tokio::test]
async fn set_environment_variable() {
    let server = TestServer::start();
    let set = |name: Option<&str>, value: Option<&str>| Request::SetEnvironmentVariable {
        name: name.map(str::to_owned),
        value: value.map(str::to_owned),
    };
    let value = |name: &str| server.host.environment.value(name);
    check(&server, set(Some("A"), Some("1")), success()).await;
    assert_eq!(value("A").as_deref(), Some("1"));
    check(&server, set(Some("A"), Some("")), success()).await;
    assert_eq!(value("A").as_deref(), Some(""));
    check(&server, set(Some("A"), None), success()).await;
    assert_eq!(value("A"), None);
    check(&server, set(Some("A"), None), failure(HResult::ENVVAR_NOT_FOUND)).await;
    check(&server, set(None, Some("1")), failure(HResult::INVALID_ARGUMENT)).await;
    check(&server, set(Some(""), Some("1")), success()).await;
    check(&server, set(Some("ZZ=Q"), Some("x")), failure(HResult::INVALID_ARGUMENT)).await;
    assert_eq!(server.host.environment.entries(), ["EMPTY=", "HOME=/root"]);
}

fn dump(version: GenerateCoreDumpVersion, path: &str, dump_type: u32) -> Request {
    Request::GenerateCoreDump(GenerateCoreDump {
        version,
        path: path.to_owned(),
        dump_type: DumpType(dump_type),
        flags: DumpFlags::NONE,
    })
}

// spec-test: SRV-DUMP-1, SRV-DUMP-2
#[tokio::test]
async fn dumps_check_their_type_and_explain_themselves_in_v3() {
    use GenerateCoreDumpVersion::{V1, V2, V3};
    let server = TestServer::start();
    for version in [V1, V2, V3] {
        check(&server, dump(version, "/good", 1), success()).await;
        check(&server, dump(version, "/good", 4), success()).await;
        for (path, dump_type, text) in [
            ("/good", 0, "there is no dump type 0"),
            ("/good", 9, "there is no dump type 9"),
            ("/x", 2, "cannot write /x"),
        ] {
            let message = (version == V3).then(|| text.to_owned());
            let expected = Reply::Error { hresult: HResult::FAIL, message };
            check(&server, dump(version, path, dump_type), expected).await;
        }
    }
}

// spec-test: SRV-HOST-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_panics_or_dawdles_costs_one_answer() {
    let server = TestServer::start_with_limits(|limits| limits.core_dump = Duration::from_millis(100));
    let (slow_dump, receiver) = mpsc::channel();
    *server.host.slow_dump.lock().unwrap() = Some(receiver);
    for path in ["/panic", "/slow"] {
        let reply = server.ask(&dump(GenerateCoreDumpVersion::V2, path, 1)).await;
        assert_eq!(error_of(&reply), HResult::FAIL, "{path}");
    }
    check(&server, Request::StopTracing { session_id: 5 }, Reply::session(5)).await;
    // All of that while the dump was still under way.
    drop(slow_dump);
}

// spec-test: SRV-PERF-1
#[tokio::test]
async fn arguments_are_judged_before_the_feature_is_refused() {
    let server = TestServer::start();
    let not_supported = || failure(HResult::NOT_SUPPORTED);
    let invalid = || failure(HResult::INVALID_ARGUMENT);
    for kind in [1, 2, 3] {
        check(&server, Request::EnablePerfMap { kind }, not_supported()).await;
    }
    for kind in [0, 4, u32::MAX] {
        check(&server, Request::EnablePerfMap { kind }, invalid()).await;
    }
    check(&server, Request::DisablePerfMap, not_supported()).await;
    check(&server, Request::ApplyStartupHook { path: None }, invalid()).await;
    check(&server, Request::ApplyStartupHook { path: Some("/hook.dll".to_owned()) }, not_supported()).await;
    let attach = AttachProfiler {
        attach_timeout_ms: 1,
        profiler_guid: Guid([1; 16]),
        profiler_path: Some("/p.so".to_owned()),
        client_data: vec![1, 2],
    };
    check(&server, Request::AttachProfiler(attach), not_supported()).await;
    let startup = StartupProfiler { profiler_guid: Guid([1; 16]), profiler_path: Some("/p.so".to_owned()) };
    check(&server, Request::StartupProfiler(startup), not_supported()).await;
    // Nothing is suspended: no effect, and a success.
    check(&server, Request::ResumeRuntime, success()).await;
}

// spec-test: SRV-HOST-1
#[tokio::test]
async fn a_host_that_does_not_know_itself_costs_one_answer() {
    struct Confused;
    impl Host for Confused {
        fn process_info(&self) -> HostIdentity {
            panic!("who am I?")
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let server = ServerBuilder::new(support::test_pipe(), Arc::new(Confused) as Arc<dyn Host>)
        .folder(folder.path())
        .start()
        .unwrap();
    let ask = async |request: Request| {
        let stream = diagport_transport::connect(server.default_port_path().unwrap(), support::SOON).await;
        support::exchange(stream.unwrap(), &encode(&request)).await
    };
    for _ in 0..2 {
        assert_eq!(ask(Request::ProcessInfo(ProcessInfoVersion::V1)).await, failure(HResult::FAIL));
        assert_eq!(ask(Request::ResumeRuntime).await, success());
    }
}

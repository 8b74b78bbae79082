//! Requests against a port that answers well, badly, slowly or not at all.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod fake;

use std::time::{Duration, Instant};

use diagport_client::{
    CollectError, CollectRequest, Deadline, Fault, KeywordFallback, TargetSelector, profiles, provider_text,
    resolve,
};
use diagport_codec::{
    BufferingMode, CollectTracingVersion, Command, EnvironmentReply, HResult, ProcessInfo,
    ProcessInfoVersion, Reply, RuntimeCookie, StackWalk, encode_environment,
};
use fake::{FakePort, Script};
use tokio::io::AsyncReadExt;

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

fn unknown_command() -> Script {
    Script::reply(&Reply::error(HResult::UNKNOWN_COMMAND))
}

fn sample_info() -> ProcessInfo {
    ProcessInfo {
        process_id: 4711,
        cookie: RuntimeCookie(diagport_codec::Guid([7; 16])),
        command_line: "app --flag".to_owned(),
        operating_system: "Linux".to_owned(),
        architecture: "x64".to_owned(),
        entry_assembly: None,
        clr_product_version: None,
        portable_rid: None,
    }
}

// spec-test: CLI-INFO-1
#[tokio::test]
async fn process_info_goes_down_to_the_version_that_is_known() {
    let payload = sample_info().encode(ProcessInfoVersion::V1).unwrap();
    let port = FakePort::start(move |command| match command {
        Command::PROCESS_INFO => Script::ok(&payload),
        _ => unknown_command(),
    });
    assert_eq!(port.client().process_info(deadline()).await.unwrap(), sample_info());
    let asked = [Command::PROCESS_INFO_3, Command::PROCESS_INFO_2, Command::PROCESS_INFO];
    assert_eq!(port.commands(), asked);
}

#[tokio::test]
async fn process_info_gives_up_when_no_version_is_known() {
    let port = FakePort::start(|_| unknown_command());
    let error = port.client().process_info(deadline()).await.unwrap_err();
    assert_eq!((error.fault(), port.commands().len()), (Fault::Refused, 3), "{error}");
}

/// Each fault of a peer, as the error that names it. Every case ends long before its deadline.
#[tokio::test]
async fn a_bad_answer_is_told_from_a_refusal_and_from_silence() {
    let good = Reply::success().encode().encode().unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Script::Bytes(bytes)
    };
    let cases = [
        (
            "refused",
            Script::reply(&Reply::error(HResult::FAIL)),
            Fault::Refused,
            "refused by the target: 0x80004005",
        ),
        ("wrong magic", with(0, b'X'), Fault::Peer, "malformed answer"),
        ("size below a header", with(14, 19), Fault::Peer, "malformed answer"),
        ("a request as answer", with(16, 4), Fault::Peer, "malformed answer"),
        (
            "an error without code",
            Script::Bytes(good[..18].iter().copied().chain([0, 0]).collect()),
            Fault::Peer,
            "",
        ),
        ("closed at once", Script::Bytes(Vec::new()), Fault::Peer, "closed the connection after 0 bytes"),
        ("closed inside the header", Script::Bytes(good[..7].to_vec()), Fault::Peer, "after 7 bytes"),
        ("closed inside the payload", Script::Bytes(good[..22].to_vec()), Fault::Peer, "after 22 bytes"),
    ];
    for (name, script, fault, words) in cases {
        let port = FakePort::start(move |_| script.clone());
        let error = port.client().resume(deadline()).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.fault(), fault, "{name}: {text}");
        assert!(text.contains(words) && text.contains("port.sock"), "{name}: {text}");
        assert!(!text.contains('\n'), "{name}: {text}");
    }
}

// spec-test: CLI-EXCHANGE-1
#[tokio::test]
async fn silence_ends_at_the_deadline_and_names_the_phase() {
    let half = Reply::success().encode().encode().unwrap()[..10].to_vec();
    for bytes in [Vec::new(), half] {
        let port = FakePort::start(move |_| Script::BytesThenSilence(bytes.clone()));
        let from = Instant::now();
        let error = port.client().resume(Deadline::after(Duration::from_millis(300))).await.unwrap_err();
        assert_eq!(error.fault(), Fault::TimedOut, "{error}");
        assert!(error.to_string().contains("connected, waiting for the reply to ResumeRuntime"), "{error}");
        assert!(error.to_string().contains("0.3 s"), "{error}");
        assert!(from.elapsed() < Duration::from_secs(60), "{:?}", from.elapsed());
    }
}

// spec-test: CLI-ENV-1
#[tokio::test]
async fn an_environment_block_has_its_announced_length() {
    let block = encode_environment(["A=1", "B=two words", "C=", "D=x=y"]);
    let announced = Reply::Ok { payload: EnvironmentReply::announcing(&block).unwrap().encode() };
    let head = announced.encode().encode().unwrap();
    let check = |body: Vec<u8>| {
        let bytes = [head.clone(), body].concat();
        async move {
            let port = FakePort::start(move |_| Script::Bytes(bytes.clone()));
            port.client().environment(deadline()).await
        }
    };
    assert_eq!(check(block.clone()).await.unwrap(), ["A=1", "B=two words", "C=", "D=x=y"]);
    let short = check(block[..block.len() - 1].to_vec()).await.unwrap_err();
    assert_eq!(short.fault(), Fault::Peer, "{short}");
    let long = check([block.clone(), vec![0]].concat()).await.unwrap_err();
    assert!(long.to_string().contains("more than the announced"), "{long}");
}

// spec-test: CLI-STOP-1
#[tokio::test]
async fn a_stop_that_stopped_another_session_is_malformed() {
    let port = FakePort::start(|_| Script::reply(&Reply::session(8)));
    assert!(port.client().stop_tracing(8, deadline()).await.is_ok());
    let error = port.client().stop_tracing(9, deadline()).await.unwrap_err();
    assert!(error.to_string().contains("session 8 was stopped instead of 9"), "{error}");
}

fn request(buffering_mode: BufferingMode, rundown_keyword: u64) -> CollectRequest {
    CollectRequest {
        providers: provider_text::parse_providers("A:1:4").unwrap(),
        circular_buffer_mb: 1,
        buffering_mode,
        stack_walk: StackWalk::On,
        rundown_keyword,
        keyword_fallback: KeywordFallback::UsualRundown,
    }
}

#[tokio::test]
async fn a_session_starts_on_the_version_that_is_known() {
    let reply = Reply::session(5).encode().encode().unwrap();
    let port = FakePort::start(move |command| match command {
        Command::COLLECT_TRACING_2 => Script::Bytes([reply.clone(), b"Nettrace".to_vec()].concat()),
        _ => unknown_command(),
    });
    let mut session = port.client().collect(&request(BufferingMode::Drop, 1), deadline()).await.unwrap();
    assert_eq!((session.session_id, session.version), (5, CollectTracingVersion::V2));
    assert_eq!(session.concessions, [diagport_client::Concession::RundownKeyword]);
    let mut stream = Vec::new();
    session.stream.read_to_end(&mut stream).await.unwrap();
    assert_eq!(stream, b"Nettrace", "the stream begins behind the reply");
}

#[tokio::test]
async fn block_is_refused_where_it_is_unknown() {
    let port = FakePort::start(|_| unknown_command());
    let asked = request(BufferingMode::Block, profiles::DEFAULT_RUNDOWN_KEYWORD);
    let error = port.client().collect(&asked, deadline()).await.unwrap_err();
    assert!(matches!(error, CollectError::BlockNeedsNet11 { .. }), "{error}");
    assert!(error.to_string().contains(".NET 11"), "{error}");
    assert_eq!(port.commands(), [Command::COLLECT_TRACING_6]);
}

#[tokio::test]
async fn a_session_has_an_id() {
    let port = FakePort::start(|_| Script::reply(&Reply::session(0)));
    let asked = request(BufferingMode::Drop, 0);
    let error = port.client().collect(&asked, deadline()).await.unwrap_err();
    assert!(error.to_string().contains("session id 0"), "{error}");
}

/// A path that no socket can have, one where nothing is, and one that nobody listens on.
#[tokio::test]
async fn unreachable_ports_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(150));
    let error = resolve(&TargetSelector::Port(long.clone())).unwrap_err().to_string();
    assert!(error.contains(&long.as_os_str().len().to_string()) && error.contains("107"), "{error}");

    let dead = folder.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    for (path, words) in [(dead, "nobody listens"), (folder.path().join("none.sock"), "no such socket")] {
        let port = resolve(&TargetSelector::Port(path.clone())).unwrap();
        let client = diagport_client::Client::new(diagport_client::Target::Listening(port));
        let error = client.resume(deadline()).await.unwrap_err();
        assert_eq!(error.fault(), Fault::NotFound, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

//! What a process leaves out of all its sessions, whatever their clients request.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::Arc;

use diagport_codec::{
    BufferingMode, CollectTracing, CollectTracingVersion, ProviderRequest, Request, SessionOutput, StackWalk,
    StreamFormat,
};
use diagport_server::{Host, ServerBuilder};
use diagport_session::{SessionId, StackWalk as SessionStackWalk};
use support::{TestHost, TestServer, start_session, test_pipe};

const KEYWORD: u64 = 0x8002_0139;

fn request(rundown_keyword: u64, stack_walk: StackWalk) -> Request {
    Request::CollectTracing(CollectTracing {
        version: CollectTracingVersion::V5,
        output: SessionOutput::Streaming {
            circular_buffer_mb: 1,
            format: StreamFormat::NetTrace,
            stack_walk,
            buffering_mode: BufferingMode::Drop,
        },
        rundown_keyword,
        providers: vec![ProviderRequest::new("Test-Provider", 1, 5)],
    })
}

/// What a session has of that request under those settings.
async fn check(variables: &[(&str, &str)], requested: (u64, StackWalk), expected: (u64, SessionStackWalk)) {
    let folder = tempfile::tempdir().unwrap();
    let pipe = test_pipe();
    let lookup = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let host = Arc::new(TestHost::default());
    let builder = ServerBuilder::from_environment(pipe.clone(), host.clone() as Arc<dyn Host>, lookup);
    let handle = builder.folder(folder.path()).start().unwrap();
    let server = TestServer { handle, pipe, host, notice: Arc::default(), folder };
    let mut stream = server.open().await;
    let id = start_session(&mut stream, &request(requested.0, requested.1)).await;
    let session = SessionId::from_u64(id).and_then(|id| server.pipe.session(id)).expect("a live session");
    let config = session.config();
    assert_eq!((config.rundown_keyword, config.stack_walk), expected, "{variables:?} {requested:?}");
}

// spec-test: START-ALL-1
#[tokio::test]
async fn no_rundown_for_anybody() {
    let off = [("DOTNET_EventPipeRundown", "0")];
    check(&[], (KEYWORD, StackWalk::On), (KEYWORD, SessionStackWalk::On)).await;
    check(&off, (KEYWORD, StackWalk::On), (0, SessionStackWalk::On)).await;
    check(&off, (0, StackWalk::Off), (0, SessionStackWalk::Off)).await;
    check(&[("COMPlus_EventPipeRundown", "0")], (KEYWORD, StackWalk::On), (0, SessionStackWalk::On)).await;
}

// spec-test: START-ALL-2
#[tokio::test]
async fn no_stacks_for_anybody() {
    let off = [("DOTNET_EventPipeEnableStackwalk", "0")];
    check(&off, (KEYWORD, StackWalk::On), (KEYWORD, SessionStackWalk::Off)).await;
    check(&off, (KEYWORD, StackWalk::Off), (KEYWORD, SessionStackWalk::Off)).await;
    let on = [("DOTNET_EventPipeEnableStackwalk", "1")];
    check(&on, (0, StackWalk::Off), (0, SessionStackWalk::Off)).await;
}

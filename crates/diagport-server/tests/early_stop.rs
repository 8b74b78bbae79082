//! A client that stops its session with the next thing it does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use diagport_codec::BufferingMode;
use diagport_session::SessionId;
use support::{TestServer, collect, encode, is_complete};

/// Header and session id.
const REPLY_BYTES: usize = 28;

// spec-test: SRV-SESSION-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_right_after_the_reply_leaves_a_whole_stream() {
    let server = TestServer::start();
    let (path, pipe) = (server.path(), server.pipe.clone());
    let client = move || {
        for round in 0..500 {
            let mode = if round % 2 == 0 { BufferingMode::Drop } else { BufferingMode::Block };
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(&encode(&collect(mode, 1))).unwrap();
            let mut reply = [0; REPLY_BYTES];
            stream.read_exact(&mut reply).unwrap();
            let id = u64::from_le_bytes(reply[20..].try_into().unwrap());
            // Not through the port: that would give the server time.
            pipe.session(SessionId::from_u64(id).unwrap()).unwrap().request_stop();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            assert!(is_complete(&bytes), "round {round}: {} bytes", bytes.len());
        }
    };
    tokio::task::spawn_blocking(client).await.unwrap();
}

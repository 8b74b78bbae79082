//! A client that stops its session with the next thing it does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use diagport_codec::BufferingMode;
use diagport_session::SessionId;
use support::{TestServer, collect, encode, is_complete};

/// Header and session id.
const REPLY_BYTES: usize = 28;

/// Asks for a session; the connection and the id from the reply.
fn start(path: &Path, mode: BufferingMode) -> (UnixStream, SessionId) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(&encode(&collect(mode, 1))).unwrap();
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply).unwrap();
    let id = u64::from_le_bytes(reply[20..].try_into().unwrap());
    (stream, SessionId::from_u64(id).unwrap())
}

fn rest(mut stream: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn mode_of(round: usize) -> BufferingMode {
    if round.is_multiple_of(2) { BufferingMode::Drop } else { BufferingMode::Block }
}

// spec-test: SRV-SESSION-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_right_after_the_reply_leaves_a_whole_stream() {
    let server = TestServer::start();
    let (path, pipe) = (server.path(), server.pipe.clone());
    let client = move || {
        for round in 0..500 {
            let (stream, id) = start(&path, mode_of(round));
            // Not through the port: that would give the server time.
            pipe.session(id).unwrap().request_stop();
            let bytes = rest(stream);
            assert!(is_complete(&bytes), "round {round}: {} bytes", bytes.len());
        }
    };
    tokio::task::spawn_blocking(client).await.unwrap();
}

/// Also when a test fails, so that it ends.
struct SetAtLast<'a>(&'a AtomicBool);

impl Drop for SetAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ids can be guessed, and a server may end all sessions at any moment.
// spec-test: SRV-SESSION-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_stopped_before_its_start_is_answered() {
    let server = TestServer::start();
    let (path, pipe) = (server.path(), server.pipe.clone());
    let client = move || {
        let (last, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let last = last.load(Ordering::Relaxed);
                    // The other test takes some.
                    let guesses = (last + 1..last + 8).filter_map(SessionId::from_u64);
                    guesses.filter_map(|id| pipe.session(id)).for_each(|session| session.request_stop());
                }
            });
            let _over = SetAtLast(&is_over);
            for round in 0..500 {
                let (stream, id) = start(&path, mode_of(round));
                last.store(id.as_u64(), Ordering::Relaxed);
                // In case that it was guessed too late.
                if let Some(session) = pipe.session(id) {
                    session.request_stop();
                }
                let bytes = rest(stream);
                assert!(bytes.is_empty() || is_complete(&bytes), "round {round}: {} bytes", bytes.len());
            }
        });
    };
    tokio::task::spawn_blocking(client).await.unwrap();
}

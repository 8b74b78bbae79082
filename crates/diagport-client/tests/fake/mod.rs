//! A port that answers as it is told, on a socket in a folder of its own.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use diagport_client::{Client, ListeningPort, Target, TargetSelector, resolve};
use diagport_codec::{Command, IpcMessage, Prefix, Reply, decode_prefix};

/// What becomes of one connection once its request is there.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    /// Send these bytes, then close.
    Bytes(Vec<u8>),
    /// Send these bytes, then keep the connection and say nothing more.
    BytesThenSilence(Vec<u8>),
}

impl Script {
    pub(crate) fn reply(reply: &Reply) -> Self {
        Self::Bytes(reply.encode().encode().expect("a reply fits"))
    }

    pub(crate) fn ok(payload: &[u8]) -> Self {
        Self::reply(&Reply::Ok { payload: payload.to_vec() })
    }
}

/// The port. Its thread ends with the test process.
pub(crate) struct FakePort {
    folder: tempfile::TempDir,
    path: PathBuf,
    requests: Arc<Mutex<Vec<IpcMessage>>>,
}

impl FakePort {
    /// `answer` decides by the request's command.
    pub(crate) fn start(answer: impl Fn(Command) -> Script + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("port.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read_message(&mut stream);
                seen.lock().unwrap().push(request.clone());
                match answer(request.command) {
                    Script::Bytes(bytes) => drop(stream.write_all(&bytes)),
                    Script::BytesThenSilence(bytes) => {
                        drop(stream.write_all(&bytes));
                        kept.push(stream);
                    }
                }
            }
        });
        Self { folder, path, requests }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Target::Listening(self.port()))
    }

    pub(crate) fn port(&self) -> ListeningPort {
        resolve(&TargetSelector::Port(self.path.clone())).unwrap()
    }

    /// Commands that have arrived so far.
    pub(crate) fn commands(&self) -> Vec<Command> {
        self.requests.lock().unwrap().iter().map(|message| message.command).collect()
    }
}

pub(crate) fn read_message(stream: &mut UnixStream) -> IpcMessage {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    loop {
        match decode_prefix(&bytes).unwrap() {
            Prefix::Complete { message, .. } => return message,
            Prefix::Incomplete { needed_bytes } => {
                let mut piece = vec![0; needed_bytes];
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "the client closed inside its request");
                bytes.extend_from_slice(&piece[..count]);
            }
        }
    }
}

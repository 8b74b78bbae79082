//! A server on real sockets in a folder of its own, and a plain client that knows nothing but bytes.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]
#![allow(clippy::print_stdout, reason = "a test says what it has measured")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use diagport_codec::{
    Advertise, BufferingMode, CollectTracing, CollectTracingVersion, Command, GenerateCoreDump, HResult,
    IpcMessage, ProviderRequest, Reply, Request, SessionOutput, StackWalk, StreamFormat, decode_session_id,
};
use diagport_server::{
    DefaultPort, EnvironmentChange, EnvironmentTable, Host, HostError, HostIdentity, Limits, PauseMessage,
    PauseNotice, ServerBuilder, ServerHandle,
};
use diagport_session::{EventPipe, ProcessDescription};
use diagport_transport::{BindOptions, IpcStream, PortListener, connect};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Far beyond every promise: a test that waits this long has failed.
pub const SOON: Duration = Duration::from_secs(60);

pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(SOON, what).await.expect("within a minute")
}

/// Waits for a condition that no event announces.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < SOON, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Requires that one of some tries keeps to `promised`: a busy machine may disturb the others.
pub async fn is_kept(what: &str, promised: Duration, mut attempt: impl AsyncFnMut() -> Duration) {
    let mut best = Duration::MAX;
    for _ in 0..20 {
        best = best.min(attempt().await);
        if best < promised {
            println!("{what}: {best:?}");
            return;
        }
    }
    panic!("{what}: {best:?} at best, promised {promised:?}");
}

/// The one in the middle: a busy machine may disturb some.
pub fn median<T: Ord + Copy>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// A host that does what the commands ask and remembers it.
#[derive(Debug)]
pub struct TestHost {
    pub identity: HostIdentity,
    pub environment: EnvironmentTable,
    pub resumed: Mutex<u32>,
    /// The dump at "/slow" ends with the sender.
    pub slow_dump: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Default for TestHost {
    fn default() -> Self {
        Self {
            identity: HostIdentity {
                process_id: 4711,
                command_line: "/bin/target --all".to_owned(),
                operating_system: "Linux".to_owned(),
                architecture: "x64".to_owned(),
                entry_assembly: "target".to_owned(),
                product_version: "9.0.0+test".to_owned(),
                portable_rid: "linux-x64".to_owned(),
            },
            environment: EnvironmentTable::new([
                ("HOME".to_owned(), "/root".to_owned()),
                ("EMPTY".to_owned(), String::new()),
            ]),
            resumed: Mutex::new(0),
            slow_dump: Mutex::default(),
        }
    }
}

impl Host for TestHost {
    fn process_info(&self) -> HostIdentity {
        self.identity.clone()
    }

    fn environment(&self) -> Result<Vec<String>, HostError> {
        Ok(self.environment.entries())
    }

    fn set_environment_variable(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Result<EnvironmentChange, HostError> {
        Ok(self.environment.set(name, value))
    }

    fn resumed(&self) {
        *self.resumed.lock().unwrap() += 1;
    }

    fn generate_core_dump(&self, request: &GenerateCoreDump) -> Result<(), HostError> {
        match request.path.as_str() {
            "/panic" => panic!("a host that panics"),
            "/slow" => {
                let slow = self.slow_dump.lock().unwrap().take().expect("a test that holds the sender");
                let _ = slow.recv();
                Ok(())
            }
            "/good" => Ok(()),
            path => Err(HostError::failed(format!("cannot write {path}"))),
        }
    }
}

/// Remembers what the operator would have read.
#[derive(Debug, Default)]
pub struct TestNotice {
    pub paused: Mutex<Vec<PauseMessage>>,
    pub unusable: Mutex<Vec<String>>,
}

impl PauseNotice for TestNotice {
    fn paused(&self, message: &PauseMessage) {
        self.paused.lock().unwrap().push(message.clone());
    }

    fn port_unusable(&self, line: &str) {
        self.unusable.lock().unwrap().push(line.to_owned());
    }
}

/// A running server and what it runs on. Its limits are the default ones unless a test says otherwise.
pub struct TestServer {
    pub handle: ServerHandle,
    pub pipe: EventPipe,
    pub host: Arc<TestHost>,
    pub notice: Arc<TestNotice>,
    pub folder: TempDir,
}

pub fn test_pipe() -> EventPipe {
    EventPipe::new(ProcessDescription {
        process_id: 4711,
        command_line: "/bin/target --all".to_owned(),
        operating_system: "Linux".to_owned(),
        architecture: "x64".to_owned(),
    })
}

impl TestServer {
    pub fn start() -> Self {
        Self::start_with(|builder, _| builder)
    }

    pub fn start_with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::start_with(|builder, _| builder.limits(limits))
    }

    /// `configure` gets the server's folder.
    pub fn start_with(configure: impl FnOnce(ServerBuilder, &Path) -> ServerBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pipe = test_pipe();
        let host = Arc::new(TestHost::default());
        let notice = Arc::new(TestNotice::default());
        let builder = ServerBuilder::new(pipe.clone(), host.clone() as Arc<dyn Host>)
            .folder(folder.path())
            .pause_notice(notice.clone() as Arc<dyn PauseNotice>);
        let handle = configure(builder, folder.path()).start().unwrap();
        Self { handle, pipe, host, notice, folder }
    }

    /// A server without a default port.
    pub fn start_without_default(configure: impl FnOnce(ServerBuilder, &Path) -> ServerBuilder) -> Self {
        Self::start_with(|builder, folder| configure(builder.default_port(DefaultPort::Off), folder))
    }

    pub fn path(&self) -> PathBuf {
        self.handle.default_port_path().expect("a default port").to_owned()
    }

    pub async fn open(&self) -> IpcStream {
        connect(&self.path(), SOON).await.unwrap()
    }

    /// One command on a connection of its own.
    pub async fn ask(&self, request: &Request) -> Reply {
        exchange(self.open().await, &encode(request)).await
    }

    /// Raw bytes on a connection of its own, half-closed behind them; what comes back until the end.
    pub async fn send_raw(&self, bytes: &[u8]) -> Vec<u8> {
        send_raw(self.open().await, bytes).await
    }
}

pub fn encode(request: &Request) -> Vec<u8> {
    request.encode().unwrap().encode().unwrap()
}

/// A message of any command and payload.
pub fn message(set: u8, id: u8, payload: &[u8]) -> Vec<u8> {
    let command = Command { set: diagport_codec::CommandSet(set), id: diagport_codec::CommandId(id) };
    IpcMessage::new(command, payload.to_vec()).encode().unwrap()
}

pub async fn send_raw(mut stream: IpcStream, bytes: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown_write();
    let mut received = Vec::new();
    soon(stream.read_to_end(&mut received)).await.expect("an end, not a reset");
    received
}

pub async fn exchange(mut stream: IpcStream, bytes: &[u8]) -> Reply {
    stream.write_all(bytes).await.unwrap();
    let reply = read_reply(&mut stream).await;
    let mut rest = Vec::new();
    soon(stream.read_to_end(&mut rest)).await.expect("an end, not a reset");
    assert!(rest.is_empty(), "{} bytes behind the reply", rest.len());
    reply
}

pub async fn read_message(stream: &mut IpcStream) -> IpcMessage {
    let mut bytes = vec![0; 20];
    soon(stream.read_exact(&mut bytes)).await.unwrap();
    let size = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    bytes.resize(size, 0);
    soon(stream.read_exact(&mut bytes[20..])).await.unwrap();
    IpcMessage::decode_exact(&bytes).unwrap()
}

pub async fn read_reply(stream: &mut IpcStream) -> Reply {
    Reply::decode(&read_message(stream).await).unwrap()
}

/// The code of a reply that came as bytes up to the end.
pub fn code_of(bytes: &[u8]) -> HResult {
    match reply_of(bytes) {
        Reply::Error { hresult, .. } => hresult,
        Reply::Ok { .. } => HResult::OK,
    }
}

pub fn reply_of(bytes: &[u8]) -> Reply {
    Reply::decode(&IpcMessage::decode_exact(bytes).unwrap_or_else(|error| panic!("{error}: {bytes:?}")))
        .unwrap()
}

pub fn error_of(reply: &Reply) -> HResult {
    match reply {
        Reply::Error { hresult, .. } => *hresult,
        Reply::Ok { payload } => panic!("success with {payload:?}"),
    }
}

/// A streaming request for everything of `Test-Provider`.
pub fn collect(buffering_mode: BufferingMode, circular_buffer_mb: u32) -> Request {
    let version = match buffering_mode {
        BufferingMode::Drop => CollectTracingVersion::V5,
        BufferingMode::Block => CollectTracingVersion::V6,
    };
    Request::CollectTracing(CollectTracing {
        version,
        output: SessionOutput::Streaming {
            circular_buffer_mb,
            format: StreamFormat::NetTrace,
            stack_walk: StackWalk::Off,
            buffering_mode,
        },
        rundown_keyword: 0,
        providers: vec![ProviderRequest::new("Test-Provider", u64::MAX, 5)],
    })
}

/// Starts a session on that connection; the id.
pub async fn start_session(stream: &mut IpcStream, request: &Request) -> u64 {
    stream.write_all(&encode(request)).await.unwrap();
    match read_reply(stream).await {
        Reply::Ok { payload } => decode_session_id(&payload).unwrap(),
        Reply::Error { hresult, .. } => panic!("session refused: {hresult}"),
    }
}

/// Reads a stream to its end.
pub async fn read_stream(stream: &mut IpcStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    soon(stream.read_to_end(&mut bytes)).await.expect("an end, not a reset");
    bytes
}

/// What every whole stream ends with.
pub fn is_complete(stream: &[u8]) -> bool {
    stream.starts_with(b"Nettrace") && stream.last() == Some(&1)
}

/// The far side of a connect port.
pub struct Monitor {
    listener: PortListener,
}

impl Monitor {
    pub fn bind(path: &Path) -> Self {
        Self { listener: PortListener::bind(path, BindOptions::default()).unwrap() }
    }

    /// The next connection and what it says of itself.
    pub async fn accept(&self) -> (IpcStream, Advertise) {
        let mut stream = soon(self.listener.accept()).await.unwrap();
        let mut bytes = [0; 34];
        soon(stream.read_exact(&mut bytes)).await.expect("an Advertise");
        (stream, Advertise::decode(&bytes).unwrap())
    }

    /// The next connection, whatever it says.
    pub async fn accept_raw(&self) -> IpcStream {
        soon(self.listener.accept()).await.unwrap()
    }
}

pub fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

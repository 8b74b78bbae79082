//! What kind of server, on which ports.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diagport_codec::{PortKind, PortName, PortSpec, RuntimeCookie, SuspendMode};
use diagport_session::EventPipe;
use diagport_transport::discover::{self, NamedProcess, sweep_stale};
use diagport_transport::{BindOptions, PortAccess, PortListener, check_path, descriptor_limit};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::continuations::{Continuations, Turns};
use crate::farewells::{self, Farewells};
use crate::half_open::HalfOpen;
use crate::live_sessions::LiveSessions;
use crate::pause_notice::{PauseSettings, announce_pauses};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::statistics::Counters;
use crate::suspend_gate::{PendingPort, PortId, SuspendGate};
use crate::{Host, Limits, PauseNotice, ServerHandle, StandardErrorNotice, ports};

/// The port at `dotnet-diagnostic-{pid}-{key}-socket` that tools look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultPort {
    /// It is opened.
    Listen(SuspendMode),
    /// There is none.
    Off,
}

/// Something that a client may request of its session, and that a process may leave out of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionFeature {
    /// As the client says.
    AsRequested,
    /// Left out, whatever the client says.
    Off,
}

/// Why no server could be started. A port that cannot be opened is no reason: see
/// [`ServerHandle::unusable_ports`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// [`ServerBuilder::start`] must be called inside a tokio runtime, with I/O and time enabled.
    #[error("no tokio runtime is running here")]
    NoRuntime,
}

/// Describes a server; [`start`](Self::start) starts it.
#[must_use = "a server runs once started"]
pub struct ServerBuilder {
    pipe: EventPipe,
    host: Arc<dyn Host>,
    is_enabled: bool,
    default_port: DefaultPort,
    folder: PathBuf,
    name: PortName,
    ports: Vec<PortSpec>,
    ports_text: Option<String>,
    default_port_suspend: Option<u32>,
    limits: Limits,
    access: PortAccess,
    notice: Arc<dyn PauseNotice>,
    rundown: SessionFeature,
    stack_walk: SessionFeature,
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServerBuilder")
            .field("default_port", &self.default_port)
            .field("folder", &self.folder)
            .field("name", &self.name)
            .field("ports", &self.ports)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// A server with the default port of this process and nothing else; startup is not suspended.
    pub fn new(pipe: EventPipe, host: Arc<dyn Host>) -> Self {
        let process_id = std::process::id();
        // Unreadable: 0, as the reference runtime does.
        let key = discover::start_key_of(process_id).unwrap_or(0);
        Self {
            pipe,
            host,
            is_enabled: true,
            default_port: DefaultPort::Listen(SuspendMode::NoSuspend),
            folder: discover::temp_dir(),
            name: PortName { process_id, key },
            ports: Vec::new(),
            ports_text: None,
            default_port_suspend: None,
            limits: Limits::default(),
            access: PortAccess::OwnerOnly,
            notice: Arc::new(StandardErrorNotice),
            rundown: SessionFeature::AsRequested,
            stack_walk: SessionFeature::AsRequested,
        }
    }

    /// As [`new`](Self::new), with ports and suspension as environment variables say: `DOTNET_DiagnosticPorts`,
    /// `DOTNET_DefaultDiagnosticPortSuspend`, and none at all where `DOTNET_EnableDiagnostics` or
    /// `DOTNET_EnableDiagnostics_IPC` is 0. `COMPlus_` spellings count where the `DOTNET_` one is not set; `TMPDIR`
    /// names the folder. `DOTNET_EventPipeRundown` and `DOTNET_EventPipeEnableStackwalk`, where 0, turn [`rundown`](Self::rundown) and
    /// [`stack_walk`](Self::stack_walk) off.
    ///
    /// `lookup` returns a variable's value; programs pass `|name| std::env::var(name).ok()`.
    // spec: SRV-ENV-3
    pub fn from_environment(
        pipe: EventPipe,
        host: Arc<dyn Host>,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let settings = Settings::read(&lookup);
        let suspend = match settings.default_port_suspend {
            0 => SuspendMode::NoSuspend,
            _ => SuspendMode::Suspend,
        };
        let mut builder = Self::new(pipe, host)
            .default_port(DefaultPort::Listen(suspend))
            .folder(discover::temp_dir_from(lookup("TMPDIR").as_deref().map(AsRef::as_ref)));
        builder.is_enabled = settings.is_enabled;
        builder.ports = settings.ports;
        builder.ports_text = Some(settings.ports_text);
        builder.default_port_suspend = Some(settings.default_port_suspend);
        builder.rundown(settings.rundown).stack_walk(settings.stack_walk)
    }

    /// Whether there is a default port, and whether it suspends startup.
    pub const fn default_port(mut self, default_port: DefaultPort) -> Self {
        self.default_port = default_port;
        self
    }

    /// The folder of the default port, instead of `$TMPDIR` or `/tmp`.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The process that the default port and Advertise name, instead of this one: for a server that speaks for
    /// another process. `key` is that process's start key.
    pub const fn process(mut self, process_id: u32, key: u64) -> Self {
        self.name = PortName { process_id, key };
        self
    }

    /// One more port: a connect port, or a listen port at a fixed path.
    pub fn port(mut self, port: PortSpec) -> Self {
        self.ports.push(port);
        self.ports_text = None;
        self
    }

    /// Other bounds than the default ones.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Who may use the ports, instead of this user and root alone.
    pub const fn access(mut self, access: PortAccess) -> Self {
        self.access = access;
        self
    }

    /// Whether sessions of clients end with the rundown they request. A request that is not followed is told of in the log.
    pub const fn rundown(mut self, rundown: SessionFeature) -> Self {
        self.rundown = rundown;
        self
    }

    /// Whether sessions of clients have the stacks they request.
    pub const fn stack_walk(mut self, stack_walk: SessionFeature) -> Self {
        self.stack_walk = stack_walk;
        self
    }

    /// Where the operator is told of a paused startup and of unusable ports, instead of standard error.
    pub fn pause_notice(mut self, notice: Arc<dyn PauseNotice>) -> Self {
        self.notice = notice;
        self
    }

    /// Opens the ports and starts their tasks on the current tokio runtime; returns at once. When it returns, the
    /// listen ports are there.
    ///
    /// # Errors
    /// [`StartError::NoRuntime`].
    // spec: SRV-START-1
    pub fn start(self) -> Result<ServerHandle, StartError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StartError::NoRuntime);
        }
        let opened = if self.is_enabled { self.open_ports() } else { OpenedPorts::default() };
        for line in &opened.unusable {
            // The notice is the line that the operator reads; a log on standard error would say it twice.
            tracing::debug!("{line}");
            self.notice.port_unusable(line);
        }
        let pause_settings = self.pause_settings();
        let shared = Arc::new(Shared {
            half_open: HalfOpen::new(half_open_limit(self.limits.half_open_connections)),
            farewells: Farewells::default(),
            continuations: Continuations::new(self.limits.continuation_bytes),
            environments: Turns::default(),
            host_calls: Arc::new(Semaphore::new(self.limits.host_calls)),
            pipe: self.pipe,
            host: self.host,
            notice: self.notice,
            limits: self.limits,
            access: self.access,
            rundown: self.rundown,
            stack_walk: self.stack_walk,
            cookie: RuntimeCookie::from_bytes(uuid::Uuid::new_v4().to_bytes_le()),
            process_id: self.name.process_id.into(),
            gate: SuspendGate::new(opened.pending),
            sessions: LiveSessions::default(),
            counters: Counters::default(),
            core_dumps: Arc::new(Semaphore::new(1)),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            aborting: CancellationToken::new(),
        });
        shared.tasks.spawn(farewells::run(Arc::clone(&shared)));
        for (id, listener) in opened.listeners {
            shared.tasks.spawn(ports::listen::run(Arc::clone(&shared), id, listener));
        }
        for (id, path) in opened.connects {
            shared.tasks.spawn(ports::connect::run(Arc::clone(&shared), id, path));
        }
        if opened.default_path.is_some() {
            sweep(self.folder);
        }
        if shared.gate.is_suspended() {
            shared.tasks.spawn(announce_while_suspended(Arc::clone(&shared), pause_settings));
            shared.tasks.spawn(tell_host_of_resume(Arc::clone(&shared)));
        }
        Ok(ServerHandle::new(shared, opened.default_path, opened.unusable))
    }

    fn open_ports(&self) -> OpenedPorts {
        let mut opened = OpenedPorts::default();
        for (index, port) in self.ports.iter().enumerate() {
            let path = Path::new(&port.address);
            let usable = match port.kind {
                PortKind::Connect => opened.connect_to(PortId(index), path),
                PortKind::Listen => opened.listen_at(PortId(index), path, self.access),
            };
            if usable && port.suspend == SuspendMode::Suspend {
                opened.pending.push(PendingPort { id: PortId(index), name: port.address.clone() });
            }
        }
        if let DefaultPort::Listen(suspend) = self.default_port {
            let id = PortId(self.ports.len());
            let path = self.folder.join(self.name.to_string());
            if opened.listen_at(id, &path, self.access) {
                if suspend == SuspendMode::Suspend {
                    opened.pending.push(PendingPort { id, name: path.display().to_string() });
                }
                opened.default_path = Some(path);
            }
        }
        opened
    }

    fn pause_settings(&self) -> PauseSettings {
        let text_of_ports = || {
            let texts: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
            texts.join(";")
        };
        let suspends = self.default_port == DefaultPort::Listen(SuspendMode::Suspend);
        PauseSettings {
            diagnostic_ports: self.ports_text.clone().unwrap_or_else(text_of_ports),
            default_port_suspend: self.default_port_suspend.unwrap_or_else(|| suspends.into()),
        }
    }
}

#[derive(Default)]
struct OpenedPorts {
    listeners: Vec<(PortId, PortListener)>,
    connects: Vec<(PortId, PathBuf)>,
    pending: Vec<PendingPort>,
    default_path: Option<PathBuf>,
    unusable: Vec<String>,
}

impl OpenedPorts {
    /// An unusable port never counts as suspended: nobody could ever resume it.
    // spec: SRV-SUSPEND-4
    fn listen_at(&mut self, id: PortId, path: &Path, access: PortAccess) -> bool {
        match PortListener::bind(path, BindOptions { access }) {
            Ok(listener) => {
                self.listeners.push((id, listener));
                true
            }
            Err(error) => {
                self.unusable.push(format!("Diagnostic Port not available: {error}"));
                false
            }
        }
    }

    fn connect_to(&mut self, id: PortId, path: &Path) -> bool {
        match check_path(path) {
            Ok(()) => {
                self.connects.push((id, path.to_owned()));
                true
            }
            Err(error) => {
                self.unusable.push(format!("Diagnostic Port not available: {error}"));
                false
            }
        }
    }
}

/// Half of the process's descriptors at most: the other half is for peers that say something, and for the program.
fn half_open_limit(wanted: usize) -> usize {
    let half = descriptor_limit().map_or(usize::MAX, |limit| limit / 2);
    wanted.min(half)
}

/// Removes leftovers of dead processes, beside everything else: a folder of temporary files may be large.
fn sweep(folder: PathBuf) {
    let parse = |name: &str| {
        let name = PortName::parse(name)?;
        Some(NamedProcess { pid: name.process_id, key: name.key })
    };
    tokio::task::spawn_blocking(move || match sweep_stale(&folder, parse) {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => tracing::info!(?removed, "swept stale sockets of ours"),
        Err(error) => tracing::debug!(%error, "folder not swept"),
    });
}

async fn announce_while_suspended(shared: Arc<Shared>, settings: PauseSettings) {
    let announced = announce_pauses(
        shared.gate.subscribe(),
        settings,
        Arc::clone(&shared.notice),
        shared.limits.pause_notice,
    );
    tokio::select! {
        () = shared.stopping.cancelled() => {}
        () = announced => {}
    }
}

async fn tell_host_of_resume(shared: Arc<Shared>) {
    tokio::select! {
        () = shared.stopping.cancelled() => return,
        () = shared.gate.wait_resumed() => {}
    }
    let host = Arc::clone(&shared.host);
    if tokio::task::spawn_blocking(move || host.resumed()).await.is_err() {
        tracing::warn!("the host failed in its resume hook");
    }
}

//! The process that gets recorded, however it was found.

use std::path::Path;

use diagport_client::{Client, Deadline, ListeningPort, ReverseServer, Target, TargetSelector, resolve};
use diagport_codec::{PortKind, ToolPort};
use diagport_transport::discover;

use super::child::{LaunchFailure, LaunchedChild, launch, let_others_go};
use super::options::TraceCommand;
use super::stop_trigger::StopTriggers;
use crate::exit::{Exit, Failure};
use crate::target_options::{no_connection, tool_port};

/// A target, and what has to live as long as we talk to it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) client: Client,
    /// What people call the target: its executable, or the port's path.
    pub(crate) label: String,
    pub(crate) child: Option<LaunchedChild>,
    /// Lets further arrivals go on, and owns the listener.
    gate: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.abort();
        }
    }
}

impl Source {
    /// Finds, waits for or launches the target of the command.
    pub(crate) async fn open(
        command: &TraceCommand,
        triggers: &mut StopTriggers,
    ) -> Result<Self, LaunchFailure> {
        if !command.child.is_empty() {
            let (child, server, runtime) = launch(&command.child, command.launch_limit(), triggers).await?;
            let label =
                label_of(u32::try_from(runtime.process_id()).ok(), &command.child[0].to_string_lossy());
            return Ok(Self {
                client: Client::new(Target::Advertised(runtime)),
                label,
                child: Some(child),
                gate: Some(let_others_go(server)),
            });
        }
        let selector = match (command.process_id, &command.name, &command.diagnostic_port) {
            (Some(pid), _, _) => TargetSelector::ProcessId(pid),
            (_, Some(name), _) => TargetSelector::Name(name.clone()),
            (_, _, Some(text)) => {
                let port = tool_port(text, PortKind::Listen)?;
                if port.kind == PortKind::Listen {
                    return Ok(Self::arriving_at(&port, command, triggers).await?);
                }
                TargetSelector::Port(port.address.into())
            }
            (None, None, None) => unreachable!("the argument group requires one of them"),
        };
        Ok(Self::listening(resolve(&selector).map_err(Failure::from)?))
    }

    fn listening(port: ListeningPort) -> Self {
        let path = port.path().display().to_string();
        let label = port.process_id().map_or(path, |pid| label_of(Some(pid), &format!("process {pid}")));
        Self { client: Client::new(Target::Listening(port)), label, child: None, gate: None }
    }

    async fn arriving_at(
        port: &ToolPort,
        command: &TraceCommand,
        triggers: &mut StopTriggers,
    ) -> Result<Self, Failure> {
        let deadline = Deadline::after(command.connection_limit());
        let server = ReverseServer::bind(port.address.as_ref())?;
        // The target has a folder of its own.
        let absolute = std::path::absolute(&port.address).unwrap_or_else(|_| port.address.clone().into());
        command.say(&format!(
            "Waiting for connection on {} (at most {} s, see --timeout); start the target with \
             DOTNET_DiagnosticPorts={}",
            port.address,
            deadline.limit().as_secs_f64(),
            absolute.display()
        ));
        let runtime = tokio::select! {
            arrived = deadline.run(server.accept()) => arrived.ok_or_else(|| no_connection(port, deadline))?,
            _ = triggers.next() => {
                return Err(Failure::new(Exit::Failed, format!("interrupted while nobody had connected to {}", port.address)));
            }
        };
        Ok(Self {
            client: Client::new(Target::Advertised(runtime)),
            label: port.address.clone(),
            child: None,
            gate: Some(let_others_go(server)),
        })
    }

    /// The first part of a default file name.
    pub(crate) fn file_stem(&self) -> String {
        let path = Path::new(&self.label);
        path.file_name().map_or_else(|| self.label.clone(), |name| name.to_string_lossy().into_owned())
    }
}

fn label_of(pid: Option<u32>, otherwise: &str) -> String {
    let executable = pid.and_then(|pid| discover::process_executable(pid).ok());
    let label = executable.map(|path| path.display().to_string());
    // The kernel says so of a program that was replaced since.
    label.as_deref().map_or(otherwise, |label| label.trim_end_matches(" (deleted)")).to_owned()
}

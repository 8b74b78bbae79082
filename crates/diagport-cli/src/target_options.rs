//! The options by which every client command names its target, and the way from there to a target.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use diagport_client::time_text::parse_duration;
use diagport_client::{Client, ClientError, Deadline, ReverseServer, Target, TargetSelector, resolve};
use diagport_codec::{PortKind, ToolPort, parse_tool_port};

use crate::console;
use crate::exit::{Exit, Failure};

/// A process to talk to: exactly one of the three.
#[derive(Debug, Clone, Args)]
#[group(id = "target", required = true, multiple = false)]
pub(crate) struct TargetOptions {
    /// Process id of the target
    #[arg(allow_negative_numbers = true, short = 'p', long, value_name = "PID")]
    pub(crate) process_id: Option<u32>,
    /// Name of the target, if exactly one process with a port has it
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Path of a diagnostic port: connect to it, or with `,listen` wait for the target to connect
    #[arg(long, visible_aliases = ["dport", "port"], value_name = "PATH[,connect|listen]")]
    pub(crate) diagnostic_port: Option<String>,
}

/// What every client command has.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonOptions {
    /// Limit for the whole command, such as 10s or 00:00:10
    #[arg(allow_negative_numbers = true, long, value_name = "DURATION", default_value = "10s", value_parser = parse_limit)]
    pub(crate) timeout: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A limit is more than nothing.
pub(crate) fn parse_limit(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("a limit of nothing cannot be kept".to_owned()),
        Ok(limit) => Ok(limit),
        Err(error) => Err(error.to_string()),
    }
}

/// A target, and the listener it came through, which has to live as long.
pub(crate) struct Found {
    pub(crate) client: Client,
    /// Held, not used: dropping it removes the socket.
    pub(crate) _listener: Option<ReverseServer>,
}

impl TargetOptions {
    /// Finds the target of a command of one request: a bare port path is one to connect to.
    pub(crate) async fn find(&self, deadline: Deadline) -> Result<Found, Failure> {
        let selector = match (self.process_id, &self.name, &self.diagnostic_port) {
            (Some(pid), _, _) => TargetSelector::ProcessId(pid),
            (_, Some(name), _) => TargetSelector::Name(name.clone()),
            (_, _, Some(text)) => {
                let port = tool_port(text, PortKind::Connect)?;
                if port.kind == PortKind::Listen {
                    return wait_for(&port, deadline).await;
                }
                TargetSelector::Port(PathBuf::from(port.address))
            }
            (None, None, None) => unreachable!("the argument group requires one of them"),
        };
        let client = Client::new(Target::Listening(resolve(&selector)?));
        Ok(Found { client, _listener: None })
    }
}

/// Reads a port option; `default` is what a path without a word means.
pub(crate) fn tool_port(text: &str, default: PortKind) -> Result<ToolPort, Failure> {
    let port =
        parse_tool_port(text).map_err(|error| Failure::new(Exit::Usage, format!("`{text}`: {error}")))?;
    let kind = if text.contains(',') { port.kind } else { default };
    Ok(ToolPort { kind, ..port })
}

async fn wait_for(port: &ToolPort, deadline: Deadline) -> Result<Found, Failure> {
    let listener = ReverseServer::bind(port.address.as_ref())?;
    console::note(&format!("Waiting for connection on {}", port.address));
    let runtime = deadline.run(listener.accept()).await.ok_or_else(|| no_connection(port, deadline))?;
    Ok(Found { client: Client::new(Target::Advertised(runtime)), _listener: Some(listener) })
}

pub(crate) fn no_connection(port: &ToolPort, deadline: Deadline) -> Failure {
    let phase = diagport_client::Phase::Advertise;
    ClientError::TimedOut { phase, port: port.address.clone(), limit: deadline.limit() }.into()
}

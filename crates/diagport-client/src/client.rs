//! The commands, each one request on a connection of its own.

use diagport_codec::{
    EnvironmentReply, ProcessInfo, ProcessInfoVersion, Request, decode_environment, decode_session_id,
};

use crate::collect::{self, CollectError, CollectRequest, Collection};
use crate::deadline::Deadline;
use crate::errors::{ClientError, Phase};
use crate::exchange::{exchange, malformed, read_continuation};
use crate::target::Target;

/// Talks to one process. Cheap to clone; requests of clones do not wait for each other.
#[derive(Debug, Clone)]
pub struct Client {
    target: Target,
}

impl Client {
    /// A client of that target. Connects to nobody yet.
    pub fn new(target: Target) -> Self {
        Self { target }
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Who the process is: the newest of the three forms it knows, asked for from the newest down.
    ///
    /// # Errors
    /// [`ClientError`]; the deadline covers all three attempts.
    // spec: CLI-INFO-1
    pub async fn process_info(&self, deadline: Deadline) -> Result<ProcessInfo, ClientError> {
        for version in [ProcessInfoVersion::V3, ProcessInfoVersion::V2] {
            match self.process_info_as(version, deadline).await {
                Err(error) if error.is_unknown_command() => {}
                result => return result,
            }
        }
        self.process_info_as(ProcessInfoVersion::V1, deadline).await
    }

    async fn process_info_as(
        &self,
        version: ProcessInfoVersion,
        deadline: Deadline,
    ) -> Result<ProcessInfo, ClientError> {
        let payload = self.request(&Request::ProcessInfo(version), deadline).await?;
        ProcessInfo::decode(version, &payload)
            .map_err(|error| malformed(Phase::Reply(version.command()), &self.target.describe(), error))
    }

    /// The process's environment block, each entry `NAME=value`, in its order.
    ///
    /// # Errors
    /// [`ClientError`]; a block that is shorter or longer than announced is malformed.
    // spec: CLI-ENV-1
    pub async fn environment(&self, deadline: Deadline) -> Result<Vec<String>, ClientError> {
        let request = Request::ProcessEnvironment;
        let port = self.target.describe();
        let mut answer = exchange(&self.target, &request, deadline).await?;
        let announced = EnvironmentReply::decode(&answer.payload)
            .map_err(|error| malformed(Phase::Reply(request.command()), &port, error))?;
        let expected_bytes = usize::try_from(announced.incoming_bytes).unwrap_or(usize::MAX);
        let block = read_continuation(&mut answer.stream, expected_bytes, &port, deadline).await?;
        decode_environment(&block).map_err(|error| malformed(Phase::Environment, &port, error))
    }

    /// Lets a suspended startup go on, as far as this port is concerned. Harmless on a running process.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn resume(&self, deadline: Deadline) -> Result<(), ClientError> {
        self.request(&Request::ResumeRuntime, deadline).await.map(|_| ())
    }

    /// Stops a session. The answer comes when its stream has been written to the end, so whoever reads that stream
    /// must go on reading meanwhile. A runtime answers with success for a session that it does not have.
    ///
    /// # Errors
    /// [`ClientError`]; an answer that names another session is malformed.
    // spec: CLI-STOP-1
    pub async fn stop_tracing(&self, session_id: u64, deadline: Deadline) -> Result<(), ClientError> {
        let request = Request::StopTracing { session_id };
        let payload = self.request(&request, deadline).await?;
        let wrong =
            |detail: String| malformed(Phase::Reply(request.command()), &self.target.describe(), detail);
        match decode_session_id(&payload) {
            Ok(stopped) if stopped == session_id => Ok(()),
            Ok(other) => Err(wrong(format!("session {other} was stopped instead of {session_id}"))),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Starts a session; its stream is what follows on the connection.
    ///
    /// # Errors
    /// [`CollectError`].
    pub async fn collect(
        &self,
        request: &CollectRequest,
        deadline: Deadline,
    ) -> Result<Collection, CollectError> {
        collect::collect(&self.target, request, deadline).await
    }

    /// Any request that has a reply and nothing behind it; returns the success's payload.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn request(&self, request: &Request, deadline: Deadline) -> Result<Vec<u8>, ClientError> {
        Ok(exchange(&self.target, request, deadline).await?.payload)
    }
}

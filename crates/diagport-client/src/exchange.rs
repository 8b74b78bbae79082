//! One request and its reply on one connection.

use std::io;

use diagport_codec::{Command, IpcMessage, Prefix, Reply, Request, decode_prefix};
use diagport_transport::IpcStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::deadline::Deadline;
use crate::errors::{ClientError, Phase};
use crate::target::Target;

/// What is left of an exchange: the success's payload, and the connection with whatever follows it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) payload: Vec<u8>,
    pub(crate) stream: IpcStream,
}

/// Sends a request on a connection of its own and reads exactly its reply, so that the first byte left on the
/// connection is the first byte behind the reply.
// spec: CLI-EXCHANGE-1
pub(crate) async fn exchange(
    target: &Target,
    request: &Request,
    deadline: Deadline,
) -> Result<Answer, ClientError> {
    let command = request.command();
    let bytes = request.encode()?.encode()?;
    let mut stream = target.open(deadline).await?;
    let port = target.describe();
    send(&mut stream, &bytes, &port, deadline).await?;
    let message = read_reply(&mut stream, command, &port, deadline).await?;
    match Reply::decode(&message).map_err(|error| malformed(Phase::Reply(command), &port, error))? {
        Reply::Ok { payload } => Ok(Answer { payload, stream }),
        Reply::Error { hresult, message } => Err(ClientError::Refused { port, command, hresult, message }),
    }
}

async fn send(
    stream: &mut IpcStream,
    bytes: &[u8],
    port: &str,
    deadline: Deadline,
) -> Result<(), ClientError> {
    let write = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    match deadline.run(write).await {
        Some(Ok(())) => Ok(()),
        Some(Err(source)) => Err(broken(Phase::Send, port, 0, source)),
        None => Err(timed_out(Phase::Send, port, deadline)),
    }
}

async fn read_reply(
    stream: &mut IpcStream,
    command: Command,
    port: &str,
    deadline: Deadline,
) -> Result<IpcMessage, ClientError> {
    let phase = Phase::Reply(command);
    let mut bytes = Vec::new();
    loop {
        let needed_bytes = match decode_prefix(&bytes).map_err(|error| malformed(phase, port, error))? {
            Prefix::Complete { message, .. } => return Ok(message),
            Prefix::Incomplete { needed_bytes } => needed_bytes,
        };
        let mut piece = vec![0; needed_bytes];
        match deadline.run(stream.read(&mut piece)).await {
            None => return Err(timed_out(phase, port, deadline)),
            Some(Err(source)) => return Err(broken(phase, port, bytes.len(), source)),
            Some(Ok(0)) => {
                return Err(ClientError::Closed {
                    phase,
                    port: port.to_owned(),
                    received_bytes: bytes.len(),
                });
            }
            Some(Ok(count)) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// Reads exactly `expected_bytes` up to the end of the connection.
pub(crate) async fn read_continuation(
    stream: &mut IpcStream,
    expected_bytes: usize,
    port: &str,
    deadline: Deadline,
) -> Result<Vec<u8>, ClientError> {
    let phase = Phase::Environment;
    let mut bytes = Vec::new();
    // One byte more than announced, to see that the block ends where it should.
    let limit = u64::try_from(expected_bytes).unwrap_or(u64::MAX).saturating_add(1);
    match deadline.run(stream.take(limit).read_to_end(&mut bytes)).await {
        None => return Err(timed_out(phase, port, deadline)),
        Some(Err(source)) => return Err(broken(phase, port, bytes.len(), source)),
        Some(Ok(_)) => {}
    }
    if bytes.len() < expected_bytes {
        return Err(ClientError::Closed { phase, port: port.to_owned(), received_bytes: bytes.len() });
    }
    if bytes.len() > expected_bytes {
        let detail = format!("more than the announced {expected_bytes} bytes");
        return Err(ClientError::Malformed { phase, port: port.to_owned(), detail });
    }
    Ok(bytes)
}

/// A peer that closes with bytes of ours unread shows as a reset; it is no other end than a plain one.
fn broken(phase: Phase, port: &str, received_bytes: usize, source: io::Error) -> ClientError {
    let port = port.to_owned();
    match source.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            ClientError::Closed { phase, port, received_bytes }
        }
        _ => ClientError::Io { phase, port, source },
    }
}

pub(crate) fn malformed(phase: Phase, port: &str, error: impl std::fmt::Display) -> ClientError {
    ClientError::Malformed { phase, port: port.to_owned(), detail: error.to_string() }
}

fn timed_out(phase: Phase, port: &str, deadline: Deadline) -> ClientError {
    ClientError::TimedOut { phase, port: port.to_owned(), limit: deadline.limit() }
}

//! One request off a connection: in time, judged early, never more than it announces.

use std::io;
use std::time::Duration;

use diagport_codec::{DecodeError, HResult, IpcMessage, Prefix, decode_prefix, end_of_input};
use diagport_transport::IpcStream;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Bytes asked for at once. Most requests are shorter; a silent peer costs no more than this.
const READ_BYTES: usize = 1024;

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The bytes are wrong, or ended early.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It did not come in time.
    #[error("request incomplete after {limit:?}")]
    TooLate { limit: Duration },
    /// The connection broke.
    #[error("connection lost: {0}")]
    Lost(#[from] io::Error),
}

impl RequestError {
    pub(crate) fn hresult(&self) -> HResult {
        match self {
            Self::Decode(error) => error.hresult(),
            Self::TooLate { .. } | Self::Lost(_) => HResult::BAD_ENCODING,
        }
    }
}

/// Waits for the first bytes and returns them. Empty: the peer ended its direction.
pub(crate) async fn first_bytes(stream: &mut IpcStream) -> io::Result<Vec<u8>> {
    let mut chunk = [0; READ_BYTES];
    let received = stream.read(&mut chunk).await?;
    Ok(chunk[..received].to_vec())
}

/// Completes a request that began with `bytes`, within `limit` from now.
// spec: SRV-REQ-1, SRV-REQ-2
pub(crate) async fn complete_request(
    stream: &mut IpcStream,
    bytes: Vec<u8>,
    limit: Duration,
) -> Result<IpcMessage, RequestError> {
    match timeout(limit, read_to_end_of_message(stream, bytes)).await {
        Ok(result) => result,
        Err(_) => Err(RequestError::TooLate { limit }),
    }
}

async fn read_to_end_of_message(
    stream: &mut IpcStream,
    mut bytes: Vec<u8>,
) -> Result<IpcMessage, RequestError> {
    let mut chunk = [0; READ_BYTES];
    loop {
        let needed_bytes = match decode_prefix(&bytes)? {
            Prefix::Complete { message, .. } => return Ok(message),
            Prefix::Incomplete { needed_bytes } => needed_bytes,
        };
        // Not a byte beyond the message: what follows may belong to its command.
        let room = needed_bytes.min(READ_BYTES);
        match stream.read(&mut chunk[..room]).await? {
            0 => return Err(end_of_input(&bytes).into()),
            received => bytes.extend_from_slice(&chunk[..received]),
        }
    }
}

//! Calls into the host: on a thread that may block, within a time, panics contained.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::shared::Shared;
use crate::{Host, HostError};

// spec: SRV-HOST-1
pub(crate) async fn call_host<T: Send + 'static>(
    shared: &Shared,
    limit: Duration,
    call: impl FnOnce(&dyn Host) -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let host = Arc::clone(&shared.host);
    let result = match timeout(limit, tokio::task::spawn_blocking(move || call(&*host))).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(HostError::failed("the process failed inside the command")),
        Err(_) => Err(HostError::failed(format!("the process did not finish the command within {limit:?}"))),
    };
    if let Err(error) = &result {
        tracing::info!(%error, "host refused a command");
    }
    result
}

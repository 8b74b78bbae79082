//! Calls into the host: on a thread that may block, within a time, panics contained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::shared::Shared;
use crate::{Host, HostError};

// spec: SRV-HOST-1
pub(crate) async fn call_host<T: Send + 'static>(
    shared: &Shared,
    limit: Duration,
    call: impl FnOnce(&dyn Host) -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let host = Arc::clone(&shared.host);
    let end = Instant::now() + limit;
    // The threads that may block are the whole program's: a host that hangs takes no more than its share of them.
    let turn = timeout_at(end, Arc::clone(&shared.host_calls).acquire_owned()).await;
    let Ok(Ok(permit)) = turn else {
        return Err(HostError::failed(format!("the process is busy with other commands for {limit:?}")));
    };
    let calling = tokio::task::spawn_blocking(move || {
        // Held until the call has ended, which may be after we stopped waiting.
        let _permit = permit;
        call(&*host)
    });
    let result = match timeout_at(end, calling).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(panicked()),
        Err(_) => Err(HostError::failed(format!("the process did not finish the command within {limit:?}"))),
    };
    if let Err(error) = &result {
        tracing::info!(%error, "host refused a command");
    }
    result
}

/// A call that needs no waiting, here and now.
pub(crate) fn ask_host<T>(shared: &Shared, call: impl FnOnce(&dyn Host) -> T) -> Result<T, HostError> {
    catch_unwind(AssertUnwindSafe(|| call(&*shared.host))).map_err(|_| panicked())
}

fn panicked() -> HostError {
    HostError::failed("the process failed inside the command")
}

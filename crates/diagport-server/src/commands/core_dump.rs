//! `GenerateCoreDump` 1 to 3.

use std::sync::Arc;

use diagport_codec::{GenerateCoreDump, GenerateCoreDumpVersion, HResult, Reply};
use tokio::time::timeout;

use crate::HostError;
use crate::answer::Answer;
use crate::host_call::call_host;
use crate::shared::Shared;

// spec: SRV-DUMP-1, SRV-DUMP-2
pub(crate) async fn generate_core_dump(shared: &Shared, request: GenerateCoreDump) -> Answer {
    let version = request.version;
    let result = if request.dump_type.is_known() {
        write_dump(shared, request).await
    } else {
        Err(HostError::new(HResult::FAIL, format!("there is no dump type {}", request.dump_type.0)))
    };
    match result {
        Ok(()) => Answer::success(),
        Err(HostError { hresult, message }) => {
            let message = (version == GenerateCoreDumpVersion::V3).then_some(message);
            Reply::Error { hresult, message }.into()
        }
    }
}

async fn write_dump(shared: &Shared, request: GenerateCoreDump) -> Result<(), HostError> {
    let limit = shared.limits.core_dump;
    let turn = timeout(limit, Arc::clone(&shared.core_dumps).acquire_owned()).await;
    let Ok(Ok(permit)) = turn else {
        return Err(HostError::failed(format!("another dump has been under way for {limit:?}")));
    };
    call_host(shared, limit, move |host| {
        // Held until the dump has ended, which may be after we stopped waiting.
        let _permit = permit;
        host.generate_core_dump(&request)
    })
    .await
}

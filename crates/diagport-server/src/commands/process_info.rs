//! `ProcessInfo` 1 to 3.

use diagport_codec::{HResult, ProcessInfo, ProcessInfoVersion, Reply};

use crate::answer::Answer;
use crate::host_call::ask_host;
use crate::shared::Shared;

// spec: SRV-INFO-1
pub(crate) fn process_info(shared: &Shared, version: ProcessInfoVersion) -> Answer {
    let identity = match ask_host(shared, |host| host.process_info()) {
        Ok(identity) => identity,
        Err(error) => return Answer::error(error.hresult),
    };
    let info = ProcessInfo {
        process_id: identity.process_id,
        cookie: shared.cookie,
        command_line: identity.command_line,
        operating_system: identity.operating_system,
        architecture: identity.architecture,
        entry_assembly: Some(identity.entry_assembly),
        clr_product_version: Some(identity.product_version),
        portable_rid: Some(identity.portable_rid),
    };
    match info.encode(version) {
        Ok(payload) => Reply::Ok { payload }.into(),
        Err(error) => {
            tracing::warn!(%error, "the host's identity does not fit a reply");
            Answer::error(HResult::FAIL)
        }
    }
}

//! The plainest host: this process.

use std::env;
use std::path::Path;

use diagport_session::ProcessDescription;

use crate::{EnvironmentChange, EnvironmentTable, Host, HostError, HostIdentity};

/// A host that knows who this process is and lends its environment to the tools; everything else is refused.
///
/// Embedders with more to offer wrap it.
#[derive(Debug)]
pub struct OwnProcess {
    identity: HostIdentity,
    environment: EnvironmentTable,
}

impl OwnProcess {
    /// Reads this process's identity and copies its environment.
    #[must_use]
    pub fn new() -> Self {
        Self { identity: own_identity(), environment: EnvironmentTable::of_this_process() }
    }

    /// The environment with the tools' changes.
    #[must_use]
    pub const fn environment_table(&self) -> &EnvironmentTable {
        &self.environment
    }
}

impl Default for OwnProcess {
    fn default() -> Self {
        Self::new()
    }
}

impl Host for OwnProcess {
    fn process_info(&self) -> HostIdentity {
        self.identity.clone()
    }

    fn environment(&self) -> Result<Vec<String>, HostError> {
        Ok(self.environment.entries())
    }

    fn set_environment_variable(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Result<EnvironmentChange, HostError> {
        Ok(self.environment.set(name, value))
    }
}

fn own_identity() -> HostIdentity {
    let ProcessDescription { process_id, command_line, operating_system, architecture } =
        ProcessDescription::of_this_process();
    let entry_assembly = env::current_exe()
        .ok()
        .as_deref()
        .and_then(Path::file_name)
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    HostIdentity {
        process_id: process_id.into(),
        command_line,
        operating_system,
        entry_assembly,
        product_version: concat!("9.0.0+diagport-", env!("CARGO_PKG_VERSION")).to_owned(),
        portable_rid: format!("{}-{architecture}", portable_os(env::consts::OS)),
        architecture,
    }
}

fn portable_os(rust_name: &str) -> &str {
    match rust_name {
        "linux" if cfg!(target_env = "musl") => "linux-musl",
        "macos" => "osx",
        "windows" => "win",
        other => other,
    }
}

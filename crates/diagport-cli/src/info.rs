//! `diagport info`: who a process says it is.

use clap::Args;
use diagport_client::Deadline;
use diagport_codec::ProcessInfo;
use serde::Serialize;

use crate::console;
use crate::exit::Failure;
use crate::target_options::{CommonOptions, TargetOptions};

/// Show what a process says about itself
#[derive(Debug, Clone, Args)]
pub(crate) struct InfoCommand {
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// A ProcessInfo reply as people and JSON see it.
#[derive(Debug, Serialize)]
pub(crate) struct InfoReport {
    process_id: u64,
    runtime_cookie: String,
    command_line: String,
    operating_system: String,
    architecture: String,
    entry_assembly: Option<String>,
    clr_product_version: Option<String>,
    portable_rid: Option<String>,
}

impl From<ProcessInfo> for InfoReport {
    fn from(info: ProcessInfo) -> Self {
        Self {
            process_id: info.process_id,
            runtime_cookie: info.cookie.to_string(),
            command_line: info.command_line,
            operating_system: info.operating_system,
            architecture: info.architecture,
            entry_assembly: info.entry_assembly,
            clr_product_version: info.clr_product_version,
            portable_rid: info.portable_rid,
        }
    }
}

impl InfoCommand {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let deadline = Deadline::after(self.common.timeout);
        let found = self.target.find(deadline).await?;
        let report = InfoReport::from(found.client.process_info(deadline).await?);
        if self.common.json {
            console::result_json(&report);
            return Ok(());
        }
        let port = found.client.target().describe();
        let unknown = "(the runtime is too old to say)";
        let or_unknown = |field: &Option<String>| field.clone().unwrap_or_else(|| unknown.to_owned());
        for (label, value) in [
            ("Process id", report.process_id.to_string()),
            ("Command line", report.command_line),
            ("Operating system", report.operating_system),
            ("Architecture", report.architecture),
            ("Entry assembly", or_unknown(&report.entry_assembly)),
            ("Runtime version", or_unknown(&report.clr_product_version)),
            ("Portable rid", or_unknown(&report.portable_rid)),
            ("Runtime cookie", report.runtime_cookie),
            ("Port", port),
        ] {
            console::result_line(&format!("{label:<17}: {value}"));
        }
        Ok(())
    }
}

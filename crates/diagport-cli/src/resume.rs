//! `diagport resume`: lets a suspended startup go on.

use clap::Args;
use diagport_client::Deadline;
use serde_json::json;

use crate::console;
use crate::exit::Failure;
use crate::target_options::{CommonOptions, TargetOptions};

/// Let a suspended process start, as far as this port is concerned
#[derive(Debug, Clone, Args)]
pub(crate) struct ResumeCommand {
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

impl ResumeCommand {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let deadline = Deadline::after(self.common.timeout);
        let found = self.target.find(deadline).await?;
        found.client.resume(deadline).await?;
        let port = found.client.target().describe();
        if self.common.json {
            console::result_json(&json!({ "status": "ok", "port": port }));
        } else {
            console::result_line(&format!(
                "Resumed on {port}. A process that is suspended on several ports starts when each has been resumed."
            ));
        }
        Ok(())
    }
}

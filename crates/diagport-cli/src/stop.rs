//! `diagport stop`: ends a session from outside.

use clap::Args;
use diagport_client::Deadline;
use serde_json::json;

use crate::console;
use crate::exit::Failure;
use crate::target_options::{CommonOptions, TargetOptions};

/// Stop a session of a process; its recorder ends with a complete file
#[derive(Debug, Clone, Args)]
pub(crate) struct StopCommand {
    #[command(flatten)]
    target: TargetOptions,
    /// Id of the session, as its recorder printed it; decimal, or hexadecimal with 0x
    #[arg(long, value_name = "ID", required = true, num_args = 1.., value_parser = parse_session_id)]
    session_id: Vec<u64>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

fn parse_session_id(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

impl StopCommand {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let deadline = Deadline::after(self.common.timeout);
        let found = self.target.find(deadline).await?;
        for &session_id in &self.session_id {
            found.client.stop_tracing(session_id, deadline).await?;
            if self.common.json {
                console::result_json(&json!({ "status": "ok", "session_id": session_id }));
            } else {
                console::result_line(&format!("The target acknowledged the stop of session {session_id}."));
            }
        }
        Ok(())
    }
}

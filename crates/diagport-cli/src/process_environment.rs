//! `diagport env`: a process's environment block.

use clap::Args;
use diagport_client::Deadline;
use serde::Serialize;

use crate::console;
use crate::exit::Failure;
use crate::target_options::{CommonOptions, TargetOptions};

/// Show the environment of a process
#[derive(Debug, Clone, Args)]
pub(crate) struct EnvCommand {
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// An array rather than an object: a name may stand in a block twice.
#[derive(Debug, Serialize)]
struct EnvReport {
    environment: Vec<Variable>,
}

#[derive(Debug, Serialize)]
struct Variable {
    name: String,
    value: String,
}

impl Variable {
    fn of(entry: &str) -> Self {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        Self { name: name.to_owned(), value: value.to_owned() }
    }
}

impl EnvCommand {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let deadline = Deadline::after(self.common.timeout);
        let found = self.target.find(deadline).await?;
        let entries = found.client.environment(deadline).await?;
        if self.common.json {
            let environment = entries.iter().map(|entry| Variable::of(entry)).collect();
            console::result_json(&EnvReport { environment });
        } else {
            entries.iter().for_each(|entry| console::result_line(entry));
        }
        Ok(())
    }
}

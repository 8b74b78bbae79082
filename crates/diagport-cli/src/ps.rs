//! `diagport ps`: every process with a port, and whether it answers.

use std::time::Duration;

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use diagport_client::{
    Client, ClientError, Deadline, DiscoveredProcess, Target, UnreachableError, list_processes,
};
use diagport_codec::ProcessInfo;
use diagport_transport::discover;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::console;
use crate::exit::{Exit, Failure};

/// How long `ps` waits for answers, all processes together: they are asked at the same time.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// List the processes that have a diagnostic port
#[derive(Debug, Clone, Args)]
pub(crate) struct PsCommand {
    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    NotResponding,
    Refused,
    Faulty,
}

#[derive(Debug, Serialize)]
struct Row {
    process_id: u32,
    /// Its pid in its own namespace, where that is another one.
    namespace_pid: u32,
    name: String,
    executable: Option<String>,
    command_line: String,
    port: String,
    state: State,
    problem: Option<String>,
    runtime_cookie: Option<String>,
    clr_product_version: Option<String>,
    entry_assembly: Option<String>,
}

impl PsCommand {
    // spec: CLI-PS-1
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let processes = tokio::task::spawn_blocking(list_processes)
            .await
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let found = processes.len();
        let deadline = Deadline::after(ANSWER_LIMIT);
        let mut asking = JoinSet::new();
        for process in processes {
            asking.spawn(async move { ask(process, deadline).await });
        }
        let folder = discover::temp_dir();
        if let Err(error) = std::fs::read_dir(&folder) {
            console::note(&format!("warning: ports in {} cannot be seen: {error}", folder.display()));
        }
        let mut rows: Vec<Row> = asking.join_all().await.into_iter().flatten().collect();
        rows.sort_by_key(|row| row.process_id);
        if self.json {
            console::result_json(&rows);
        } else {
            print_table(&rows, found);
        }
        Ok(())
    }
}

/// The row of a process; none if nobody listens on any of its files.
async fn ask(process: DiscoveredProcess, deadline: Deadline) -> Option<Row> {
    let client = Client::new(Target::Listening(process.port.clone()));
    let answer = client.process_info(deadline).await;
    if let Err(ClientError::Unreachable(
        UnreachableError::NobodyListens { .. }
        | UnreachableError::NoSuchSocket { .. }
        | UnreachableError::SomebodyElse { .. },
    )) = &answer
    {
        return None;
    }
    Some(row(process, &client, answer))
}

fn row(process: DiscoveredProcess, client: &Client, answer: Result<ProcessInfo, ClientError>) -> Row {
    let (state, problem, info) = match answer {
        Ok(info) => (State::Ok, None, Some(info)),
        Err(error @ ClientError::TimedOut { .. }) => (State::NotResponding, Some(error.to_string()), None),
        Err(error @ (ClientError::Refused { .. } | ClientError::Unreachable(_))) => {
            (State::Refused, Some(error.to_string()), None)
        }
        Err(error) => (State::Faulty, Some(error.to_string()), None),
    };
    let asked = |field: fn(&ProcessInfo) -> Option<String>| info.as_ref().and_then(field);
    Row {
        process_id: process.process_id,
        namespace_pid: process.namespace_pid,
        name: process.name,
        executable: process.executable.map(|path| path.display().to_string()),
        command_line: process.arguments.join(" "),
        port: client.target().describe(),
        state,
        problem,
        runtime_cookie: asked(|info| Some(info.cookie.to_string())),
        clr_product_version: asked(|info| info.clr_product_version.clone()),
        entry_assembly: asked(|info| info.entry_assembly.clone()),
    }
}

fn print_table(rows: &[Row], found: usize) {
    if rows.is_empty() {
        let stale =
            if found == 0 { String::new() } else { format!(" ({found} port files answer to nobody)") };
        console::result_line(&format!("No process with a diagnostic port was found{stale}"));
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["PID", "NAME", "VERSION", "STATE", "COMMAND LINE"]);
    for row in rows {
        let pid = if row.namespace_pid == row.process_id {
            row.process_id.to_string()
        } else {
            format!("{} ({} inside)", row.process_id, row.namespace_pid)
        };
        let version = row.clr_product_version.clone().unwrap_or_else(|| "-".to_owned());
        let cells = [pid, row.name.clone(), version, state_text(row), row.command_line.clone()];
        table.add_row(cells.map(|cell| console::line_text(&cell)));
    }
    table.lines().for_each(|line| console::result_line(line.trim()));
}

fn state_text(row: &Row) -> String {
    match (row.state, &row.problem) {
        (State::Ok, _) => "ok".to_owned(),
        (State::NotResponding, _) => "not responding".to_owned(),
        (State::Refused | State::Faulty, Some(problem)) => problem.clone(),
        (State::Refused | State::Faulty, None) => "refused".to_owned(),
    }
}

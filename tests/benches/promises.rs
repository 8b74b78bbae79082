//! `cargo xtask bench`: every bound that is a figure, measured as the figure itself, beside the real .NET target and LTTng-UST.
//!
//! ```text
//!   case ── prepare(target) ──▶ measure() a round: ours, peer, peer, ours, …      a quiet round counts, a disturbed one only if there are too few
//!                                   │ readings
//!                                   ▼
//!   figure: median (min..max) of both sides, ratio round by round, gate, held?     ──▶ one table, and --json FILE
//! ```
//!
//! What it does not do: it proves no correctness (the tests do) and fails no build by a bad minute of the machine. The clients know bytes
//! only and are the same for both sides; they step over blocks and, where none may be lost, over events, and look into neither.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark talks to the person who runs it")]

#[path = "promises/block_counter.rs"]
mod block_counter;
#[path = "promises/bursts.rs"]
mod bursts;
#[path = "promises/case.rs"]
mod case;
#[path = "promises/churn.rs"]
mod churn;
#[path = "promises/connect_port.rs"]
mod connect_port;
#[path = "promises/crowd.rs"]
mod crowd;
#[path = "promises/deadlines.rs"]
mod deadlines;
#[path = "promises/demo_run.rs"]
mod demo_run;
#[path = "promises/embedded.rs"]
mod embedded;
#[path = "promises/emit.rs"]
mod emit;
#[path = "promises/emit_times.rs"]
mod emit_times;
#[path = "promises/event_walk.rs"]
mod event_walk;
#[path = "promises/fairness.rs"]
mod fairness;
#[path = "promises/file_stream.rs"]
mod file_stream;
#[path = "promises/floor.rs"]
mod floor;
#[path = "promises/idle_stream.rs"]
mod idle_stream;
#[path = "promises/longest_emit.rs"]
mod longest_emit;
#[path = "promises/lttng_emit.rs"]
mod lttng_emit;
#[path = "promises/lttng_pair.rs"]
mod lttng_pair;
#[path = "promises/lttng_peer.rs"]
mod lttng_peer;
#[path = "promises/lttng_rate.rs"]
mod lttng_rate;
#[path = "promises/lttng_tail.rs"]
mod lttng_tail;
#[path = "promises/machine.rs"]
mod machine;
#[path = "promises/native_cost.rs"]
mod native_cost;
#[path = "promises/native_emitter.rs"]
mod native_emitter;
#[path = "promises/native_floor.rs"]
mod native_floor;
#[path = "promises/native_producers.rs"]
mod native_producers;
#[path = "promises/native_report.rs"]
mod native_report;
#[path = "promises/native_socket.rs"]
mod native_socket;
#[path = "promises/native_stack.rs"]
mod native_stack;
#[path = "promises/native_target.rs"]
mod native_target;
#[path = "promises/native_throughput.rs"]
mod native_throughput;
#[path = "promises/options.rs"]
mod options;
#[path = "promises/peers.rs"]
mod peers;
#[path = "promises/plain_client.rs"]
mod plain_client;
#[path = "promises/recording.rs"]
mod recording;
#[path = "promises/report.rs"]
mod report;
#[path = "promises/requests.rs"]
mod requests;
#[path = "promises/rounds.rs"]
mod rounds;
#[path = "promises/row.rs"]
mod row;
#[path = "promises/rundown.rs"]
mod rundown;
#[path = "promises/session_memory.rs"]
mod session_memory;
#[path = "promises/slots.rs"]
mod slots;
#[path = "promises/slow_reader.rs"]
mod slow_reader;
#[path = "promises/stuck_reader.rs"]
mod stuck_reader;

use std::process::ExitCode;

use anyhow::Context as _;

use crate::case::Case;
use crate::options::{Options, Order};
use crate::peers::Present;
use crate::row::Row;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match options::parse(&words) {
        Ok(Order::Measure(options)) => measure(&options),
        Ok(Order::List) => {
            cases(&Options::default()).iter().for_each(|case| println!("{}", case.name));
            return ExitCode::SUCCESS;
        }
        Ok(Order::ServeFloor(path)) => floor::serve(&path).map(|()| ExitCode::SUCCESS),
        Ok(Order::ServeReader(port)) => slow_reader::serve(&port).map(|()| ExitCode::SUCCESS),
        Ok(Order::ServeTarget) => embedded::serve().map(|()| ExitCode::SUCCESS),
        Ok(Order::ServeEmitter) => native_emitter::serve().map(|()| ExitCode::SUCCESS),
        Ok(Order::Nothing) => {
            println!("promises: a benchmark; `cargo xtask bench` runs it");
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprintln!("promises: {reason}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("promises: {error:#}");
        ExitCode::FAILURE
    })
}

/// In the order of the table.
fn cases(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(emit::cases(options));
    cases.extend(bursts::cases(options));
    cases.push(file_stream::case(options));
    cases.extend(churn::cases(options));
    cases.push(fairness::case(options));
    cases.push(longest_emit::case(options));
    cases.push(session_memory::case(options));
    cases.push(rundown::case(options));
    cases.extend(idle_stream::cases(options));
    cases.push(stuck_reader::case(options));
    cases.push(slots::case(options));
    cases.push(crowd::case(options));
    cases.extend(requests::cases(options));
    cases.push(connect_port::case(options));
    cases.push(deadlines::case(options));
    cases.push(demo_run::case(options));
    cases.extend(native_cost::cases(options));
    cases.extend(native_throughput::cases(options));
    cases.extend(lttng_emit::cases(options));
    cases.extend(lttng_tail::cases(options));
    cases.extend(lttng_rate::cases(options));
    cases.retain(|case| options.wants(case.name));
    cases
}

fn measure(options: &Options) -> anyhow::Result<ExitCode> {
    let binary = support::binary::diagport()?;
    let present = Present::find(options);
    let machine = machine::Facts::now();
    println!("ours: {}", binary.display());
    println!("{present}");
    println!("{machine}");
    let cases = cases(options);
    let mut rows: Vec<Row> = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        eprintln!("[{}/{}] {}", index + 1, cases.len(), case.name);
        rows.extend(rounds::run(case, &present, options));
    }
    report::print(&rows);
    println!("\nafter: {}", machine::Facts::now());
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report::json(&rows, &machine, &present))?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    let good = rows.iter().all(|row| !row.gate.is_bad());
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

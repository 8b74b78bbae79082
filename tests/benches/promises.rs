//! `cargo xtask bench`: every bound that is promised in seconds or milliseconds, measured as the figure itself, beside the real .NET target.
//!
//! ```text
//!   case ── prepare(target) ──▶ measure() a round: ours, peer, peer, ours, …      a quiet round counts, a disturbed one only if there are too few
//!                                   │ readings
//!                                   ▼
//!   figure: median (min-max) of both sides, ratio round by round, promise, held?  ──▶ one table, and --json FILE
//! ```
//!
//! What it does not do: it proves no correctness (the tests do) and fails no build by a bad minute of the machine. All clients here know bytes only and
//! are the same for both sides.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark talks to the person who runs it")]

#[path = "promises/bursts.rs"]
mod bursts;
#[path = "promises/case.rs"]
mod case;
#[path = "promises/connect_port.rs"]
mod connect_port;
#[path = "promises/crowd.rs"]
mod crowd;
#[path = "promises/deadlines.rs"]
mod deadlines;
#[path = "promises/demo_run.rs"]
mod demo_run;
#[path = "promises/floor.rs"]
mod floor;
#[path = "promises/idle_stream.rs"]
mod idle_stream;
#[path = "promises/machine.rs"]
mod machine;
#[path = "promises/options.rs"]
mod options;
#[path = "promises/plain_client.rs"]
mod plain_client;
#[path = "promises/report.rs"]
mod report;
#[path = "promises/requests.rs"]
mod requests;
#[path = "promises/rounds.rs"]
mod rounds;
#[path = "promises/slots.rs"]
mod slots;
#[path = "promises/stuck_reader.rs"]
mod stuck_reader;

use std::process::ExitCode;

use anyhow::Context as _;
use support::peers::Peers;

use crate::case::{Case, PEER, Side};
use crate::options::{Options, Order};
use crate::report::Row;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match options::parse(&words) {
        Ok(Order::Measure(options)) => measure(&options),
        Ok(Order::List) => {
            cases(&Options::default()).iter().for_each(|case| println!("{}", case.name));
            return ExitCode::SUCCESS;
        }
        Ok(Order::ServeFloor(path)) => floor::serve(&path).map(|()| ExitCode::SUCCESS),
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
    cases.extend(requests::cases(options));
    cases.push(crowd::case(options));
    cases.push(stuck_reader::case(options));
    cases.push(slots::case(options));
    cases.extend(idle_stream::cases(options));
    cases.push(connect_port::case(options));
    cases.extend(bursts::cases(options));
    cases.push(deadlines::case(options));
    cases.push(demo_run::case(options));
    cases.retain(|case| options.wants(case.name));
    cases
}

fn measure(options: &Options) -> anyhow::Result<ExitCode> {
    let binary = support::binary::diagport()?;
    let peer = match (options.without_peer, Peers::find().and_then(|peers| peers.epload(PEER))) {
        (true, _) => Err("left out by --no-peer".to_owned()),
        (false, None) => Err("not found here (DIAGPORT_PEERS=path/to/run)".to_owned()),
        (false, Some(_)) => Ok(Side::Peer),
    };
    let machine = machine::Facts::now();
    println!("ours: {}", binary.display());
    match &peer {
        Ok(_) => println!("peer: .NET {PEER} epload, in the same rounds"),
        Err(reason) => println!("peer: .NET {PEER} epload {reason}; its column stays empty"),
    }
    println!("{machine}");
    let cases = cases(options);
    let mut rows: Vec<Row> = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        eprintln!("[{}/{}] {}", index + 1, cases.len(), case.name);
        rows.extend(rounds::run(case, peer.clone().ok(), options));
    }
    report::print(&rows);
    println!("\nafter: {}", machine::Facts::now());
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report::json(&rows, &machine, peer.err().as_deref()))?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    let good = rows.iter().all(|row| !row.verdict.is_bad());
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

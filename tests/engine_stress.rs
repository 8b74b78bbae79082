//! A little of `cargo xtask stress`, so that the stress itself cannot rot: fixed seeds, its light form.
#![forbid(unsafe_code)]

use std::process::Command;

use support::HANG;
use support::background::run;

fn check(arguments: &[&str], says: &str) -> anyhow::Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stress"));
    command.args(arguments);
    let finished = run(command, 4 * HANG)?;
    let text = finished.text();
    anyhow::ensure!(finished.expect_code(0).is_ok() && text.contains(says), "stress {arguments:?}:\n{text}");
    Ok(())
}

#[test]
fn sessions_that_come_and_go_in_every_way_account_for_every_event() -> anyhow::Result<()> {
    check(&["--light", "--seed", "5", "--iterations", "25"], "stress: 25 iterations")
}

#[test]
fn saturated_drop_sessions_account_for_every_event() -> anyhow::Result<()> {
    check(&["--case", "accounting", "--light", "--seed", "5", "--runs", "5"], "in all 5 runs")
}

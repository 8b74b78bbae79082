//! The table of the engine's promises in `protocol-spec/session-semantics.md` and the tests must know each other.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use support::workspace_root;

const PAGE: &str = "protocol-spec/session-semantics.md";
const HEADER: &str = "| promise | tests |";
const PROMISES: [&str; 18] =
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "W16", "W17", "W18", "W19"];
/// Where tests of the engine are.
const FOLDERS: [&str; 3] = ["crates/diagport-buffer/tests", "crates/diagport-session/tests", "tests"];

/// Names of the test functions of a file, and of others.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
    lines.filter_map(|rest| Some(rest.split_once('(')?.0))
}

/// `invariant_N_…`, or `invariants_…_N_…`.
fn is_about(name: &str, number: &str) -> bool {
    name.starts_with(&format!("invariant_{number}_"))
        || (name.starts_with("invariants_") && name.contains(&format!("_{number}_")))
}

/// Each row: its promise, and its files with the tests that it names of each.
type Row = (String, Vec<(String, Vec<String>)>);

fn rows(page: &str) -> anyhow::Result<Vec<Row>> {
    let table = page.split_once(HEADER).with_context(|| format!("{PAGE} lacks `{HEADER}`"))?.1;
    let mut rows = Vec::new();
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let [promise, cell] = row.trim_matches('|').split('|').collect::<Vec<_>>()[..] else {
            anyhow::bail!("a row has two cells: {row}");
        };
        let plain = |text: &str| text.trim().trim_matches('`').to_owned();
        let files = cell.split(';').map(|part| {
            let (file, names) = part.split_once(": ").unwrap_or((part, ""));
            (plain(file), names.split(',').map(plain).filter(|name| !name.is_empty()).collect())
        });
        rows.push((promise.split_whitespace().next().unwrap_or_default().to_owned(), files.collect()));
    }
    Ok(rows)
}

#[test]
fn each_promise_has_the_tests_that_its_row_says() -> anyhow::Result<()> {
    let root = workspace_root();
    let rows = rows(&std::fs::read_to_string(root.join(PAGE))?)?;
    let promises: Vec<&str> = rows.iter().map(|(promise, _)| promise.as_str()).collect();
    ensure!(promises == PROMISES, "rows of {PAGE}: {promises:?}");
    let mut listed = BTreeSet::new();
    for (promise, files) in &rows {
        for (file, names) in files {
            let below = root.join("crates").join(file);
            let path = if below.is_file() { below } else { root.join(file) };
            let text = std::fs::read_to_string(&path).with_context(|| format!("row {promise}: {file}"))?;
            let has = |name: &String| functions(&text).any(|known| known == name);
            let missing: Vec<_> = names.iter().filter(|name| !has(name)).collect();
            ensure!(missing.is_empty(), "row {promise}: {file} has no test {missing:?}");
            ensure!(
                !names.is_empty() || functions(&text).any(|name| is_about(name, promise)),
                "row {promise}: {file} has no test of that name"
            );
            listed.insert((promise.clone(), path));
        }
    }
    for folder in FOLDERS {
        for entry in std::fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            for promise in PROMISES {
                let unlisted = functions(&text).find(|name| {
                    is_about(name, promise) && !listed.contains(&(promise.to_owned(), path.clone()))
                });
                ensure!(unlisted.is_none(), "row {promise} lacks {} with {unlisted:?}", path.display());
            }
        }
    }
    Ok(())
}

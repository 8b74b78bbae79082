//! Which crate may import which: `cargo metadata` held against the table in ARCHITECTURE.md.
//!
//! The table stands under the heading `## Dependency table`, one row a crate, fenced or not:
//!
//! ```text
//! | crate | imports |
//! | --- | --- |
//! | diagport-codec | none |
//! | diagport-session | diagport-buffer, diagport-nettrace |
//! ```
//!
//! Normal and build dependencies between members must be exactly those of the table. Development
//! dependencies are free, but nothing at all may depend on the packages at the top.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::Problem;

const FILE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Dependency table";
const HEADER: &str = "| crate | imports |";
/// Packages that nothing imports, not even for development.
const TOP: [&str; 3] = ["diagport-tests", "diagport-examples", "xtask"];

/// One member of the workspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Member {
    /// Members it needs to be built.
    pub(crate) imports: BTreeSet<String>,
    /// Members it needs for its own tests only.
    pub(crate) dev_imports: BTreeSet<String>,
    /// Root files of its libraries and programs, relative to the workspace.
    pub(crate) roots: Vec<String>,
    /// Its folder, relative to the workspace.
    pub(crate) folder: String,
}

/// The members by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    pub(crate) crates: BTreeMap<String, Member>,
}

impl Workspace {
    /// Asks cargo; needs no network.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
            .current_dir(root)
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Self::from_metadata(&serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?)
    }

    fn from_metadata(metadata: &Value) -> anyhow::Result<Self> {
        let root = PathBuf::from(metadata["workspace_root"].as_str().context("no workspace_root")?);
        let packages = metadata["packages"].as_array().context("no packages")?;
        let names: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
        let mut crates = BTreeMap::new();
        for package in packages {
            let name = package["name"].as_str().context("a package without a name")?;
            let manifest = relative(&root, package["manifest_path"].as_str().unwrap_or_default());
            let mut member = Member {
                folder: manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned(),
                ..Member::default()
            };
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                let Some(to) = dependency["name"].as_str().filter(|to| names.contains(to)) else { continue };
                let set = match dependency["kind"].as_str() {
                    Some("dev") => &mut member.dev_imports,
                    _ => &mut member.imports,
                };
                set.insert(to.to_owned());
            }
            for target in package["targets"].as_array().into_iter().flatten() {
                let kinds = target["kind"].as_array().into_iter().flatten();
                if kinds.filter_map(Value::as_str).any(|kind| matches!(kind, "lib" | "bin")) {
                    member.roots.push(relative(&root, target["src_path"].as_str().unwrap_or_default()));
                }
            }
            crates.insert(name.to_owned(), member);
        }
        Ok(Self { crates })
    }
}

fn relative(root: &Path, path: &str) -> String {
    let path = Path::new(path);
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Holds the edges of `workspace` against the table in `architecture` (the text of ARCHITECTURE.md).
pub(crate) fn check(workspace: &Workspace, architecture: Option<&str>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, member) in &workspace.crates {
        for to in member.imports.union(&member.dev_imports).filter(|to| TOP.contains(&to.as_str())) {
            problems.push(Problem::new(&member.folder, 0, format!("{name} imports {to}, which nothing may")));
        }
    }
    let Some(text) = architecture else {
        problems.push(Problem::new(FILE, 0, format!("missing: it must hold `{HEADING}` with `{HEADER}`")));
        return problems;
    };
    match parse_table(text) {
        Ok(table) => problems.extend(compare(workspace, &table)),
        Err(problem) => problems.push(problem),
    }
    problems
}

type Table = BTreeMap<String, (usize, BTreeSet<String>)>;

fn parse_table(text: &str) -> Result<Table, Problem> {
    let mut lines = text.lines().enumerate();
    if !lines.any(|(_, line)| line.trim_end() == HEADING) {
        return Err(Problem::new(FILE, 0, format!("no heading `{HEADING}`")));
    }
    let mut table = Table::new();
    let mut seen_header = false;
    for (index, line) in lines {
        let line = line.trim();
        if line.starts_with("## ") {
            break;
        }
        let Some(inner) = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else { continue };
        let cells: Vec<&str> = inner.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        match cells.as_slice() {
            ["crate", "imports"] => seen_header = true,
            [dashes, _] if dashes.starts_with("---") => {}
            [name, imports] if seen_header => {
                let imports = imports
                    .split(',')
                    .map(|word| word.trim().trim_matches('`'))
                    .filter(|word| !matches!(*word, "" | "none" | "-" | "–"))
                    .map(str::to_owned)
                    .collect();
                if table.insert((*name).to_owned(), (index + 1, imports)).is_some() {
                    return Err(Problem::new(FILE, index + 1, format!("two rows for {name}")));
                }
            }
            _ => return Err(Problem::new(FILE, index + 1, format!("expected two cells as in `{HEADER}`"))),
        }
    }
    if table.is_empty() {
        return Err(Problem::new(FILE, 0, format!("no rows under `{HEADING}`; it wants `{HEADER}`")));
    }
    Ok(table)
}

fn compare(workspace: &Workspace, table: &Table) -> Vec<Problem> {
    let mut problems = Vec::new();
    let none = BTreeSet::new();
    for (name, member) in &workspace.crates {
        let Some((line, allowed)) = table.get(name) else {
            problems.push(Problem::new(FILE, 0, format!("the dependency table has no row for {name}")));
            continue;
        };
        for to in member.imports.difference(allowed) {
            problems.push(Problem::new(
                FILE,
                *line,
                format!("{name} imports {to}, the table does not say so"),
            ));
        }
    }
    for (name, (line, allowed)) in table {
        let real = workspace.crates.get(name).map(|member| &member.imports);
        if real.is_none() {
            problems.push(Problem::new(FILE, *line, format!("no member is called {name}")));
        }
        for to in allowed.difference(real.unwrap_or(&none)) {
            problems.push(Problem::new(
                FILE,
                *line,
                format!("the table says {name} imports {to}, it does not"),
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(edges: &[(&str, &[&str])]) -> Workspace {
        let member = |imports: &[&str]| Member {
            imports: imports.iter().map(|i| (*i).to_owned()).collect(),
            ..Member::default()
        };
        Workspace { crates: edges.iter().map(|(name, to)| ((*name).to_owned(), member(to))).collect() }
    }

    fn check_table(edges: &[(&str, &[&str])], text: Option<&str>, expected: &[&str]) {
        let found: Vec<String> = check(&workspace(edges), text).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "table: {text:?}");
    }

    #[test]
    fn table_and_edges_must_agree() {
        let edges: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"])];
        let head = "# X\n## Dependency table\n```\n| crate | imports |\n| --- | --- |\n";
        check_table(edges, Some(&format!("{head}| a | none |\n| b | a |\n```\n## Next\n| x |\n")), &[]);
        check_table(
            edges,
            Some(&format!("{head}| a | b |\n| b | |\n")),
            &[
                "ARCHITECTURE.md:7: b imports a, the table does not say so",
                "ARCHITECTURE.md:6: the table says a imports b, it does not",
            ],
        );
        check_table(
            edges,
            Some(&format!("{head}| `a` | |\n| c | |\n")),
            &[
                "ARCHITECTURE.md: the dependency table has no row for b",
                "ARCHITECTURE.md:7: no member is called c",
            ],
        );
        check_table(
            edges,
            Some(&format!("{head}| a | |\n| a | |\n")),
            &["ARCHITECTURE.md:7: two rows for a"],
        );
    }

    #[test]
    fn a_missing_table_is_said_clearly() {
        let header = "`## Dependency table` with `| crate | imports |`";
        check_table(&[], None, &[&format!("ARCHITECTURE.md: missing: it must hold {header}")]);
        check_table(&[], Some("# X\n"), &["ARCHITECTURE.md: no heading `## Dependency table`"]);
        check_table(
            &[],
            Some("## Dependency table\n"),
            &["ARCHITECTURE.md: no rows under `## Dependency table`; it wants `| crate | imports |`"],
        );
    }

    #[test]
    fn nothing_imports_the_top() {
        let text = "## Dependency table\n| crate | imports |\n| a | xtask |\n| xtask | |\n";
        check_table(
            &[("a", &["xtask"]), ("xtask", &[])],
            Some(text),
            &[": a imports xtask, which nothing may"],
        );
    }

    #[test]
    fn metadata_keeps_development_edges_apart() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [
                { "name": "a", "manifest_path": "/w/crates/a/Cargo.toml", "dependencies": [],
                  "targets": [{ "kind": ["lib"], "src_path": "/w/crates/a/src/lib.rs" },
                              { "kind": ["test"], "src_path": "/w/crates/a/tests/t.rs" }] },
                { "name": "b", "manifest_path": "/w/b/Cargo.toml", "targets": [],
                  "dependencies": [{ "name": "a", "kind": "dev" }, { "name": "serde", "kind": null }] },
            ],
        });
        let found = Workspace::from_metadata(&metadata).unwrap();
        assert_eq!(found.crates["a"].roots, ["crates/a/src/lib.rs"]);
        assert_eq!(found.crates["a"].folder, "crates/a");
        assert!(found.crates["b"].imports.is_empty());
        assert!(found.crates["b"].dev_imports.contains("a"));
    }
}

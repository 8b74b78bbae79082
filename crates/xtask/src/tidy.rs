//! `cargo xtask tidy`: each rule is a function from text to [`Problem`]s; this file feeds them the tree.

mod edges;
mod sizes;
mod spec_ids;
mod unsafe_code;
mod words;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// One broken rule, at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    path: String,
    /// 1-based; 0 means the file as a whole.
    line: usize,
    text: String,
}

impl Problem {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// A text file of the tree, its path relative to the root and with `/` between the parts.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Checks the tree at `root`; prints one line a problem and fails when there is any.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let sources = read_tree(root)?;
    let workspace = edges::Workspace::load(root)?;
    let architecture = sources.iter().find(|s| s.path == "ARCHITECTURE.md").map(|s| s.text.as_str());

    let mut problems = edges::check(&workspace, architecture);
    problems.extend(unsafe_code::check(&workspace, &sources));
    problems.extend(sizes::check(&sources));
    problems.extend(spec_ids::check(&sources));
    problems.extend(words::check(&sources));

    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("tidy found {} problem(s)", problems.len());
    }
    println!(
        "tidy: ok ({} text files, {} crates, {} requirements)",
        sources.len(),
        workspace.crates.len(),
        spec_ids::count(&sources)
    );
    Ok(())
}

/// Every file that git tracks or would track, as far as it is text.
fn read_tree(root: &Path) -> anyhow::Result<Vec<Source>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git ls-files")?;
    if !listed.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let names = String::from_utf8(listed.stdout).context("a file name is not UTF-8")?;
    let mut sources = Vec::new();
    for path in names.split('\0').filter(|name| !name.is_empty()) {
        // A tracked file may be gone from the working tree; binary files are nobody's prose.
        let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        sources.push(Source { path: path.to_owned(), text });
    }
    Ok(sources)
}

/// The part of a Rust file that is product: everything before its `#[cfg(test)] mod …`.
fn product_part(text: &str) -> &str {
    text.match_indices("#[cfg(test)]")
        .find(|(at, mark)| text[at + mark.len()..].trim_start().starts_with("mod "))
        .map_or(text, |(at, _)| &text[..at])
}

/// The code of a line: what stands before a `//` comment that opens the line or follows a blank.
fn code_part(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.find(" // ").map_or(line, |at| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_ends_where_the_test_module_begins() {
        assert_eq!(product_part("a\n#[cfg(test)]\nmod tests {}\n"), "a\n");
        assert_eq!(product_part("#[cfg(test)]\nfn f() {}\nb"), "#[cfg(test)]\nfn f() {}\nb");
    }

    #[test]
    fn comments_are_no_code() {
        assert_eq!(code_part("  /// std::fs"), "");
        assert_eq!(code_part("let a = 1; // std::fs"), "let a = 1;");
        assert_eq!(code_part("\"http://x\""), "\"http://x\"");
    }
}

//! The written contract and the code must know each other.
//!
//! A requirement is a line `- **[ID]** text` in `protocol-spec/*.md`. Code cites it in a comment with
//! the word `spec` and a colon, a test with `spec-test` and a colon; several ids are parted by commas.

use std::collections::{BTreeMap, BTreeSet};

use super::{Problem, Source};

/// Sources that talk about the rule itself.
const SELF: &str = "crates/xtask/";

/// Uncited, unknown and doubled ids.
pub(crate) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut defined: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for source in spec_pages(sources) {
        for (line, id) in requirements(&source.text) {
            if let Some((path, first)) = defined.insert(id, (&source.path, line)) {
                let text = format!("requirement {id} stands at {path}:{first} already");
                problems.push(Problem::new(&source.path, line, text));
            }
        }
    }
    let mut cited = BTreeSet::new();
    for source in sources.iter().filter(|s| s.is_rust() && !s.path.starts_with(SELF)) {
        for (index, line) in source.text.lines().enumerate() {
            for id in citations(line) {
                if !defined.contains_key(id) {
                    let text = format!("cites {id}, which protocol-spec does not hold");
                    problems.push(Problem::new(&source.path, index + 1, text));
                }
                cited.insert(id);
            }
        }
    }
    for (id, (path, line)) in defined.iter().filter(|(id, _)| !cited.contains(*id)) {
        problems.push(Problem::new(path, *line, format!("no code and no test cites {id}")));
    }
    problems
}

/// How many requirements there are.
pub(crate) fn count(sources: &[Source]) -> usize {
    spec_pages(sources).map(|source| requirements(&source.text).count()).sum()
}

fn spec_pages(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|s| s.path.starts_with("protocol-spec/") && s.path.ends_with(".md"))
}

fn requirements(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let (id, _) = line.trim_start().strip_prefix("- **[")?.split_once("]**")?;
        is_id(id).then_some((index + 1, id))
    })
}

/// The ids that the comment of one line cites.
fn citations(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.find("//").map_or("", |at| &line[at..]);
    ["spec: ", "spec-test: "].into_iter().flat_map(move |word| {
        let list = comment
            .find(word)
            .filter(|at| !comment[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '-'))
            .map_or("", |at| &comment[at + word.len()..]);
        // The list ends at the first thing that is no id; prose may follow.
        list.split(',')
            .map(|item| item.trim_start())
            .map(|item| item.split(|c: char| c.is_whitespace() || ".;:)`".contains(c)).next().unwrap_or(item))
            .take_while(|item| is_id(item))
    })
}

/// Capitals and digits in at least two parts with `-` between them, as `IPC-HDR-1`.
fn is_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.contains('-')
        && text.split('-').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_ids(spec: &str, code: &str, expected: &[&str]) {
        let sources = [
            Source { path: "protocol-spec/a.md".to_owned(), text: spec.to_owned() },
            Source { path: "src/a.rs".to_owned(), text: code.to_owned() },
        ];
        let found: Vec<String> = check(&sources).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "spec {spec:?}, code {code:?}");
    }

    #[test]
    fn every_requirement_is_cited_and_every_citation_known() {
        let spec = "- **[IPC-1]** a\n- **[IPC-2]** b\n";
        check_ids(spec, "// spec: IPC-1\n/// x. spec-test: IPC-2.\n", &[]);
        check_ids(spec, "// spec: IPC-1, IPC-2 (both)\n", &[]);
        check_ids(spec, "// spec: IPC-1\n", &["protocol-spec/a.md:2: no code and no test cites IPC-2"]);
        check_ids(
            spec,
            "// spec: IPC-1, IPC-2\n// spec: IPC-3\n",
            &["src/a.rs:2: cites IPC-3, which protocol-spec does not hold"],
        );
        check_ids(
            "- **[IPC-1]** a\n- **[IPC-1]** a\n",
            "// spec: IPC-1\n",
            &["protocol-spec/a.md:2: requirement IPC-1 stands at protocol-spec/a.md:1 already"],
        );
    }

    #[test]
    fn only_comments_and_only_ids_count() {
        check_ids("", "let a = \"spec: IPC-1\";\n", &[]);
        check_ids("", "// spec: see the page\n// protocol-spec: A-1\n", &[]);
        check_ids("- **[note]** not an id\n", "", &[]);
    }
}

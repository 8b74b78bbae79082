//! `unsafe` stays in the crates that are listed for it.

use super::edges::Workspace;
use super::{Problem, Source, code_part};

/// Crates that may lift the lint for a block that says why it is sound. They still deny it at the root.
const MAY_LIFT: [&str; 3] = ["diagport-buffer", "diagport-sys", "diagport-transport"];
const FORBID: &str = "#![forbid(unsafe_code)]";
const DENY: &str = "#![deny(unsafe_code)]";

/// Every library and program root forbids `unsafe`; and no file elsewhere, tests included, uses the word.
pub(crate) fn check(workspace: &Workspace, sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, member) in &workspace.crates {
        let may_lift = MAY_LIFT.contains(&name.as_str());
        for root in &member.roots {
            let Some(source) = sources.iter().find(|source| source.path == *root) else { continue };
            let has = |mark: &str| source.text.lines().any(|line| line.trim() == mark);
            let kept = has(FORBID) || (may_lift && has(DENY));
            if !kept {
                problems.push(Problem::new(root, 0, format!("lacks `{FORBID}`")));
            }
        }
        if may_lift {
            continue;
        }
        let folder = format!("{}/", member.folder);
        for source in sources.iter().filter(|s| s.is_rust() && s.path.starts_with(&folder)) {
            for (index, line) in source.text.lines().enumerate() {
                if uses_unsafe(code_part(line)) {
                    problems.push(Problem::new(&source.path, index + 1, format!("unsafe code in {name}")));
                }
            }
        }
    }
    problems
}

fn uses_unsafe(code: &str) -> bool {
    let Some(at) = code.find("unsafe ") else { return false };
    let opens_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '"' | '`'));
    let rest = code[at + "unsafe ".len()..].trim_start();
    opens_word && ["{", "fn ", "impl", "extern", "trait"].iter().any(|next| rest.starts_with(next))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::edges::Member;
    use super::*;

    fn check_crate(name: &str, root_text: &str, expected: &[&str]) {
        let member =
            Member { roots: vec!["c/src/lib.rs".to_owned()], folder: "c".to_owned(), ..Member::default() };
        let workspace = Workspace { crates: BTreeMap::from([(name.to_owned(), member)]) };
        let sources = [Source { path: "c/src/lib.rs".to_owned(), text: root_text.to_owned() }];
        let found: Vec<String> = check(&workspace, &sources).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{name}: {root_text}");
    }

    #[test]
    fn roots_forbid_and_listed_crates_may_deny() {
        check_crate("diagport-codec", "//! x\n#![forbid(unsafe_code)]\n", &[]);
        check_crate("diagport-codec", "//! x\n", &["c/src/lib.rs: lacks `#![forbid(unsafe_code)]`"]);
        check_crate("diagport-codec", DENY, &["c/src/lib.rs: lacks `#![forbid(unsafe_code)]`"]);
        check_crate("diagport-buffer", DENY, &[]);
    }

    #[test]
    fn the_word_itself_is_found_outside_the_list() {
        let block = format!("{FORBID}\nlet x = {} {{ y }};\n", "unsafe");
        check_crate("diagport-codec", &block, &["c/src/lib.rs:2: unsafe code in diagport-codec"]);
        check_crate("diagport-buffer", &block, &[]);
        check_crate("diagport-codec", &format!("{FORBID}\n// {} {{\n", "unsafe"), &[]);
        check_crate("diagport-codec", &format!("{FORBID}\nfn not{} () {{}}\n", "unsafe"), &[]);
    }
}

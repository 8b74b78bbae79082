//! Words and names that stand for unfinished work, for this machine, or for I/O where none may be.

use super::{Problem, Source, code_part, product_part};

/// Folders of a developer's or a CI machine. Written in two halves, so that this file passes its own rule.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];
const IN_RUST: [&str; 5] = [
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("#[ig", "nore"),
    concat!("should", "_panic"),
    concat!("dbg", "!("),
];
const FILE_NAMES: [&str; 8] =
    ["utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "types.rs", "misc.rs", "utilities.rs"];
/// Crates that get time, threads and bytes as arguments.
const SANS_IO: [&str; 3] =
    ["crates/diagport-codec/src/", "crates/diagport-nettrace/src/", "crates/diagport-buffer/src/"];
const IO_NAMES: [&str; 12] = [
    "std::fs",
    "std::net",
    "std::os::unix::net",
    "std::process",
    "std::thread::spawn",
    "thread::spawn(",
    "Instant::now",
    "SystemTime::now",
    "std::env",
    "tokio::net",
    "tokio::fs",
    "tokio::time",
];

/// All rules of this file.
pub(crate) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources {
        if source.is_rust() && FILE_NAMES.contains(&source.file_name()) {
            problems.push(Problem::new(&source.path, 0, "a file is named for what it is"));
        }
        for (index, line) in source.text.lines().enumerate() {
            let mut report = |text: String| problems.push(Problem::new(&source.path, index + 1, text));
            if let Some(path) = MACHINE_PATHS.iter().find(|path| names_machine_path(line, path)) {
                report(format!("names a path of one machine ({path}…)"));
            }
            if source.is_rust() {
                let code = code_part(line);
                for word in IN_RUST.iter().filter(|word| code.contains(**word)) {
                    report(format!("`{word}` is unfinished work or a check that cannot fail"));
                }
            }
        }
        if source.is_rust() && SANS_IO.iter().any(|folder| source.path.starts_with(folder)) {
            problems.extend(io_in_sans_io(source));
        }
    }
    problems
}

/// An absolute path only: `/proc/1/` + `root/tmp` continues another path.
fn names_machine_path(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}*$)>".contains(c)))
}

fn io_in_sans_io(source: &Source) -> Vec<Problem> {
    if source.file_name() == "tests.rs" || source.path.contains("/tests/") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (index, line) in product_part(&source.text).lines().enumerate() {
        let code = code_part(line);
        for name in IO_NAMES.iter().filter(|name| code.contains(**name)) {
            problems.push(Problem::new(&source.path, index + 1, format!("a sans-I/O crate names {name}")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: &str, expected: usize) {
        let found = check(&[Source { path: path.to_owned(), text: text.to_owned() }]);
        assert_eq!(found.len(), expected, "{path}: {text:?} gave {found:?}");
    }

    #[test]
    fn machine_paths() {
        check_file("README.md", &format!("see {}x", MACHINE_PATHS[0]), 1);
        check_file("a.toml", &format!("p = \"{}x\"", MACHINE_PATHS[2]), 1);
        check_file("a.rs", &format!("format!(\"/proc/{{pid}}{}tmp\")", MACHINE_PATHS[2]), 0);
        check_file("a.md", "/tmp/x and /proc/1/stat", 0);
    }

    #[test]
    fn unfinished_work() {
        for word in IN_RUST {
            check_file("a.rs", word, 1);
            check_file("a.md", word, 0);
            check_file("a.rs", &format!("// never {word}"), 0);
        }
    }

    #[test]
    fn file_names() {
        check_file("src/utils.rs", "", 1);
        check_file("src/advertise.rs", "", 0);
    }

    #[test]
    fn sans_io() {
        check_file("crates/diagport-codec/src/lib.rs", "use std::fs;\n", 1);
        check_file("crates/diagport-codec/src/lib.rs", "//! no std::fs here\n", 0);
        check_file("crates/diagport-codec/src/lib.rs", "#[cfg(test)]\nmod tests { use std::fs; }\n", 0);
        check_file("crates/diagport-codec/src/tests.rs", "use std::fs;\n", 0);
        check_file("crates/diagport-server/src/lib.rs", "use std::fs;\n", 0);
    }
}

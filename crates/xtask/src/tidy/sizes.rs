//! No Rust file grows beyond what can be read in one sitting. (Functions are clippy's, `too_many_lines`.)

use super::{Problem, Source};

const MOST_LINES: usize = 600;

/// Every `.rs` file has at most [`MOST_LINES`] lines.
pub(crate) fn check(sources: &[Source]) -> Vec<Problem> {
    sources
        .iter()
        .filter(|source| source.is_rust())
        .filter_map(|source| {
            let lines = source.text.lines().count();
            let text = format!("{lines} lines, the limit is {MOST_LINES}");
            (lines > MOST_LINES).then(|| Problem::new(&source.path, 0, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lines(path: &str, lines: usize, expected: usize) {
        let source = Source { path: path.to_owned(), text: "x\n".repeat(lines) };
        assert_eq!(check(&[source]).len(), expected, "{path} with {lines} lines");
    }

    #[test]
    fn limit_and_limit_plus_one() {
        check_lines("a.rs", MOST_LINES, 0);
        check_lines("a.rs", MOST_LINES + 1, 1);
        check_lines("a.md", MOST_LINES + 1, 0);
    }
}

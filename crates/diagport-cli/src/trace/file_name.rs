//! The name of a recording that was given none.

use std::path::PathBuf;

use jiff::ZonedDateTime;

/// `<target>_<yyyyMMdd>_<HHmmss>.nettrace`; from the second of a second on with `_2`, `_3` and so on behind the time.
///
/// The time is what the wall clock of this place shows, as the released tool has it.
// spec: CLI-TRACE-2
pub(crate) fn default_file_name(target_name: &str, now: &ZonedDateTime, attempt: u32) -> PathBuf {
    // A name with a separator would be a path.
    let target_name = target_name.replace('/', "_");
    let target_name = if target_name.is_empty() { "trace" } else { &target_name };
    let time = now.strftime("%Y%m%d_%H%M%S");
    let suffix = if attempt < 2 { String::new() } else { format!("_{attempt}") };
    PathBuf::from(format!("{target_name}_{time}{suffix}.nettrace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec-test: CLI-TRACE-2
    #[test]
    fn the_name_tells_program_and_local_time() {
        let check = |target: &str, now: &str, attempt: u32, expected: &str| {
            let now: ZonedDateTime = now.parse().expect("a time with its zone");
            assert_eq!(default_file_name(target, &now, attempt), PathBuf::from(expected));
        };
        check("epload", "2021-03-15T11:15:14+00:00[UTC]", 1, "epload_20210315_111514.nettrace");
        check("epload", "2021-03-15T11:15:14+05:30[+05:30]", 1, "epload_20210315_111514.nettrace");
        check("a/b", "0999-12-31T23:59:59+00:00[UTC]", 2, "a_b_09991231_235959_2.nettrace");
        check("", "2021-03-15T01:02:03-08:00[-08:00]", 17, "trace_20210315_010203_17.nettrace");
    }
}

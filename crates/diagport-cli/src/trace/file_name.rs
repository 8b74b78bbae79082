//! The name of a recording that was given none.

use std::path::PathBuf;

use diagport_nettrace::UtcTime;

/// `<exe>_<yyyyMMdd>_<HHmmss>.nettrace`, in UTC.
// spec: CLI-TRACE-2
pub(crate) fn default_file_name(target_name: &str, unix_millis: i64) -> PathBuf {
    let time = UtcTime::from_unix_millis(unix_millis);
    // A name with a separator would be a path.
    let target_name = target_name.replace('/', "_");
    let target_name = if target_name.is_empty() { "trace" } else { &target_name };
    PathBuf::from(format!(
        "{target_name}_{:04}{:02}{:02}_{:02}{:02}{:02}.nettrace",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec-test: CLI-TRACE-2
    #[test]
    fn the_name_tells_program_and_time() {
        let name = default_file_name("epload", 1_615_807_514_000);
        assert_eq!(name, PathBuf::from("epload_20210315_112514.nettrace"));
        assert_eq!(default_file_name("a/b", 0), PathBuf::from("a_b_19700101_000000.nettrace"));
    }
}

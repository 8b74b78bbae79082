//! The file that a startup session writes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::startup_settings::StartupSessionError;

/// Opens it, empty.
///
/// Never waits: a named pipe that nobody reads is an error. A file that another process of ours records into is left alone, because
/// children inherit the variables that name it.
// spec: START-PATH-2, START-PATH-3
pub(crate) fn create(path: &Path) -> Result<File, StartupSessionError> {
    let unwritable = |source: io::Error| StartupSessionError::Unwritable { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(unwritable)?;
    if !file.metadata().map_err(unwritable)?.is_file() {
        // A pipe or a device: from here on the drain thread waits for it like for a disk.
        fcntl_getfl(&file)
            .and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK))
            .map_err(|error| unwritable(error.into()))?;
        return Ok(file);
    }
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(StartupSessionError::InUse(path.to_owned()));
    }
    file.set_len(0).map_err(unwritable)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn check_refused(path: &Path, reason: &str) {
        let error = create(path).expect_err("it cannot be written").to_string();
        assert!(error.contains(reason), "{error}, expected {reason:?}");
    }

    // spec-test: START-PATH-2
    #[test]
    fn what_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        check_refused(folder.path(), "cannot write");
        check_refused(&folder.path().join("no/such/folder"), "cannot write");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        check_refused(&pipe, "cannot write");
        create(Path::new("/dev/null")).expect("a device").write_all(b"x").expect("it takes all");
    }

    // spec-test: START-PATH-3
    #[test]
    fn a_file_belongs_to_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.nettrace");
        fs::write(&path, b"of an earlier run").expect("it can be written");
        let mut first = create(&path).expect("nobody has it");
        first.write_all(b"first").expect("it can be written");
        check_refused(&path, "another process records into");
        assert_eq!(fs::read(&path).expect("a file"), b"first");
        drop(first);
        drop(create(&path).expect("nobody has it any more"));
        assert_eq!(fs::read(&path).expect("a file"), b"");
    }
}

//! The file that a recording goes to.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use diagport_client::Deadline;
use rustix::fs::OFlags;

use crate::console;
use crate::exit::{Exit, Failure};

/// How often somebody who may read a pipe is looked for.
const READER_STEP: Duration = Duration::from_millis(20);
/// Names that are tried where others of the same second are taken.
const NAME_ATTEMPTS: u32 = 1_000;

/// A file opened for a recording, not yet changed. If it is dropped so, it goes again where it was made for this.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
    kind: OutputKind,
    fate: Fate,
}

/// What bytes that are written become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// A file that can be read again.
    Regular,
    /// A pipe or a device.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// Stays whatever happens.
    Stays,
    /// We made it and nothing is in it.
    GoesAgain,
}

impl OutputFile {
    /// Opens the file, before a session starts, so that a wrong path costs nobody a session. What it held stays until
    /// [`OutputFile::begin`]. A named pipe is waited for until somebody reads it.
    // spec: CLI-OUTPUT-1
    pub(crate) async fn open(path: &Path, deadline: Deadline) -> Result<Self, Failure> {
        let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        if is_pipe {
            return open_pipe(path, deadline).await;
        }
        Self::open_now(path).map_err(|error| cannot_write(path, &error))?.locked()
    }

    /// Makes a file that was not there, under the first free of the names that `name` gives for 1, 2, and so on.
    pub(crate) fn create(name: impl Fn(u32) -> PathBuf) -> Result<Self, Failure> {
        let mut attempt = 1;
        loop {
            let path = name(attempt);
            match make(&path) {
                Ok(file) => return file.locked(),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < NAME_ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(cannot_write(&path, &error)),
            }
        }
    }

    fn open_now(path: &Path) -> io::Result<Self> {
        match make(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        // Read as well: the counter reads behind the writer. A device may be writable only. `create` is for a link that
        // points to nothing yet.
        let open =
            |read: bool| OpenOptions::new().read(read).write(true).create(true).truncate(false).open(path);
        let file = open(true).or_else(|_| open(false))?;
        let kind = if file.metadata()?.is_file() { OutputKind::Regular } else { OutputKind::Other };
        Ok(Self { path: path.to_owned(), file, kind, fate: Fate::Stays })
    }

    /// Two recordings into one file would leave neither. The lock is the one that .NET's own tools take.
    // spec: CLI-OUTPUT-2
    fn locked(self) -> Result<Self, Failure> {
        if self.kind == OutputKind::Regular
            && let Err(TryLockError::WouldBlock) = self.file.try_lock()
        {
            let message =
                format!("cannot write {}: another process is recording into it", self.path.display());
            return Err(Failure::new(Exit::Failed, message));
        }
        Ok(self) // a file system without locks has none to respect
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The recording begins: what the file held goes, and from now on it stays.
    pub(crate) fn begin(mut self) -> io::Result<(File, OutputKind)> {
        if self.kind == OutputKind::Regular {
            self.file.set_len(0)?;
        }
        let file = self.file.try_clone()?;
        self.fate = Fate::Stays;
        Ok((file, self.kind))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.fate == Fate::Stays {
            return;
        }
        let ours = self.file.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
        let there =
            std::fs::symlink_metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
        if ours.is_some() && ours == there {
            // Best effort: the failure that led here is what gets reported.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn make(path: &Path) -> io::Result<OutputFile> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    Ok(OutputFile { path: path.to_owned(), file, kind: OutputKind::Regular, fate: Fate::GoesAgain })
}

/// Opened for writing only, so that a reader that goes away is noticed.
// spec: CLI-OUTPUT-3
async fn open_pipe(path: &Path, deadline: Deadline) -> Result<OutputFile, Failure> {
    let mut has_been_told = false;
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("a small flag");
    loop {
        match OpenOptions::new().write(true).custom_flags(nonblocking).open(path) {
            Ok(file) => {
                rustix::fs::fcntl_setfl(&file, OFlags::WRONLY)
                    .map_err(|error| cannot_write(path, &error.into()))?;
                let (path, kind) = (path.to_owned(), OutputKind::Other);
                return Ok(OutputFile { path, file, kind, fate: Fate::Stays });
            }
            // Nobody has opened it for reading yet.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {}
            Err(error) => return Err(cannot_write(path, &error)),
        }
        if !has_been_told {
            console::note(&format!("Waiting for a reader of {}", path.display()));
            has_been_told = true;
        }
        if deadline.remaining().is_zero() {
            let message = format!(
                "cannot write {}: nobody has opened this pipe for reading within {} s",
                path.display(),
                deadline.limit().as_secs_f64()
            );
            return Err(Failure::new(Exit::TimedOut, message));
        }
        tokio::time::sleep(READER_STEP).await;
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
}

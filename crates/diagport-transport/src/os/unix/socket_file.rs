//! The file behind a socket: identity, and removal of exactly that file.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A file's identity. Paths are reused, inodes of existing files are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) owner_uid: u32,
}

/// What stands at a path, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Absent,
    Socket(FileIdentity),
    Other,
}

pub(crate) fn entry_at(path: &Path) -> io::Result<Entry> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => Ok(Entry::Socket(FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            owner_uid: metadata.uid(),
        })),
        Ok(_) => Ok(Entry::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entry::Absent),
        Err(error) => Err(error),
    }
}

/// Removes `path` if it is still that very socket. `Ok(false)`: it was something else, or gone already.
pub(crate) fn unlink_if_same(path: &Path, expected: FileIdentity) -> io::Result<bool> {
    match entry_at(path)? {
        Entry::Socket(found) if found == expected => match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        },
        _ => Ok(false),
    }
}

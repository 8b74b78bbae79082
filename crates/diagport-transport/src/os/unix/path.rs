//! Which paths a socket address can hold.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::PathError;

/// Longest socket path in bytes.
///
/// The kernel binds 108 bytes without a closing NUL, but then C, .NET, std and tokio clients cannot connect: one
/// byte less is what everybody can open.
pub const MAX_PATH_BYTES: usize = 107;

/// Says whether a socket address can hold `path`, without touching the file system.
///
/// # Errors
/// [`PathError`] with length and limit.
pub fn check_path(path: &Path) -> Result<(), PathError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(PathError::Empty);
    }
    if bytes.contains(&0) {
        return Err(PathError::HoldsNul { path: path.to_owned() });
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong {
            path: path.to_owned(),
            length_bytes: bytes.len(),
            limit_bytes: MAX_PATH_BYTES,
        });
    }
    Ok(())
}

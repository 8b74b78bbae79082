//! How many descriptors this process may have.

use rustix::process::{Resource, getrlimit};

/// The soft limit of open descriptors; `None` where there is none.
#[must_use]
pub fn descriptor_limit() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok())
}

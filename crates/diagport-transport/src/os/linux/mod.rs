//! What only Linux has: procfs.

pub(crate) mod process;

//! Small programs a stranger can copy: each file here is an example of its own.
#![forbid(unsafe_code)]

/// The README's program compiles, or this does not.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

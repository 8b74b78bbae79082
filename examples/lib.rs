//! Small programs a stranger can copy: each file here is an example of its own.
#![forbid(unsafe_code)]

//! The protocols between producers, reader, waiters and the end, checked by `cargo xtask loom` over all schedules of up to three preemptions, and
//! over all schedules where a model says so.
//!
//! Each model runs with its roles on threads of their own, and with each of them on the model's main thread; says how many schedules it
//! explored, and fails if that are too few or if an outcome that should occur never did. Each names the mutants (one ordering or step left out, see
//! `sync::mutant`) under which it must fail; `cargo xtask loom` wants every model failed by one at least, and every mutant noticed.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "models talk to the person who runs them"
)]

mod explore;
mod roles;
mod sleeps;
mod takes;
mod waits;

//! `diagport trace`: records the stream of a session into a file.
//!
//! ```text
//!             signals, Enter, --duration              StopTracing on a connection of its own
//!                       |                                        ^
//!   target --stream--> pump --chunks--> writer thread --> file   |
//!                       |                                 |      |
//!                    the run (run.rs) <-- bytes, events --+-- counter thread reads the file behind the writer
//! ```
//!
//! Counting never slows recording down: the counter reads what has been written from the file again.

mod child;
mod counter;
mod file_name;
mod options;
mod progress_display;
mod recorder;
mod report;
mod run;
mod source;
mod stop_trigger;

pub(crate) use options::TraceCommand;
pub(crate) use stop_trigger::StopTriggers;

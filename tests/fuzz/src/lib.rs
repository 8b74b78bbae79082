//! What must hold for any bytes, as the fuzz targets check it. A check that does not hold panics.
//!
//! ```text
//!   fuzz_targets/ipc_message, ipc_payload, advertise, port_text   codec: decoded values encode, and decode to themselves
//!   fuzz_targets/nettrace_stream, nettrace_damage                 reader: the same whole, in pieces and skimmed; what is clean can be written again
//!   fuzz_targets/nettrace_round_trip                              writer: what it is given is what the reader hands out
//! ```
#![forbid(unsafe_code)]

pub mod reading;
pub mod requests;
pub mod story;

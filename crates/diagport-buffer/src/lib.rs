//! Per-thread event buffers under one byte budget, with two answers to "full": drop the event and count it, or let the
//! thread wait its turn.
//!
//! ```text
//!   thread A ──gate──► Lane A ─chunk,chunk─┐
//!   thread B ──gate──► Lane B ─chunk───────┼── collect ──► reader ──► release ──► pool, then the front of the queue
//!   thread C ──gate──► (no capacity) parked in the FIFO of the EventBuffer
//! ```
//!
//! - Every write that an open lane sees is one attempt with its own number. Written records carry theirs, so a step of more
//!   than one between two records, and attempts beyond the last record, are loss, exactly.
//! - A thread stamps and writes inside its gate. A reader that takes its clock first and then passes each gate has every
//!   record stamped before that moment.
//! - Waiting threads form a strict FIFO. Only the front may take freed capacity, nobody overtakes, and joining allocates
//!   nothing.
//!
//! What it does not do: read a clock, make threads, know what a record means, or number events for a stream.
//!
//! ```
//! use std::sync::Arc;
//! use diagport_buffer::{BufferingMode, EventBuffer, LaneWrite, Parking, Producer, ReaderSignal, Record};
//!
//! let buffer = EventBuffer::new(BufferingMode::Drop, 1 << 20, Arc::new(ReaderSignal::default()));
//! let mut producer = Producer::new(4242, "worker".into(), Parking::Allowed);
//! let mut guard = producer.enter();
//! let lane = buffer.add_lane(guard.thread()).expect("the buffer is open");
//! assert_eq!(lane.write(&mut guard, 1000, &Record::new(1, b"payload")), LaneWrite::Written);
//! drop(guard);
//!
//! let mut seen = 0;
//! buffer.collect(|take| {
//!     for mut chunk in take.chunks.drain(..) {
//!         while chunk.front().is_some() {
//!             seen += 1;
//!             chunk.pop_front();
//!         }
//!         buffer.release(chunk);
//!     }
//! });
//! buffer.end_round();
//! assert_eq!(seen, 1);
//! ```
#![deny(unsafe_code)]

mod chunk;
mod chunk_memory;
mod event_buffer;
mod fence;
mod lane;
mod lock;
mod payload_space;
mod producer_thread;
mod reader_signal;
mod sync;
mod wait_queue;

pub use chunk::{Chunk, MAX_PAYLOAD_BYTES, MAX_STACK_FRAMES, Record, StoredRecord};
pub use event_buffer::{BufferingMode, EventBuffer, LaneTake, WakeReader, WakeReason};
pub use lane::{BufferTotals, Lane, LaneWrite, Liveness};
pub use payload_space::{PayloadOut, PayloadSpace, is_plain_ascii};
pub use producer_thread::{Parking, Producer, ProducerGuard, ProducerThread};
pub use reader_signal::ReaderSignal;
#[cfg(any(loom, diagport_tsan))]
pub use sync::plant_mistake;

//! The event engine: providers define events, sessions record them, and each session's drain thread writes a NetTrace stream.
//!
//! ```text
//!  Event::write ─► thread's lane in each session that wants it ─► drain thread of the session ─► NetTrace ─► Sink
//!                  (diagport-buffer, one byte budget a session)   merges by time, numbers,
//!                                                                 counts loss exactly
//! ```
//!
//! ```
//! use diagport_session::{
//!     EventDefinition, EventPipe, FileSink, ProcessDescription, ProviderConfig, SessionConfig, SessionType, WaitFinished,
//! };
//! use std::time::Duration;
//!
//! let pipe = EventPipe::new(ProcessDescription::of_this_process());
//! let provider = pipe.provider("My-Service");
//! let served = provider.define::<(i64, String)>(
//!     EventDefinition::new(1, "RequestServed").keywords(1),
//!     ["micros", "path"],
//! )?;
//! assert!(!served.is_enabled());
//!
//! // A session into a file; over a Diagnostic Port the server does this for each client.
//! let file = std::fs::File::create(std::env::temp_dir().join("my-service.nettrace"))?;
//! let config = SessionConfig::new(SessionType::FileStream, vec![ProviderConfig::everything("My-Service")]);
//! let session = pipe.create_session(config)?;
//! session.start(Box::new(FileSink::new(file)));
//!
//! served.write((250, "/index.html"));
//!
//! session.request_stop();
//! let WaitFinished::Finished(end) = session.wait_finished(Duration::from_secs(5)) else { panic!("still running") };
//! assert_eq!((end.statistics.emitted, end.statistics.dropped), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What always holds: every attempt that an enabled session sees is received or shown as lost, exactly, by any reader of the
//! stream; a Drop session never makes a thread wait; a Block session loses nothing for lack of capacity while its reader reads;
//! no thread stays parked once a session is stopping; no panic of a callback or sink leaves this crate.
//!
//! What it does not do: know the IPC protocol or sockets (diagport-server turns a request into a [`SessionConfig`] and a
//! socket into a [`Sink`]), turn stacks into names, or ship providers of its own. In a forked child all events are disabled: the drains stay in the parent.
#![forbid(unsafe_code)]

mod capture_ids;
mod clock;
mod dispatcher;
mod drain;
mod enable_state;
mod event;
mod event_pipe;
mod field;
mod filter;
mod guarded_sink;
mod lock;
mod merge;
mod pipe_state;
mod process_info;
mod provider;
mod rundown;
mod session;
mod session_config;
mod sink;
mod statistics;
mod stream;
mod thread_state;
mod time_source;

pub use clock::{Clock, MonotonicClock, TICK_FREQUENCY};
pub use event::{DefineEventError, Event, EventContext, EventDefinition, WriteOutcome};
pub use event_pipe::EventPipe;
pub use field::{EventFields, FieldValue, PayloadBuffer};
pub use filter::{EventFilter, FilterSense};
pub use process_info::ProcessDescription;
pub use provider::{EnableCause, EnableChange, Provider, ProviderControl};
pub use rundown::RundownWriter;
pub use session::{EndReason, Session, SessionEnd, SessionId, WaitFinished};
pub use session_config::{
    BufferingMode, EventLevel, ProviderConfig, SessionConfig, SessionType, StackWalk, StartSessionError,
};
pub use sink::{CallbackSink, FileSink, Sink};
pub use statistics::{PipeStatistics, SessionStatistics};

//! Starting a session on whatever version of the command the process knows.

use diagport_codec::{
    BufferingMode, CollectTracing, CollectTracingVersion, EncodeError, EventFilter, ProviderRequest, Request,
    SessionOutput, StackWalk, StreamFormat, decode_session_id,
};
use diagport_transport::IpcStream;
use thiserror::Error;

use crate::deadline::Deadline;
use crate::errors::{ClientError, Phase};
use crate::exchange::{exchange, malformed};
use crate::profiles::DEFAULT_RUNDOWN_KEYWORD;
use crate::target::Target;

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectRequest {
    /// `1..=1000` providers.
    pub providers: Vec<ProviderRequest>,
    /// Buffer budget of the session in MB, at least 1.
    pub circular_buffer_mb: u32,
    /// What a full buffer does to an event.
    pub buffering_mode: BufferingMode,
    /// Whether events carry stacks.
    pub stack_walk: StackWalk,
    /// 0 for no rundown.
    pub rundown_keyword: u64,
    /// What becomes of a rundown keyword that the process is too old to understand.
    pub keyword_fallback: KeywordFallback,
}

impl CollectRequest {
    /// Whether a message can hold the request, before anybody is bothered.
    ///
    /// # Errors
    /// [`EncodeError`]: too many providers, none, or more text than fits.
    pub fn check(&self) -> Result<(), EncodeError> {
        // Later attempts only leave something out.
        ladder(self)
            .into_iter()
            .take(1)
            .try_for_each(|largest| Request::CollectTracing(largest.wire).encode()?.encode().map(|_| ()))
    }
}

/// Stands in for a rundown keyword that a process cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeywordFallback {
    /// The runtime's usual rundown: nothing that was asked for is missing.
    UsualRundown,
    /// No rundown: who asked for a light one does not get a heavy one.
    NoRundown,
}

/// Something that was asked for and that the process is too old to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concession {
    /// Event filters: all events of the provider come.
    EventFilters,
    /// The rundown keyword: see [`KeywordFallback`].
    RundownKeyword,
    /// No stacks: stacks come.
    Stacks,
}

/// A session that has started.
#[derive(Debug)]
pub struct Collection {
    /// What a stop names.
    pub session_id: u64,
    /// The version of the command that the process understood.
    pub version: CollectTracingVersion,
    /// What had to be given up for that.
    pub concessions: Vec<Concession>,
    /// The stream, from its first byte. Dropping it ends the session.
    pub stream: IpcStream,
}

/// No session was started.
#[derive(Debug, Error)]
pub enum CollectError {
    /// The request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The process knows no Block buffering. Nothing else would be what was asked for.
    #[error("{port}: the target does not know Block buffering, which needs .NET 11 or later; use Drop")]
    BlockNeedsNet11 {
        /// The port.
        port: String,
    },
}

pub(crate) async fn collect(
    target: &Target,
    request: &CollectRequest,
    deadline: Deadline,
) -> Result<Collection, CollectError> {
    let mut attempts = ladder(request).into_iter().peekable();
    loop {
        let attempt = attempts.next().expect("there is one attempt at least and the last one returns");
        let wire = Request::CollectTracing(attempt.wire.clone());
        let answer = match exchange(target, &wire, deadline).await {
            Ok(answer) => answer,
            Err(error) if error.is_unknown_command() && attempts.peek().is_some() => continue,
            Err(error) if error.is_unknown_command() && request.buffering_mode == BufferingMode::Block => {
                return Err(CollectError::BlockNeedsNet11 { port: target.describe() });
            }
            Err(error) => return Err(error.into()),
        };
        let wrong = |detail: String| malformed(Phase::Reply(wire.command()), &target.describe(), detail);
        let session_id = match decode_session_id(&answer.payload) {
            Ok(0) => return Err(wrong("session id 0".to_owned()).into()),
            Ok(session_id) => session_id,
            Err(error) => return Err(wrong(error.to_string()).into()),
        };
        return Ok(Collection {
            session_id,
            version: attempt.wire.version,
            concessions: attempt.concessions,
            stream: answer.stream,
        });
    }
}

struct Attempt {
    wire: CollectTracing,
    concessions: Vec<Concession>,
}

/// What to try, in order: first the lowest version that says all of the request (the everyday one is 2, which every
/// runtime since .NET Core 3.0 knows), then ever older ones with one thing less.
// spec: CLI-COLLECT-1, CLI-COLLECT-2
fn ladder(request: &CollectRequest) -> Vec<Attempt> {
    let mut wire = CollectTracing {
        version: CollectTracingVersion::V2,
        output: SessionOutput::Streaming {
            circular_buffer_mb: request.circular_buffer_mb,
            format: StreamFormat::NetTrace,
            stack_walk: request.stack_walk,
            buffering_mode: request.buffering_mode,
        },
        rundown_keyword: request.rundown_keyword,
        providers: request.providers.clone(),
    };
    let mut concessions = Vec::new();
    let mut attempts = Vec::new();
    loop {
        wire.version = wire.oldest_version().max(CollectTracingVersion::V2);
        attempts.push(Attempt { wire: wire.clone(), concessions: concessions.clone() });
        let Some(concession) = weaken(&mut wire, request.keyword_fallback) else { return attempts };
        concessions.push(concession);
    }
}

/// Takes away the one thing that makes the version necessary. `None`: nothing may be taken away.
fn weaken(wire: &mut CollectTracing, keyword_fallback: KeywordFallback) -> Option<Concession> {
    match wire.version {
        CollectTracingVersion::V5 => {
            wire.providers.iter_mut().for_each(|provider| provider.filter = EventFilter::ALL);
            Some(Concession::EventFilters)
        }
        CollectTracingVersion::V4 => {
            wire.rundown_keyword = match keyword_fallback {
                KeywordFallback::UsualRundown => DEFAULT_RUNDOWN_KEYWORD,
                KeywordFallback::NoRundown => 0,
            };
            Some(Concession::RundownKeyword)
        }
        CollectTracingVersion::V3 => {
            if let SessionOutput::Streaming { stack_walk, .. } = &mut wire.output {
                *stack_walk = StackWalk::On;
            }
            Some(Concession::Stacks)
        }
        // Block is the one thing that nobody who asks for it can do without.
        CollectTracingVersion::V6 | CollectTracingVersion::V2 | CollectTracingVersion::V1 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider_text::parse_providers;
    use CollectTracingVersion::{V2, V3, V4, V5, V6};
    use Concession::{EventFilters, RundownKeyword, Stacks};

    fn usual() -> CollectRequest {
        CollectRequest {
            providers: parse_providers("A:1:4").unwrap(),
            circular_buffer_mb: 256,
            buffering_mode: BufferingMode::Drop,
            stack_walk: StackWalk::On,
            rundown_keyword: DEFAULT_RUNDOWN_KEYWORD,
            keyword_fallback: KeywordFallback::UsualRundown,
        }
    }

    fn check(request: &CollectRequest, expected: &[(CollectTracingVersion, u64, &[Concession])]) {
        let attempts = ladder(request);
        let found: Vec<_> = attempts
            .iter()
            .map(|a| (a.wire.version, a.wire.rundown_keyword, a.concessions.as_slice()))
            .collect();
        assert_eq!(found, expected);
        for attempt in attempts {
            Request::CollectTracing(attempt.wire).encode().expect("every attempt can be said in its version");
        }
    }

    // spec-test: CLI-COLLECT-1
    #[test]
    fn the_lowest_version_that_says_it_all_comes_first() {
        const USUAL: u64 = DEFAULT_RUNDOWN_KEYWORD;
        check(&usual(), &[(V2, USUAL, &[])]);
        check(&CollectRequest { rundown_keyword: 0, ..usual() }, &[(V2, 0, &[])]);
        check(
            &CollectRequest { rundown_keyword: 1, ..usual() },
            &[(V4, 1, &[]), (V2, USUAL, &[RundownKeyword])],
        );
        check(
            &CollectRequest {
                rundown_keyword: 1,
                keyword_fallback: KeywordFallback::NoRundown,
                stack_walk: StackWalk::Off,
                ..usual()
            },
            &[(V4, 1, &[]), (V3, 0, &[RundownKeyword]), (V2, 0, &[RundownKeyword, Stacks])],
        );
        let mut filtered = CollectRequest { stack_walk: StackWalk::Off, ..usual() };
        filtered.providers[0].filter =
            EventFilter { sense: diagport_codec::FilterSense::Allow, ids: vec![7] };
        check(
            &filtered,
            &[(V5, USUAL, &[]), (V3, USUAL, &[EventFilters]), (V2, USUAL, &[EventFilters, Stacks])],
        );
    }

    // spec-test: CLI-COLLECT-2
    #[test]
    fn block_is_never_given_up() {
        let request = CollectRequest { buffering_mode: BufferingMode::Block, rundown_keyword: 1, ..usual() };
        check(&request, &[(V6, 1, &[])]);
    }
}

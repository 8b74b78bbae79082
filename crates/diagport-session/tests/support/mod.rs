//! A pipe with a clock that only moves when it is read, sinks in memory, and a reader that checks what every stream must keep.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::print_stdout, reason = "a test says what it has measured")]

#[path = "../../../diagport-nettrace/tests/streams/keep.rs"]
mod keep;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use diagport_nettrace::{Completion, Event as ReadEvent, LossCounter, Reader, Record};
use diagport_session::{
    BufferingMode, Clock, EndReason, Event, EventDefinition, EventPipe, ProcessDescription, ProviderConfig,
    Session, SessionConfig, SessionEnd, SessionType, Sink, WaitFinished, WriteOutcome,
};

/// Long enough that only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One nanosecond a look, and jumps by hand.
#[derive(Default)]
pub(crate) struct StepClock(AtomicI64);

impl StepClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as i64, Ordering::SeqCst);
    }
}

impl Clock for StepClock {
    fn ticks(&self) -> i64 {
        1_000_000_000 + self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn utc_unix_millis(&self) -> i64 {
        1_796_000_000_000
    }
}

pub(crate) fn description() -> ProcessDescription {
    ProcessDescription {
        process_id: 4242,
        command_line: "load --fast".into(),
        operating_system: "Linux".into(),
        architecture: "x64".into(),
    }
}

pub(crate) fn pipe() -> (EventPipe, Arc<StepClock>) {
    let clock = Arc::new(StepClock::default());
    (EventPipe::with_clock(description(), Arc::clone(&clock) as _), clock)
}

pub(crate) type Tick = Event<(i64, i64, String)>;

pub(crate) fn tick(pipe: &EventPipe) -> Tick {
    let definition = EventDefinition::new(1, "Tick").keywords(1);
    pipe.provider("Load").define(definition, ["index", "thread", "text"]).unwrap()
}

pub(crate) fn config(mode: BufferingMode, budget_bytes: u64) -> SessionConfig {
    SessionConfig {
        buffering_mode: mode,
        budget_bytes,
        ..SessionConfig::new(SessionType::IpcStream, vec![ProviderConfig::everything("Load")])
    }
}

pub(crate) fn drop_session(pipe: &EventPipe, budget_bytes: u64) -> Session {
    pipe.create_session(config(BufferingMode::Drop, budget_bytes)).unwrap()
}

pub(crate) fn block_session(pipe: &EventPipe, budget_bytes: u64) -> Session {
    pipe.create_session(config(BufferingMode::Block, budget_bytes)).unwrap()
}

/// How a [`MemorySink`] treats what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Reads,
    /// Takes so many bytes of each call.
    Crawls(usize),
    /// Takes nothing, and no time passes.
    Holds,
    /// Takes nothing; each call of the sink moves the clock by its wait.
    Stalls,
    /// Takes so many bytes more, in small pieces, and is gone.
    BreaksAfter(usize),
    Fails,
    Panics,
    Closed,
}

/// The far end of a session, in the test's hands.
#[derive(Clone)]
pub(crate) struct MemoryPeer(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    clock: Option<Arc<StepClock>>,
    closed_by_session: AtomicBool,
}

struct State {
    peer: Peer,
    bytes: Vec<u8>,
    /// The session has tried to write to this peer, in vain.
    has_refused: bool,
}

pub(crate) struct MemorySink(Arc<Shared>);

impl MemoryPeer {
    pub(crate) fn new(peer: Peer, clock: Option<&Arc<StepClock>>) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State { peer, bytes: Vec::new(), has_refused: false }),
            changed: Condvar::new(),
            clock: clock.cloned(),
            closed_by_session: AtomicBool::new(false),
        }))
    }

    pub(crate) fn reading() -> Self {
        Self::new(Peer::Reads, None)
    }

    pub(crate) fn sink(&self) -> Box<MemorySink> {
        Box::new(MemorySink(Arc::clone(&self.0)))
    }

    pub(crate) fn set(&self, peer: Peer) {
        let mut state = self.0.state.lock().unwrap();
        (state.peer, state.has_refused) = (peer, false);
        self.0.changed.notify_all();
    }

    /// Stops the drain of a session that has started in the middle of a write, until the peer is set anew. It frees nothing then, so a thread that
    /// is seen to wait for capacity goes on waiting.
    pub(crate) fn hold(&self, tick: &Tick) {
        self.set(Peer::Holds);
        assert_eq!(tick.write((0, -1, "held")), WriteOutcome::Written);
        let state = self.0.state.lock().unwrap();
        let (_state, timeout) =
            self.0.changed.wait_timeout_while(state, PATIENCE, |state| !state.has_refused).unwrap();
        assert!(!timeout.timed_out(), "the drain never writes");
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.state.lock().unwrap().bytes.clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed_by_session.load(Ordering::SeqCst)
    }

    /// Until so many bytes have come.
    pub(crate) fn wait_for_bytes(&self, count: usize) {
        let state = self.0.state.lock().unwrap();
        let (state, timeout) =
            self.0.changed.wait_timeout_while(state, PATIENCE, |state| state.bytes.len() < count).unwrap();
        assert!(!timeout.timed_out(), "only {} of {count} bytes came", state.bytes.len());
    }

    /// Until the session has started: head of the stream and ProcessInfo are here.
    pub(crate) fn wait_for_start(&self) {
        self.wait_for_bytes(103);
    }

    /// Until the stream holds `count` events of the provider `Load`.
    pub(crate) fn wait_for_events(&self, count: usize) {
        let mut seen = 0;
        while read(&self.bytes()).ticks().count() < count {
            let state = self.0.state.lock().unwrap();
            let (state, timeout) = self
                .0
                .changed
                .wait_timeout_while(state, PATIENCE, |state| state.bytes.len() <= seen)
                .unwrap();
            assert!(!timeout.timed_out(), "the stream stands still");
            seen = state.bytes.len();
        }
    }
}

impl Sink for MemorySink {
    fn write(&mut self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
        let mut state = self.0.state.lock().unwrap();
        match state.peer {
            Peer::Reads => {
                state.bytes.extend_from_slice(bytes);
                self.0.changed.notify_all();
                Ok(bytes.len())
            }
            Peer::Crawls(most) => {
                let taken = bytes.len().min(most);
                state.bytes.extend_from_slice(&bytes[..taken]);
                self.0.changed.notify_all();
                Ok(taken)
            }
            peer @ (Peer::Holds | Peer::Stalls) => {
                state.has_refused = true;
                self.0.changed.notify_all();
                let (_state, timeout) = self
                    .0
                    .changed
                    .wait_timeout_while(state, Duration::from_millis(1), |state| state.peer == peer)
                    .unwrap();
                let time_passes = peer == Peer::Stalls && timeout.timed_out();
                if let Some(clock) = self.0.clock.as_ref().filter(|_| time_passes) {
                    clock.advance(wait);
                }
                Ok(0)
            }
            Peer::BreaksAfter(0) => Err(io::ErrorKind::BrokenPipe.into()),
            Peer::BreaksAfter(left) => {
                let taken = bytes.len().min(left).min(1_000);
                state.bytes.extend_from_slice(&bytes[..taken]);
                state.peer = Peer::BreaksAfter(left - taken);
                Ok(taken)
            }
            Peer::Fails => Err(io::Error::other("disk on fire")),
            Peer::Panics => {
                drop(state);
                panic!("sink panics")
            }
            Peer::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn peer_closed(&mut self) -> bool {
        self.0.state.lock().unwrap().peer == Peer::Closed
    }

    fn close(self: Box<Self>) {
        self.0.closed_by_session.store(true, Ordering::SeqCst);
    }
}

/// A stream as a reader of the format sees it.
pub(crate) struct Reading {
    pub(crate) events: Vec<ReadEvent>,
    pub(crate) points: Vec<Vec<(u64, u32)>>,
    pub(crate) completion: Completion,
    pub(crate) lost: u64,
    pub(crate) lost_by_thread: BTreeMap<u64, u64>,
}

impl Reading {
    /// Events of producers.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = &ReadEvent> {
        self.events.iter().filter(|event| event.definition.provider == "Load")
    }

    /// The same, whatever their provider; all have the fields of a [`Tick`]. Their second field is not negative, unlike in a rundown.
    pub(crate) fn producers(&self) -> impl Iterator<Item = &ReadEvent> {
        let is_tick = |event: &&ReadEvent| event.definition.event_name == "Tick";
        self.events.iter().filter(is_tick).filter(|event| event.payload[15] & 0x80 == 0)
    }

    pub(crate) fn infos(&self) -> usize {
        self.events.iter().filter(|event| event.definition.provider == "Diagport").count()
    }

    /// The first field of each tick, by the second: (thread, indexes).
    pub(crate) fn indexes(&self) -> BTreeMap<i64, Vec<i64>> {
        let mut by_thread = BTreeMap::<_, Vec<_>>::new();
        for event in self.ticks() {
            let number = |at: usize| i64::from_le_bytes(event.payload[at..at + 8].try_into().unwrap());
            by_thread.entry(number(8)).or_default().push(number(0));
        }
        by_thread
    }
}

/// Reads a stream, whole or cut, and checks order, flags, definitions, points.
pub(crate) fn read(bytes: &[u8]) -> Reading {
    let mut reader = Reader::new();
    reader.feed(bytes);
    let mut loss = LossCounter::new();
    let (mut events, mut points) = (Vec::<ReadEvent>::new(), Vec::new());
    let (mut last_ticks, mut floor) = (i64::MIN, i64::MIN);
    while let Some(record) = reader.next_record().unwrap() {
        loss.record(&record);
        match record {
            Record::Event(event) => {
                assert!(event.sorted, "every event is marked sorted");
                assert!(event.ticks >= last_ticks && event.ticks >= floor, "time goes back");
                last_ticks = event.ticks;
                events.push(event);
            }
            Record::SequencePoint { ticks, threads } => {
                assert!(ticks > last_ticks && ticks > floor, "a point is later than all before it");
                floor = ticks;
                points.push(threads);
            }
            _ => {}
        }
    }
    assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
    if let Some(first) = events.first() {
        assert_eq!(first.definition.event_name, "ProcessInfo");
        assert_eq!((first.sequence, first.capture_thread), (1, 1));
    }
    let lost_by_thread = loss
        .lost_by_thread()
        .map(|(thread, lost)| (thread.expect("a loss belongs to a thread"), lost))
        .collect();
    Reading { events, points, completion: reader.finish(), lost: loss.lost(), lost_by_thread }
}

pub(crate) fn finish(session: &Session) -> SessionEnd {
    match session.wait_finished(PATIENCE) {
        WaitFinished::Finished(end) => end,
        WaitFinished::TimedOut => panic!("session {} does not end", session.id()),
    }
}

/// Requires of a complete stream that its reader finds the loss that the session states.
pub(crate) fn account(peer: &MemoryPeer, end: &SessionEnd) -> Reading {
    assert!(peer.is_closed(), "the sink was closed");
    account_bytes(&peer.bytes(), end)
}

/// See [`account`].
pub(crate) fn account_bytes(bytes: &[u8], end: &SessionEnd) -> Reading {
    let reading = read(bytes);
    assert_eq!(reading.completion, Completion::Complete);
    let counted = end.statistics;
    assert_eq!(reading.lost, counted.dropped, "lost is what the server says it dropped");
    assert_eq!(counted.emitted, counted.written + counted.dropped);
    keep::keep(bytes, counted.dropped);
    reading
}

/// Stops the session, and requires that its stream accounts for every attempt.
pub(crate) fn stop_and_account(session: &Session, peer: &MemoryPeer) -> (Reading, SessionEnd) {
    session.request_stop();
    let end = finish(session);
    assert_eq!(end.reason, EndReason::Stopped);
    let reading = account(peer, &end);
    let received = reading.ticks().count() as u64;
    assert_eq!(received, end.statistics.written, "received is what the server says it wrote");
    (reading, end)
}

/// xorshift: the same numbers for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The OS id of the calling thread, as events show it.
pub(crate) fn thread_id() -> i64 {
    i64::from(rustix::thread::gettid().as_raw_nonzero().get())
}

/// Waits, by looking, for what another thread does next.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

/// Requires that one of some tries keeps to `promised`: a busy machine may disturb the others.
pub(crate) fn is_kept(what: &str, promised: Duration, mut attempt: impl FnMut() -> Duration) {
    let mut best = Duration::MAX;
    for _ in 0..30 {
        best = best.min(attempt());
        if best < promised {
            println!("{what}: {best:?}");
            return;
        }
    }
    panic!("{what}: {best:?} at best, promised {promised:?}");
}

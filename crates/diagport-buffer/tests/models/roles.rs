//! The roles of the models: threads that write, and what a reader saw.

use std::cell::RefCell;
use std::sync::Arc;

use diagport_buffer::{
    BufferTotals, EventBuffer, Lane, LaneWrite, Liveness, Parking, ProducerThread, Record, WakeReader,
    WakeReason,
};
use loom::sync::atomic::{AtomicU64, Ordering};

/// A record without a payload, and so the whole of a chunk in buffers as small as these.
pub(crate) const RECORD_BYTES: usize = 24;

/// Calls nobody: the model's reader looks by itself.
pub(crate) struct Silent;

impl WakeReader for Silent {
    fn wake(&self, _reason: WakeReason) {}
}

/// One producer's side.
pub(crate) struct Producer {
    side: RefCell<diagport_buffer::Producer>,
    pub(crate) thread: Arc<ProducerThread>,
    pub(crate) lane: Arc<Lane>,
}

impl Producer {
    pub(crate) fn new(buffer: &Arc<EventBuffer>, id: u64) -> Self {
        let side = diagport_buffer::Producer::new(id, String::new(), Parking::Allowed);
        let lane = buffer.add_lane(side.thread()).unwrap();
        Self { thread: Arc::clone(side.thread()), side: RefCell::new(side), lane }
    }

    /// One event, stamped by `clock`; never waits.
    pub(crate) fn try_write(&self, clock: &AtomicU64) -> LaneWrite {
        let mut side = self.side.borrow_mut();
        let mut guard = side.enter();
        let stamp = clock.load(Ordering::SeqCst);
        if self.lane.write_in_place(&mut guard, stamp, 0, |_| {}) {
            return LaneWrite::Written;
        }
        self.lane.write(&mut guard, stamp, &Record::new(0, &[]))
    }

    /// One event, stamped by `clock`; waits if it must.
    pub(crate) fn write(&self, clock: &AtomicU64) -> LaneWrite {
        loop {
            let outcome = self.try_write(clock);
            if outcome != LaneWrite::Blocked {
                return outcome;
            }
            self.thread.park();
        }
    }

    pub(crate) fn end(&self) {
        self.thread.mark_dead();
        self.lane.buffer().thread_ended();
    }
}

/// What a reader saw.
#[derive(Default)]
pub(crate) struct Seen {
    /// Lane, attempt and stamp of each record, in order.
    pub(crate) records: Vec<(u64, u64, u64)>,
    /// Attempts of each lane as of the last take.
    attempts: Vec<(u64, u64)>,
    pub(crate) ended: usize,
}

impl Seen {
    pub(crate) fn collect(&mut self, buffer: &EventBuffer) {
        buffer.collect(|take| {
            for mut chunk in take.chunks.drain(..) {
                while let Some(record) = chunk.front() {
                    self.records.push((take.lane.id(), record.attempt, record.ticks));
                    chunk.pop_front();
                }
                buffer.release(chunk);
            }
            self.attempts.retain(|(lane, _)| *lane != take.lane.id());
            self.attempts.push((take.lane.id(), take.attempts));
            self.ended += usize::from(take.liveness == Liveness::Ended);
        });
        buffer.end_round();
    }

    /// Received and lost make the attempts, lane by lane, and each lane's records are in order.
    pub(crate) fn check(&self, totals: BufferTotals) {
        let mut attempts = 0;
        for (lane, of_lane) in &self.attempts {
            let numbers: Vec<u64> =
                self.records.iter().filter(|record| record.0 == *lane).map(|record| record.1).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "lane {lane}: {numbers:?}");
            assert!(
                numbers.last().is_none_or(|last| last <= of_lane),
                "lane {lane}: {numbers:?} of {of_lane}"
            );
            attempts += of_lane;
        }
        assert_eq!(totals.attempts, attempts);
        assert_eq!(totals.attempts - totals.drops, self.records.len() as u64);
    }
}

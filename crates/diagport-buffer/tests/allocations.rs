//! When a producer asks for memory: for a chunk and for nothing else, and what becomes of its event when there is none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod allocator;

use std::cell::RefCell;
use std::sync::Arc;

use allocator::{CountingAllocator, count_allocations, without_memory};
use diagport_buffer::{
    BufferTotals, BufferingMode, EventBuffer, Lane, LaneWrite, Parking, Record, WakeReader, WakeReason,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Silent;

impl WakeReader for Silent {
    fn wake(&self, _reason: WakeReason) {}
}

struct Producer {
    side: RefCell<diagport_buffer::Producer>,
    lane: Arc<Lane>,
}

impl Producer {
    fn new(buffer: &Arc<EventBuffer>, id: u64) -> Self {
        let mut side = diagport_buffer::Producer::new(id, String::new(), Parking::Allowed);
        let lane = buffer.add_lane(side.enter().thread()).unwrap();
        Self { side: RefCell::new(side), lane }
    }

    fn write(&self, payload: &[u8]) -> LaneWrite {
        self.lane.write(&mut self.side.borrow_mut().enter(), 1, &Record::new(0, payload))
    }
}

fn buffer(mode: BufferingMode, budget_bytes: usize) -> Arc<EventBuffer> {
    EventBuffer::new(mode, budget_bytes, Arc::new(Silent))
}

/// Reads all there is and gives the chunks back; returns the records.
fn read(buffer: &EventBuffer) -> u64 {
    let mut records = 0;
    buffer.collect(|take| {
        for mut chunk in take.chunks.drain(..) {
            while chunk.front().is_some() {
                chunk.pop_front();
                records += 1;
            }
            buffer.release(chunk);
        }
    });
    buffer.end_round();
    records
}

/// Once the pool holds the chunks that a pace needs, writing takes them from there.
#[test]
fn invariant_13_a_producer_allocates_nothing_in_steady_state() {
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        for payload_bytes in [0, 16, 200, 3_000] {
            let buffer = buffer(mode, 1 << 20);
            let producers = [1, 2, 3].map(|id| Producer::new(&buffer, id));
            let payload = vec![7; payload_bytes];
            let round = || {
                let work = || {
                    for producer in &producers {
                        (0..50).for_each(|_| assert_eq!(producer.write(&payload), LaneWrite::Written));
                    }
                };
                let ((), allocations) = count_allocations(work);
                assert_eq!(read(&buffer), 150);
                allocations
            };
            let _warm_up: u64 = (0..20).map(|_| round()).sum();
            let steady: u64 = (0..100).map(|_| round()).sum();
            assert_eq!(
                steady, 0,
                "{mode:?}, payloads of {payload_bytes} bytes: allocations in 15,000 writes"
            );
        }
    }
}

/// Where a queue is joined, there may be no memory left.
#[test]
fn invariant_3_joining_the_queue_allocates_nothing() {
    let buffer = buffer(BufferingMode::Block, 4 << 10);
    let producers: Vec<_> = (0..200).map(|id| Producer::new(&buffer, id)).collect();
    while producers[0].write(&[0; 90]) == LaneWrite::Written {}
    let (blocked, allocations) = count_allocations(|| {
        producers[1..].iter().filter(|producer| producer.write(&[0; 90]) == LaneWrite::Blocked).count()
    });
    assert_eq!((blocked, allocations, buffer.waiting_count()), (199, 0, 200));
}

/// No memory for a chunk, though the budget has room: a drop that is counted, and no reason to wait.
#[test]
fn invariant_2_no_memory_is_a_counted_drop_in_both_modes() {
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        let buffer = buffer(mode, 1 << 20);
        let producer = Producer::new(&buffer, 1);
        assert_eq!(producer.write(&[1; 100]), LaneWrite::Written);
        let mut written = 1;
        let dropped = without_memory(|| {
            // What is left of the first chunk still serves.
            while producer.write(&[1; 100]) == LaneWrite::Written {
                written += 1;
            }
            1 + (0..999).filter(|_| producer.write(&[1; 100]) == LaneWrite::Dropped).count() as u64
        });
        assert_eq!((dropped, buffer.waiting_count()), (1_000, 0), "{mode:?}");
        assert_eq!(buffer.totals(), BufferTotals { attempts: written + 1_000, drops: 1_000 });
        assert_eq!(producer.write(&[1; 100]), LaneWrite::Written, "{mode:?}: there is memory again");
        assert_eq!(read(&buffer), written + 1);
    }
}

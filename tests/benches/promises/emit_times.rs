//! How long single emits took: a histogram that costs a few nanoseconds a value.

use std::time::Duration;

/// Values below this have a bucket each; above, each power of two has so many.
const FINE: u64 = 64;
const BUCKETS: usize = 64 * 64;

/// Times to about two parts in a hundred, the longest exactly.
#[derive(Debug, Clone)]
pub(crate) struct EmitTimes {
    counts: Vec<u64>,
    max_ns: u64,
}

impl Default for EmitTimes {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], max_ns: 0 }
    }
}

impl EmitTimes {
    pub(crate) fn add(&mut self, time: Duration) {
        let nanoseconds = time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos());
        self.counts[bucket(nanoseconds)] += 1;
        self.max_ns = self.max_ns.max(nanoseconds);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The time that `share` (0 to 1) of all do not exceed.
    pub(crate) fn quantile_ns(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, lower_end).min(self.max_ns)
    }
}

fn bucket(value: u64) -> usize {
    if value < FINE {
        return value as usize;
    }
    // The seven highest bits decide.
    let shift = u64::from(value.ilog2() - FINE.ilog2());
    let within = (value >> shift) - FINE;
    (FINE + shift * FINE + within) as usize
}

fn lower_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < FINE {
        return bucket;
    }
    let (shift, within) = (bucket / FINE - 1, bucket % FINE);
    (FINE + within) << shift
}

//! How a pipe tells time: a cheap stamp for each event, and what the stamps mean in nanoseconds.
//!
//! Reading CLOCK_MONOTONIC costs more than the rest of an event. So producers stamp with the processor's own counter, and the drain, which
//! reads both clocks once a round, translates between its last two readings: no rate is ever assumed, so no error adds up.

use std::sync::Arc;

use diagport_sys::counter;

use crate::clock::{Clock, MonotonicClock};

pub(crate) enum TimeSource {
    /// The processor's counter; ticks are CLOCK_MONOTONIC.
    Counter,
    /// The system's clock for both, where the counter is not to be trusted.
    System,
    /// A program's own clock: its ticks are the stamps.
    Custom(Arc<dyn Clock>),
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// In units of the stamps.
    pub(crate) stamp: u64,
    /// In nanoseconds.
    pub(crate) ticks: i64,
}

impl TimeSource {
    pub(crate) fn system() -> Self {
        if counter::is_steady() { Self::Counter } else { Self::System }
    }

    /// What an event is stamped with.
    #[inline(always)]
    pub(crate) fn stamp(&self) -> u64 {
        match self {
            Self::Counter => counter::read(),
            // No clock of ours is negative.
            Self::System | Self::Custom(_) => self.ticks() as u64,
        }
    }

    /// Nanoseconds, for everything that is not an event.
    pub(crate) fn ticks(&self) -> i64 {
        match self {
            Self::Counter | Self::System => MonotonicClock.ticks(),
            Self::Custom(clock) => clock.ticks(),
        }
    }

    pub(crate) fn utc_unix_millis(&self) -> i64 {
        match self {
            Self::Counter | Self::System => MonotonicClock.utc_unix_millis(),
            Self::Custom(clock) => clock.utc_unix_millis(),
        }
    }

    /// Both clocks now: the closest of a few readings, since this thread may be interrupted between two.
    pub(crate) fn now(&self) -> Moment {
        let reading = || {
            let before = self.stamp();
            let ticks = self.ticks();
            let apart = self.stamp().saturating_sub(before);
            (apart, Moment { stamp: before + apart / 2, ticks })
        };
        match self {
            Self::Counter => {
                let mut best = reading();
                for _ in 0..2 {
                    best = std::cmp::min_by_key(best, reading(), |(apart, _)| *apart);
                }
                best.1
            }
            Self::System | Self::Custom(_) => {
                let ticks = self.ticks();
                Moment { stamp: ticks as u64, ticks } // as in `stamp`
            }
        }
    }
}

/// From stamps to nanoseconds, between two moments. Never backwards, also from one span to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampSpan {
    from: Moment,
    to: Moment,
    /// Nanoseconds a stamp unit, in 2^-32.
    rate: u64,
    /// The stamp of its end is below that of its beginning.
    went_back: bool,
}

impl StampSpan {
    /// The span that ends at the pipe's beginning.
    pub(crate) fn at(moment: Moment) -> Self {
        Self { from: moment, to: moment, rate: 0, went_back: false }
    }

    /// The span that follows, up to `to`.
    pub(crate) fn next(self, to: Moment) -> Self {
        let from = self.to;
        // A moment that is not later than the last one adds nothing.
        if to.stamp <= from.stamp || to.ticks <= from.ticks {
            let still = Self::at(Moment { stamp: to.stamp, ticks: to.ticks.max(from.ticks) });
            return Self { went_back: to.stamp < from.stamp, ..still };
        }
        let (ticks, stamps) = ((to.ticks - from.ticks) as u128, u128::from(to.stamp - from.stamp));
        let rate = u64::try_from((ticks << 32) / stamps).unwrap_or(u64::MAX);
        Self { from, to, rate, went_back: false }
    }

    /// What a round that ends with it may show: stamps below this.
    ///
    /// Where the counter went back (a machine that slept, a clock that was set), stamps from before are above every boundary to come: so that round shows all.
    pub(crate) fn boundary(&self) -> u64 {
        if self.went_back { u64::MAX } else { self.to.stamp }
    }

    /// Nanoseconds of a stamp; what lies outside the span is moved to its end.
    #[inline]
    pub(crate) fn ticks(&self, stamp: u64) -> i64 {
        let since = u128::from(stamp.saturating_sub(self.from.stamp));
        let ticks = (since * u128::from(self.rate)) >> 32;
        i64::try_from(ticks)
            .map_or(self.to.ticks, |ticks| self.from.ticks.saturating_add(ticks).min(self.to.ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(stamp: u64, ticks: i64) -> Moment {
        Moment { stamp, ticks }
    }

    #[test]
    fn stamps_become_nanoseconds_between_two_moments() {
        let first = StampSpan::at(moment(1_000, 50)).next(moment(3_000, 1_050));
        let second = first.next(moment(4_000, 9_050));
        let still = second.next(moment(4_000, 9_050));
        let back = second.next(moment(3_500, 9_000));
        for (span, stamp, wanted) in [
            (first, 0, 50),
            (first, 1_000, 50),
            (first, 2_000, 550),
            (first, 3_000, 1_050),
            (first, 5_000, 1_050),
            (second, 3_000, 1_050),
            (second, 3_500, 5_050),
            (second, 4_000, 9_050),
            (still, 4_000, 9_050),
            (back, 4_000, 9_050),
            (back.next(moment(4_500, 10_050)), 4_000, 9_550),
            (StampSpan::at(moment(0, 0)).next(moment(u64::MAX, i64::MAX)), u64::MAX, i64::MAX),
        ] {
            let ticks = span.ticks(stamp);
            let error = (i128::from(ticks) - i128::from(wanted)).abs();
            assert!(
                error <= 1 + (i128::from(wanted) >> 31),
                "{stamp} in {span:?} gave {ticks}, wanted {wanted}"
            );
        }
    }

    #[test]
    fn after_a_clock_that_went_back_nothing_waits_for_it() {
        let first = StampSpan::at(moment(1_000, 50)).next(moment(9_000, 60));
        let back = first.next(moment(10, 70));
        let on = back.next(moment(20, 80));
        assert_eq!([first, back, on].map(|span| span.boundary()), [9_000, u64::MAX, 20]);
        assert_eq!((back.ticks(9_500), on.ticks(15)), (70, 75));
    }

    /// A clock that is read again and again at odd moments maps in order, and a day of it is as exact as a second.
    #[test]
    fn translation_never_goes_back() {
        let mut span = StampSpan::at(moment(0, 0));
        let (mut stamp, mut last) = (0_u64, 0);
        for step in 1..20_000_u64 {
            let begin = stamp;
            stamp += 1 + step * step % 977_777;
            span = span.next(moment(stamp, (stamp as f64 / 2.45) as i64));
            for at in [begin, begin + (stamp - begin) / 3, stamp] {
                let ticks = span.ticks(at);
                assert!(ticks >= last, "{ticks} after {last}");
                assert!((ticks as f64 - at as f64 / 2.45).abs() < 3.0, "{at} gave {ticks}");
                last = ticks;
            }
        }
    }

    #[test]
    fn the_systems_moments_agree_with_its_clocks() {
        let time = TimeSource::system();
        let (ticks, stamp) = (time.ticks(), time.stamp());
        let first = time.now();
        let second = time.now();
        assert!(first.ticks >= ticks && first.stamp >= stamp);
        assert!(second.ticks >= first.ticks && second.stamp >= first.stamp);
    }
}

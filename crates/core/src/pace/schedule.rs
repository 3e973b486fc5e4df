//! [`Schedule`]: the times at which packets should leave.

use alloc::boxed::Box;

use super::even::Even;
use super::on_off::Trains;
use super::pattern::Pattern;
use super::poisson::Poisson;
use super::recorded::Recorded;
use super::trace::Trace;
use crate::time::saturating_nanos;
use crate::{Rate, Timestamp};

/// An iterator over the places of a [`Pattern`] or of a [`Trace`]: absolute scheduled times, which no
/// departure and no delay moves.
///
/// [`RateClock`](super::RateClock) decides how a late sender treats them; a caller that only wants the times,
/// such as a simulation, steps through them itself.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{OnOff, Pattern, Schedule};
/// use softtimers_core::{Rate, Timestamp};
///
/// let micros = Duration::from_micros;
/// let pattern = Pattern::OnOff(OnOff::new(micros(100), micros(300))?);
/// let mut schedule = Schedule::new(Rate::every(micros(40))?, pattern, Timestamp::ZERO);
/// let places = core::iter::repeat_with(|| {
///     let place = schedule.place();
///     schedule.advance();
///     place.as_nanos() / 1_000
/// });
/// assert!(places.take(5).eq([0, 40, 80, 400, 440]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Cost
/// 40 bytes; a pattern other than constant has up to 80 more, allocated with it. Each operation is O(1) for constant and on/off patterns. For Poisson a step
/// costs a logarithm in integers (about 0.1 µs), and a leap or a count some 500 of them at most. Along a
/// recording a step is O(1), except ten times a second, a leap or a count O(log n).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule(Kind);

/// Each holds its rate and its position. All but the most common one are boxed, so that most flows stay
/// small.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Even(Even),
    Poisson(Box<Poisson>),
    Trains(Box<Trains>),
    Recorded(Box<Recorded>),
}

impl Schedule {
    /// Makes a schedule whose first place is at `start`. `rate` is the mean, or the rate while on.
    pub fn new(rate: Rate, pattern: Pattern, start: Timestamp) -> Self {
        Schedule(match pattern {
            Pattern::Constant => Kind::Even(Even::starting(rate, start)),
            Pattern::Poisson { seed } => Kind::Poisson(Box::new(Poisson::starting(rate, seed, start))),
            Pattern::OnOff(on_off) => Kind::Trains(Box::new(Trains::starting(rate, on_off, start))),
        })
    }

    /// Makes a schedule of the places of a recording, the first at `start`; after the last comes the end of
    /// time.
    pub fn replay(trace: Trace, start: Timestamp) -> Self {
        Schedule(Kind::Recorded(Box::new(Recorded::starting(trace, start))))
    }

    /// Begins again, with its first place at `start`. A Poisson schedule that has been advanced continues
    /// with new gaps, or all trains of a flow would be alike.
    pub fn restart(&mut self, start: Timestamp) {
        match &mut self.0 {
            Kind::Even(even) => even.restart(start),
            Kind::Poisson(poisson) => poisson.restart(start),
            Kind::Trains(trains) => trains.restart(start),
            Kind::Recorded(recorded) => recorded.restart(start),
        }
    }

    /// Returns the current place. [`Timestamp::MAX`] is the end of time, not a place.
    #[inline]
    pub fn place(&self) -> Timestamp {
        if let Kind::Even(even) = &self.0 { even.place() } else { self.uneven_place() }
    }

    #[inline(never)]
    fn uneven_place(&self) -> Timestamp {
        match &self.0 {
            Kind::Even(even) => even.place(),
            Kind::Poisson(poisson) => poisson.place(),
            Kind::Trains(trains) => trains.place(),
            Kind::Recorded(recorded) => recorded.place(),
        }
    }

    /// Moves on to the next place.
    pub fn advance(&mut self) {
        self.leap(1);
    }

    /// Sets another rate from `now` on.
    ///
    /// `places` is the length of the gap that leads to the current place; zero if none does. An even schedule
    /// keeps the remaining share of that gap, and stays as many places behind. Other patterns no longer catch
    /// up: Poisson draws a new gap from `now`, trains take their next place in the same periods. A recording
    /// keeps its times.
    pub fn set_rate(&mut self, now: Timestamp, rate: Rate, places: u64) {
        match &mut self.0 {
            Kind::Even(even) => even.set_rate(now, rate, places),
            Kind::Trains(trains) => trains.set_rate(now, rate, places > 0),
            Kind::Poisson(poisson) => poisson.set_rate(now, rate, places > 0),
            Kind::Recorded(_) => {}
        }
    }

    /// Returns the length of the gap of `places` places that leads to the current one, in nanoseconds; for a
    /// pattern, the mean.
    pub(super) fn gap_behind(&self, places: u64) -> u64 {
        if let Kind::Recorded(recorded) = &self.0 {
            return saturating_nanos(recorded.gap_behind(places));
        }
        self.rate().span_nanos(places)
    }

    /// Moves on to the first place at or after `time`, and returns how many it passed.
    ///
    /// For Poisson the number is exact unless more than 256 mean intervals are leapt over; beyond that
    /// it counts their mean. The places are the same in any case: those of the seed.
    pub fn advance_to(&mut self, time: Timestamp) -> u64 {
        if let Kind::Poisson(poisson) = &mut self.0 {
            return poisson.advance_to(time);
        }
        let places = self.places_before(time);
        self.leap(places);
        places
    }

    /// Returns the number of places from the current one on that are before `time`, counted as by
    /// [`advance_to`](Self::advance_to).
    pub fn places_before(&self, time: Timestamp) -> u64 {
        match &self.0 {
            Kind::Even(even) => even.places_before(time),
            Kind::Poisson(poisson) => poisson.places_before(time),
            Kind::Trains(trains) => trains.places_before(time),
            Kind::Recorded(recorded) => recorded.places_before(time),
        }
    }

    /// Returns the recorded length in bytes of the packet at the current place; `None` for a pattern, and after the
    /// last packet.
    pub fn length(&self) -> Option<u16> {
        if let Kind::Recorded(recorded) = &self.0 { recorded.length() } else { None }
    }

    /// Returns the interval in nanoseconds, if all gaps are equal and of whole nanoseconds, up to 4 s.
    pub(super) fn whole_interval(&self) -> Option<u32> {
        let Kind::Even(even) = &self.0 else { return None };
        let (numerator, denominator) = even.rate().fraction();
        u32::try_from(numerator).ok().filter(|_| denominator == 1)
    }

    /// Returns the burst interval that a recording has where it is, in nanoseconds; `None` for a pattern.
    #[inline]
    pub(super) fn recorded_burst_interval(&self) -> Option<u64> {
        if let Kind::Recorded(recorded) = &self.0 { Some(recorded.burst_interval()) } else { None }
    }

    /// Returns whether all gaps are equal.
    pub(super) fn is_even(&self) -> bool {
        matches!(self.0, Kind::Even(_))
    }

    /// Returns the rate: the mean, or the rate while on.
    pub fn rate(&self) -> Rate {
        match &self.0 {
            Kind::Even(even) => even.rate(),
            Kind::Poisson(poisson) => poisson.rate(),
            Kind::Trains(trains) => trains.rate(),
            Kind::Recorded(recorded) => recorded.rate(),
        }
    }

    /// Skips places further back than `most_late` nanoseconds, and all but the last `most` of the others. An
    /// even schedule keeps as many as `most_late` has whole intervals. Returns how many were skipped.
    pub(super) fn give_up(&mut self, now: Timestamp, most_late: u64, most: u64) -> u64 {
        let oldest = Timestamp::from_nanos(now.as_nanos().saturating_sub(most_late));
        let most = match &mut self.0 {
            // Counting them would mean stepping through all of them at each departure.
            Kind::Poisson(poisson) => {
                let span = poisson.rate().span_nanos(most);
                return poisson
                    .advance_to(oldest.max(Timestamp::from_nanos(now.as_nanos().saturating_sub(span))));
            }
            Kind::Even(even) => most.min(even.rate().intervals_in(most_late)),
            Kind::Trains(_) | Kind::Recorded(_) => most,
        };
        let lost = self.places_before(oldest).max(self.places_before(now).saturating_sub(most));
        self.leap(lost);
        lost
    }

    /// Moves on by `places` places; for Poisson step by step.
    #[inline]
    pub fn leap(&mut self, places: u64) {
        if let Kind::Even(even) = &mut self.0 { even.advance(places) } else { self.leap_unevenly(places) }
    }

    #[inline(never)]
    fn leap_unevenly(&mut self, places: u64) {
        match &mut self.0 {
            Kind::Even(even) => even.advance(places),
            Kind::Trains(trains) => trains.advance(places),
            Kind::Recorded(recorded) => recorded.advance(places),
            Kind::Poisson(poisson) => (0..places).for_each(|_| poisson.advance()),
        }
    }
}

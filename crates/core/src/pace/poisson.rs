//! Places at random, independent of each other: exponentially distributed gaps with a given mean.
//!
//! The sequence for a seed is a promise, and a stall of any length must cost a bounded amount of work
//! without breaking it. A generator that only knows the gap after the last one can't leap. So time is
//! cut into *stretches* of 256 mean intervals, and in each the process starts afresh from a seed of its
//! own, made of the flow's seed and the stretch's number. A Poisson process has no memory, so one that
//! is restarted at fixed times is still a Poisson process, exactly:
//!
//! ```text
//!   stretch   │ 0                   │ 1                   │ …   │ 9,000,001           │
//!   places    ││ ││   │     │  │ │  │    ││ │   │  ││     │     │ │  │      │││   │   │
//!             start                 ×                                  a leap begins here,
//!                                   the gap that would cross            and walks
//!                                   is dropped and drawn anew
//! ```
//!
//! Places are kept as multiples of the mean interval with 48 fractional bits and turned into
//! nanoseconds one by one, so rounding does not add up.

use core::time::Duration;

use crate::{Random, Rate, Timestamp};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Poisson {
    rate: Rate,
    seed: u64,
    start: Timestamp,
    at: Timestamp,
    stretch: u64,
    /// The current place in its stretch, in mean intervals; less than [`STRETCH`].
    inside: u64,
    random: Random,
}

impl Poisson {
    /// The first place is at `start`.
    pub(super) fn starting(rate: Rate, seed: u64, start: Timestamp) -> Self {
        Poisson { rate, seed, start, at: start, stretch: 0, inside: 0, random: Random::stream(seed, 0) }
    }

    /// The gaps of one train are not those of the train before it.
    pub(super) fn restart(&mut self, start: Timestamp) {
        let untouched = self.stretch == 0 && self.inside == 0;
        let seed = if untouched { self.seed } else { Random::stream(self.seed, u64::MAX).next_u64() };
        *self = Poisson::starting(self.rate, seed, start);
    }

    /// Another rate from `now` on. The process has no memory, so the gap that was under way, if any, is
    /// drawn anew.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Rate, under_way: bool) {
        self.rate = rate;
        if under_way {
            self.restart(now);
            self.advance();
        } else {
            self.restart(self.at);
        }
    }

    pub(super) fn place(&self) -> Timestamp {
        self.at
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Moves on by one place. One logarithm, two if it enters a new stretch.
    pub(super) fn advance(&mut self) {
        self.draw();
        self.at = self.time_of(self.stretch, self.inside);
    }

    /// Moves on to the first place at or after `time`; returns how many it left behind, where each
    /// stretch that is leapt over whole counts as 256, its mean. At most two stretches are walked.
    pub(super) fn advance_to(&mut self, time: Timestamp) -> u64 {
        if self.at >= time {
            return 0;
        }
        let (stretch, inside) = self.locate(time);
        let mut left = 0u64;
        if stretch > self.stretch {
            let from = self.stretch;
            while self.stretch == from {
                self.draw();
                left += 1;
            }
            if stretch > self.stretch {
                left = left.saturating_add((stretch - self.stretch).saturating_mul(STRETCH_PLACES));
                self.enter(stretch);
                self.draw();
            }
        }
        // `locate` may be a fraction of a nanosecond off: leave the last steps to exact times.
        while self.stretch == stretch && self.inside < inside {
            self.draw();
            left = left.saturating_add(1);
        }
        self.at = self.time_of(self.stretch, self.inside);
        while self.at < time {
            self.advance();
            left = left.saturating_add(1);
        }
        left
    }

    /// As [`advance_to`](Self::advance_to) would count.
    pub(super) fn places_before(&self, time: Timestamp) -> u64 {
        self.clone().advance_to(time)
    }

    fn draw(&mut self) {
        self.inside += self.random.exponential();
        if self.inside >= STRETCH {
            self.enter(self.stretch.saturating_add(1));
            self.inside = self.random.exponential();
        }
    }

    fn enter(&mut self, stretch: u64) {
        (self.stretch, self.inside) = (stretch, 0);
        self.random = Random::stream(self.seed, stretch);
    }

    /// Saturates, as all times do.
    fn time_of(&self, stretch: u64, inside: u64) -> Timestamp {
        let (numerator, denominator) = self.rate.fraction();
        let (numerator, denominator) = (u128::from(numerator), u128::from(denominator));
        let whole = (u128::from(stretch) * u128::from(STRETCH_PLACES)).saturating_mul(numerator);
        let part = u128::from(inside) * numerator / u128::from(Random::ONE);
        let nanos = whole.saturating_add(part) / denominator;
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The stretch that `time` is in, and where in it, both rounded down.
    fn locate(&self, time: Timestamp) -> (u64, u64) {
        let (numerator, denominator) = self.rate.fraction();
        let elapsed = u128::from(time.as_nanos().saturating_sub(self.start.as_nanos()));
        let units = elapsed * u128::from(denominator);
        let length = u128::from(numerator) * u128::from(STRETCH_PLACES);
        let rest = units % length;
        // Less than 2⁷²: shifting in steps of 48 bits needs 120.
        let inside = (rest << Random::ONE.trailing_zeros()) / u128::from(numerator);
        (u64::try_from(units / length).unwrap_or(u64::MAX), inside as u64)
    }
}

/// Mean intervals in a stretch: what a leap may have to walk, twice, at less than 0.1 µs each.
const STRETCH_PLACES: u64 = 256;
const STRETCH: u64 = STRETCH_PLACES * Random::ONE;

#[cfg(test)]
mod tests;

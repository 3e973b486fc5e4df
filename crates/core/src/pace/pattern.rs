//! How departures are spread over time around their rate.

use core::time::Duration;

use super::error::PaceError;
use crate::Rate;
use crate::time::saturating_nanos;

/// The distribution of departures over time.
///
/// ```text
///   Constant   │   │   │   │   │   │   │   │   │   │   │   │   one interval apart
///   Poisson    ││    │  │       │ │││     │   │  │       ││   the same number on average, at random
///   OnOff      │   │   │   │                   │   │   │   │   the interval while on, else nothing
/// ```
///
/// Constant is what pacing aims at. The others are traffic to test with: Poisson arrivals are those of
/// many independent sources, and on/off trains those of a source that sends now and then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Pattern {
    /// Equal gaps of one interval.
    #[default]
    Constant,
    /// Independent, exponentially distributed gaps with the interval as their mean.
    Poisson {
        /// Decides all gaps: the same seed and rate give the same schedule, in any version.
        seed: u64,
    },
    /// Equal gaps in on periods, with off periods between them.
    OnOff(OnOff),
}

impl Pattern {
    /// Returns the rate over the whole pattern, off periods included, where `rate` is the one while on.
    pub fn mean_rate(self, rate: Rate) -> Rate {
        match self {
            Pattern::Constant | Pattern::Poisson { .. } => rate,
            // No more places than nanoseconds, so this is always a rate.
            Pattern::OnOff(on_off) => {
                Rate::new(on_off.period_nanos(), on_off.train_length(rate)).unwrap_or(rate)
            }
        }
    }
}

/// The lengths of on and off periods: both above zero, and together no more than 584 years.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{OnOff, Pattern};
/// use softtimers_core::Rate;
///
/// // A talk spurt in ten: ten packets a millisecond apart, then 90 ms of silence.
/// let bursts = OnOff::new(Duration::from_millis(10), Duration::from_millis(90))?;
/// let rate = Rate::per_second(1_000)?;
/// assert_eq!(Pattern::OnOff(bursts).mean_rate(rate).packets_per_second(), 100.0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OnOff {
    on: u64,
    off: u64,
}

impl OnOff {
    /// Repeats an on period and an off period of these lengths.
    ///
    /// # Errors
    /// [`PaceError`] for zero of either, or more than 584 years together.
    pub fn new(on: Duration, off: Duration) -> Result<Self, PaceError> {
        if on.is_zero() {
            return Err(PaceError::NeverOn);
        }
        if off.is_zero() {
            return Err(PaceError::NeverOff);
        }
        if u64::try_from(on.saturating_add(off).as_nanos()).is_err() {
            return Err(PaceError::LongPeriod);
        }
        Ok(OnOff { on: saturating_nanos(on), off: saturating_nanos(off) })
    }

    /// The length of an on period.
    pub const fn on(self) -> Duration {
        Duration::from_nanos(self.on)
    }

    /// The length of an off period.
    pub const fn off(self) -> Duration {
        Duration::from_nanos(self.off)
    }

    pub(super) fn period_nanos(self) -> u64 {
        self.on + self.off
    }

    /// The number of k for which k · T < on: at least one, at most one for each nanosecond.
    pub(super) fn train_length(self, rate: Rate) -> u64 {
        let (numerator, denominator) = rate.fraction();
        let places = (u128::from(self.on) * u128::from(denominator)).div_ceil(u128::from(numerator));
        u64::try_from(places).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_on_off_pattern_is_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(OnOff::new(Duration::ZERO, second), Err(PaceError::NeverOn));
        assert_eq!(OnOff::new(second, Duration::ZERO), Err(PaceError::NeverOff));
        assert_eq!(OnOff::new(Duration::MAX, second), Err(PaceError::LongPeriod));
        assert_eq!(
            OnOff::new(Duration::from_nanos(u64::MAX), Duration::from_nanos(1)),
            Err(PaceError::LongPeriod)
        );
    }

    #[test]
    fn the_mean_of_a_pattern_counts_its_silence() {
        let on_off = |on, off| {
            Pattern::OnOff(OnOff::new(Duration::from_micros(on), Duration::from_micros(off)).unwrap())
        };
        let rate = Rate::per_second(25_000).unwrap();
        assert_eq!(Pattern::Constant.mean_rate(rate), rate);
        assert_eq!(Pattern::Poisson { seed: 1 }.mean_rate(rate), rate);
        // 0, 40 and 80 µs of 100 µs on; then off: 3 in 400 µs.
        assert_eq!(on_off(100, 300).mean_rate(rate).packets_per_second(), 7_500.0);
        // Faster or slower than the period: at most one a nanosecond, at least one a period.
        let fastest = Rate::per_second(1_000_000_000).unwrap();
        assert_eq!(on_off(1, 1).mean_rate(fastest).packets_per_second(), 500_000_000.0);
        assert_eq!(on_off(1, 99).mean_rate(Rate::per_second(1).unwrap()).packets_per_second(), 10_000.0);
    }
}

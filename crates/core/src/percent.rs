//! A share in percent, as users write it, applied to a period.

use core::fmt;
use core::time::Duration;

/// A whole percentage, 0 to 100.
///
/// Limits on CPU time are given in percent and applied to a period (livelock paper §7: the threshold
/// is a percentage, translated to cycles of the period).
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Percent;
///
/// let share = Percent::new(25)?;
/// assert_eq!(share.share_of(Duration::from_millis(10)), Duration::from_micros(2_500));
/// assert_eq!(Percent::new(101).unwrap_err().to_string(), "101%: a percentage is 0 to 100");
/// # Ok::<(), softtimers_core::PercentError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Percent(u8);

impl Percent {
    /// All of it: 100%.
    pub const ALL: Percent = Percent(100);

    /// Half of it: 50%.
    pub const HALF: Percent = Percent(50);

    /// `percent`, if it is at most 100.
    ///
    /// # Errors
    /// [`PercentError`] for more than 100.
    pub const fn new(percent: u32) -> Result<Self, PercentError> {
        if percent > 100 {
            return Err(PercentError { percent });
        }
        Ok(Percent(percent as u8))
    }

    /// Returns the percentage as a number, 0 to 100.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// This share of `whole`, rounded down to a nanosecond.
    pub const fn share_of(self, whole: Duration) -> Duration {
        // 100% of the longest duration is 1.8e28 ns; times 100 it still fits 128 bits.
        let nanos = whole.as_nanos() * self.0 as u128 / 100;
        Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
    }

    /// This share of `whole` units (cycles, ticks, bytes), rounded down.
    pub const fn of_units(self, whole: u64) -> u64 {
        (whole as u128 * self.0 as u128 / 100) as u64
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// A percentage beyond 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PercentError {
    percent: u32,
}

impl fmt::Display for PercentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%: a percentage is 0 to 100", self.percent)
    }
}

impl core::error::Error for PercentError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_becomes_cycles_of_the_period() {
        // 25, 50, 75 and 100% of 10 ms at 2.6 GHz.
        let cycles = [25, 50, 75, 100].map(|percent| Percent::new(percent).unwrap().of_units(26_000_000));
        assert_eq!(cycles, [6_500_000, 13_000_000, 19_500_000, 26_000_000]);
        assert_eq!(Percent::new(0).unwrap().of_units(u64::MAX), 0);
        assert_eq!(Percent::new(100).unwrap().of_units(u64::MAX), u64::MAX);
        assert_eq!(Percent::new(100).unwrap().share_of(Duration::MAX), Duration::MAX);
    }
}

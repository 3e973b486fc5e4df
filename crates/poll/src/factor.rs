//! Weights and thresholds as whole thousandths, so that policies need no floating point.

use core::fmt;

/// A factor in thousandths: 0.3 is `Factor::thousandths(300)`.
///
/// ```
/// use softtimers_poll::Factor;
///
/// assert_eq!(Factor::thousandths(2_500).to_string(), "2.5");
/// assert_eq!(Factor::thousandths(800).times(1_000_000), 800_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Factor(u32);

impl Factor {
    /// The factor 1, which changes nothing.
    pub const ONE: Factor = Factor(1_000);

    /// Makes a factor of a number of thousandths.
    pub const fn thousandths(thousandths: u32) -> Self {
        Factor(thousandths)
    }

    /// Returns the number of thousandths.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// This factor of `whole`, rounded down; saturates.
    pub const fn times(self, whole: u64) -> u64 {
        let product = whole as u128 * self.0 as u128 / 1_000;
        if product > u64::MAX as u128 { u64::MAX } else { product as u64 }
    }

    /// `self · kept + (1 − self) · new`, rounded down: an exponential average that gives history this weight,
    /// at most one (HIP eq. 1).
    pub(super) const fn average(self, kept: u128, new: u128) -> u128 {
        let weight = if self.0 > 1_000 { 1_000 } else { self.0 } as u128;
        // Quotients and remainders apart: squares of gaps fill 128 bits, and a thousand times that would not fit.
        let whole = kept / 1_000 * weight + new / 1_000 * (1_000 - weight);
        whole + (kept % 1_000 * weight + new % 1_000 * (1_000 - weight)) / 1_000
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000, self.0 % 1_000);
        match part {
            0 => write!(f, "{whole}"),
            part if part % 100 == 0 => write!(f, "{whole}.{}", part / 100),
            part if part % 10 == 0 => write!(f, "{whole}.{:02}", part / 10),
            part => write!(f, "{whole}.{part:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn factors_are_written_as_people_write_them() {
        let text = [0, 300, 1_250, 2_000, 2_005].map(|n| Factor::thousandths(n).to_string());
        assert_eq!(text, ["0", "0.3", "1.25", "2", "2.005"]);
    }

    #[test]
    fn an_average_stays_between_its_terms() {
        assert_eq!(Factor::thousandths(300).average(10_000_000, 2_000_000), 4_400_000);
        assert_eq!(Factor::ONE.average(7, 9), 7);
        assert_eq!(Factor::thousandths(300).average(u128::MAX, u128::MAX), u128::MAX);
        assert_eq!(Factor::thousandths(0).average(7, 9), 9);
        assert_eq!(Factor::thousandths(5_000).average(7, 9), 7, "a weight is at most one");
        assert_eq!(Factor::thousandths(u32::MAX).times(u64::MAX), u64::MAX);
    }
}

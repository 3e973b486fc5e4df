//! Nanoseconds as plain numbers, for paths on which converting to and from a [`Duration`] would cost more
//! than everything else.

use core::time::Duration;

use softtimers_core::Timestamp;

/// A [`Timestamp`] and nanoseconds.
pub(crate) trait Nanos {
    /// `self + nanos`; saturates.
    fn after(self, nanos: u64) -> Self;

    /// `self - earlier` in nanoseconds, or zero if `earlier` is later.
    fn nanos_since(self, earlier: Self) -> u64;
}

impl Nanos for Timestamp {
    #[inline]
    fn after(self, nanos: u64) -> Self {
        Timestamp::from_nanos(self.as_nanos().saturating_add(nanos))
    }

    #[inline]
    fn nanos_since(self, earlier: Self) -> u64 {
        self.as_nanos().saturating_sub(earlier.as_nanos())
    }
}

/// A duration in whole nanoseconds, at most `u64::MAX` (584 years).
#[inline]
pub(crate) const fn saturating_nanos(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(1_000_000_000) {
        Some(nanos) => nanos.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}

/// a · b / c, rounded down; saturates. A 128-bit division costs several 64-bit ones, and is rarely needed.
pub(crate) fn multiply_divide(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::multiply_divide;

    #[test]
    fn a_product_of_more_than_64_bits_is_divided_as_exactly_as_a_smaller_one() {
        assert_eq!(multiply_divide(7, 100, 30), 23);
        assert_eq!(multiply_divide(u64::MAX, 100, 400), u64::MAX / 4);
        assert_eq!(multiply_divide(u64::MAX, 3, 2), u64::MAX, "it saturates");
    }
}

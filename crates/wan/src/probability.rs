//! Shares of packets, exact in decimals: [`Probability`].

use std::fmt;

use softtimers_core::{Percent, Random};

/// A probability in parts per billion: `0.1%` is exactly that, not a binary fraction near it.
///
/// ```
/// use softtimers_wan::Probability;
///
/// assert_eq!(Probability::per_million(1_000)?.to_string(), "0.001");
/// assert!(Probability::per_million(1_000_001).is_err());
/// # Ok::<(), softtimers_wan::ProbabilityError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0);
    /// Always.
    pub const ALWAYS: Probability = Probability(BILLION);

    /// Returns the probability of `parts` in 10⁹.
    ///
    /// # Errors
    /// [`ProbabilityError`] for more than 10⁹.
    pub const fn per_billion(parts: u32) -> Result<Self, ProbabilityError> {
        if parts > BILLION { Err(ProbabilityError) } else { Ok(Probability(parts)) }
    }

    /// Returns the probability of `parts` in 10⁶.
    ///
    /// # Errors
    /// [`ProbabilityError`] for more than 10⁶.
    pub const fn per_million(parts: u32) -> Result<Self, ProbabilityError> {
        if parts > 1_000_000 { Err(ProbabilityError) } else { Ok(Probability(parts * 1_000)) }
    }

    /// Returns the probability of one in `number`: one loss in 200 packets, a burst that ends once in 3. Rounded to
    /// parts per billion; zero is never.
    pub const fn once_in(number: u32) -> Self {
        match (BILLION + number / 2).checked_div(number) {
            Some(parts) if parts < BILLION => Probability(parts),
            Some(_) => Probability::ALWAYS,
            None => Probability::NEVER,
        }
    }

    /// Returns the probability of `some` in `all`, rounded.
    pub(crate) fn share(some: u64, all: u64) -> Self {
        let parts = (u128::from(some) * u128::from(BILLION) + u128::from(all / 2)) / u128::from(all.max(1));
        Probability(u32::try_from(parts).unwrap_or(BILLION).min(BILLION))
    }

    /// Returns the probability in parts per billion.
    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }

    /// Returns the probability as a fraction of one, for people.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(BILLION)
    }

    /// Draws whether it happens this time. The answer is drawn from one number, unless it is certain.
    pub(crate) fn happens(self, random: &mut Random) -> bool {
        match self {
            Probability::NEVER => false,
            Probability::ALWAYS => true,
            Probability(parts) => random.below(u64::from(BILLION)) < u64::from(parts),
        }
    }
}

impl From<Percent> for Probability {
    fn from(percent: Percent) -> Self {
        Probability(u32::from(percent.get()) * (BILLION / 100))
    }
}

/// Prints a fraction of one, with all of its digits: `0.001`.
impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / BILLION, self.0 % BILLION);
        if parts == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{parts:09}").trim_end_matches('0'))
    }
}

/// A probability above one was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbabilityError;

impl fmt::Display for ProbabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a probability is at most one")
    }
}

impl std::error::Error for ProbabilityError {}

const BILLION: u32 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_shown_so() {
        let shown = |parts| Probability::per_billion(parts).unwrap().to_string();
        assert_eq!(
            [shown(0), shown(1), shown(250_000_000), shown(BILLION)],
            ["0", "0.000000001", "0.25", "1"]
        );
        assert_eq!(Probability::from(Percent::HALF), Probability::once_in(2));
        assert_eq!([0, 1, 3, u32::MAX].map(|n| Probability::once_in(n).0), [0, BILLION, 333_333_333, 0]);
        assert_eq!(Probability::per_billion(BILLION + 1), Err(ProbabilityError));
    }
}

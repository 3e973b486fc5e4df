//! The mean and the spread of the gaps between packets, by equations 1 and 2.
//!
//! ```text
//!   D          the last gap
//!   I   ←  α·I + (1 − α)·D                    (1)     α weighs history: with 0.3 it forgets fast
//!   σ²  ←  β·σ² + (1 − β)·(I − D)²            (2)     with the I just made, which fits the paper's tables best
//! ```
//!
//! Nanoseconds are whole numbers, or have twelve fractional bits. A gap counts as at most 18 minutes, so that
//! its square fits.

use crate::nanos::Nanos;
use softtimers_core::Timestamp;

use super::super::Factor;
use super::{Deviation, HipConfig, Mean};

/// HIP's estimate of a stream of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interarrival {
    alpha: Factor,
    beta: Factor,
    kind: Deviation,
    against: Mean,
    /// Fractional bits of the fields below.
    digits: u32,
    /// The mean after a reset.
    first: u64,
    mean: u64,
    spread: Spread,
    last: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spread {
    /// σ², in square nanoseconds.
    Variance(u128),
    /// The mean of |I − D|.
    Error(u64),
}

impl Interarrival {
    /// Makes an estimate without packets.
    pub(super) fn new(config: &HipConfig) -> Self {
        let digits = if config.unsaid.finer_estimate { FINER } else { 0 };
        let first = config.first_mean_nanos().saturating_mul(1 << digits);
        Interarrival {
            alpha: config.alpha,
            beta: config.beta,
            kind: config.deviation,
            against: config.mean,
            digits,
            first,
            mean: first,
            spread: Spread::none(config.deviation),
            last: None,
        }
    }

    /// Records a packet's arrival. One that came before its predecessor counts as coming with it.
    pub(super) fn arrived(&mut self, at: Timestamp) {
        let Some(last) = self.last.replace(self.last.map_or(at, |last| last.max(at))) else { return };
        let gap = at.nanos_since(last).min(LONGEST_GAP) << self.digits;
        let before = self.mean;
        self.mean = self.alpha.average(self.mean.into(), gap.into()) as u64;
        let against = match self.against {
            Mean::Updated => self.mean,
            Mean::Previous => before,
        };
        let error = against.abs_diff(gap);
        self.spread = match self.spread {
            Spread::Variance(variance) => {
                Spread::Variance(self.beta.average(variance, u128::from(error) * u128::from(error)))
            }
            Spread::Error(mean) => Spread::Error(self.beta.average(mean.into(), error.into()) as u64),
        };
    }

    /// Resets the estimate; keeps the last packet only if the gap after it `counts`.
    pub(super) fn reset(&mut self, counts: bool) {
        self.mean = self.first;
        self.spread = Spread::none(self.kind);
        self.last = self.last.filter(|_| counts);
    }

    /// Keeps mean and spread although the stream was abandoned.
    pub(super) fn keep(&mut self, counts: bool) {
        self.last = self.last.filter(|_| counts);
    }

    /// Returns I, the mean gap, in nanoseconds.
    pub(super) fn mean_nanos(&self) -> u64 {
        self.mean >> self.digits
    }

    /// Returns σ, in nanoseconds, rounded down.
    ///
    /// # Cost
    /// A square root of up to 128 bits, or none if the mean error is used.
    pub(super) fn deviation_nanos(&self) -> u64 {
        self.deviation() >> self.digits
    }

    /// Returns σ with its fractional bits.
    fn deviation(&self) -> u64 {
        match self.spread {
            // A variance is at most the square of the longest gap.
            Spread::Variance(variance) => match u64::try_from(variance) {
                Ok(small) => small.isqrt(),
                Err(_) => variance.isqrt() as u64,
            },
            Spread::Error(mean) => as_deviation(mean),
        }
    }

    /// σ/I < γ, without a square root or a division. A mean of zero counts as a nanosecond.
    pub(super) fn is_regular(&self, gamma: Factor) -> bool {
        let mean = u128::from(self.mean.max(1));
        let limit = u128::from(gamma.get()) * mean;
        match self.spread {
            // Either side may reach 2¹⁶⁴: both are divided, or compared by their roots if too large.
            Spread::Variance(variance) => match (limit.checked_mul(limit), variance.checked_mul(1_000_000)) {
                (Some(limit), Some(variance)) => variance < limit,
                _ => u128::from(self.deviation()) * 1_000 < limit,
            },
            Spread::Error(mean_error) => u128::from(as_deviation(mean_error)) * 1_000 < limit,
        }
    }
}

impl Spread {
    const fn none(kind: Deviation) -> Self {
        match kind {
            Deviation::Standard => Spread::Variance(0),
            Deviation::MeanError => Spread::Error(0),
        }
    }
}

/// A mean error is about four fifths of a standard deviation, for errors that are normally distributed.
const fn as_deviation(mean_error: u64) -> u64 {
    mean_error + mean_error / 4
}

/// Fractional bits of the finer estimate: its square has twice as many, with room above.
const FINER: u32 = 12;
/// Eighteen minutes, in nanoseconds.
const LONGEST_GAP: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::super::super::Preset;
    use super::*;

    fn gaps(config: HipConfig) -> Interarrival {
        Interarrival::new(&config)
    }

    /// A mean of 10 ms and a gap of 2 ms: 0.3 · 10 + 0.7 · 2, and √(0.7 · (4.4 − 2)²).
    #[test]
    fn one_gap_moves_the_mean_and_the_deviation_by_the_papers_weights() {
        let mut gaps = Interarrival::new(&HipConfig::preset(Preset::Paper));
        gaps.arrived(Timestamp::from_micros(0));
        gaps.arrived(Timestamp::from_micros(2_000));
        assert_eq!(gaps.mean_nanos(), 4_400_000);
        assert_eq!(gaps.deviation_nanos() / 1_000, 2_007); // 2.0079 ms
    }

    #[test]
    fn a_regular_stream_has_no_spread_in_the_end() {
        let mut gaps = gaps(HipConfig::preset(Preset::Paper));
        for packet in 0..100 {
            gaps.arrived(Timestamp::from_micros(packet * 500));
        }
        assert!(gaps.mean_nanos().abs_diff(500_000) <= 2 && gaps.deviation_nanos() <= 2, "{gaps:?}");
        assert!(gaps.is_regular(Factor::ONE));
    }

    #[test]
    fn extremes_do_not_overflow() {
        for deviation in [Deviation::Standard, Deviation::MeanError] {
            let mut gaps = gaps(HipConfig { deviation, ..HipConfig::preset(Preset::Paper) });
            for at in [Timestamp::ZERO, Timestamp::MAX, Timestamp::ZERO, Timestamp::MAX] {
                gaps.arrived(at);
                let _ = (gaps.deviation_nanos(), gaps.is_regular(Factor::thousandths(u32::MAX)));
            }
        }
    }

    #[test]
    fn the_threshold_is_strict() {
        // σ = I exactly: no history, and a gap such that |I − D| = I.
        let config = HipConfig {
            alpha: Factor::thousandths(500),
            beta: Factor::thousandths(0),
            ..HipConfig::preset(Preset::Paper)
        };
        let mut gaps = gaps(config);
        gaps.arrived(Timestamp::ZERO);
        gaps.arrived(Timestamp::ZERO);
        // I = 5 ms, D = 0: σ = 5 ms.
        assert_eq!((gaps.mean_nanos(), gaps.deviation_nanos()), (5_000_000, 5_000_000));
        assert!(!gaps.is_regular(Factor::ONE));
        assert!(gaps.is_regular(Factor::thousandths(1_001)));
    }
}

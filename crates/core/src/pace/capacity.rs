//! [`PacketPairs`] estimates the capacity of a path from pairs of packets, and how far to trust it.
//!
//! Two packets sent back to back leave the slowest link as far apart as it takes to send one, and keep that
//! distance. So the receiver, or the sender from the ACKs, sees the capacity from a single pair (Keshav
//! 1991; soft timers A.2 points to it), if nothing interferes. Two things do, in opposite directions:
//!
//! ```text
//!                    slowest link            further on            seen
//!   alone            ▐1▐2▌                    │    │               120 µs   the capacity
//!   cross traffic    ▐1▐x▐2▌                  │         │          240 µs   too slow
//!   queued together  ▐1▐2▌          waits ──▶ ││                    12 µs   too fast
//! ```
//!
//! The mean of that is meaningless. But only the capacity puts *many* pairs at one value; interference
//! spreads them. So the estimate is where pairs lie most densely, as in Paxson's PBM (1997), and its
//! confidence is the share of pairs that lie there.
//!
//! It is the capacity of the slowest link, not its unused part, and packet pairs cannot see that of a policer
//! or of a link that aggregates frames. Use it to begin a train, at a fraction
//! ([`StartRate`](super::StartRate)), not to hold one.

use core::time::Duration;

use crate::time::NANOS_PER_SEC;
use crate::{Percent, Rate, RateError};

/// The latest packet pairs of a path.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::PacketPairs;
///
/// let mut pairs = PacketPairs::new();
/// for cross_traffic in [0, 0, 120, 0, 0, 12, 0, 0, 0, 240] {
///     pairs.record(1_500, Duration::from_micros(120 + cross_traffic));
/// }
/// let capacity = pairs.capacity().unwrap();
/// assert_eq!(capacity.bits_per_second, 100_000_000);
/// assert_eq!(capacity.confidence.get(), 80); // seven, and the one that is 10% off
/// assert_eq!(capacity.rate(1_500)?.interval(), Duration::from_micros(120));
/// # Ok::<(), softtimers_core::RateError>(())
/// ```
///
/// # Cost
/// 264 bytes, no allocation. To record is O(1); to estimate sorts at most 32 numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketPairs {
    /// Bits a second of each pair; [`u64::MAX`] for two that came together.
    latest: [u64; KEPT],
    /// The number recorded, which is also the position of the next one.
    recorded: u64,
}

/// An estimate of what a path can carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// The capacity of the slowest link, in bits a second of whatever sizes were recorded.
    pub bits_per_second: u64,
    /// The share of pairs within an eighth of each other around it. Random pairs reach some 20%; trust it
    /// from 50% on.
    pub confidence: Percent,
    /// The number of pairs it was made from: 8 to 32.
    pub pairs: usize,
}

impl Capacity {
    /// Returns the rate of packets of this size that fills the path.
    ///
    /// # Errors
    /// As for [`Rate::of_bits`].
    pub fn rate(&self, bytes: u32) -> Result<Rate, RateError> {
        Rate::of_bits(self.bits_per_second, bytes)
    }
}

impl PacketPairs {
    /// Makes an estimate that knows no pairs yet.
    pub fn new() -> Self {
        PacketPairs { latest: [0; KEPT], recorded: 0 }
    }

    /// Records two packets that were sent back to back and came this far apart; the second one has `bytes`,
    /// link headers included if you want the capacity of the link.
    ///
    /// Use times of arrival from the kernel or the device, not those at which packets were read. Two that
    /// were read in one go seem to have come together; such a pair counts, against the confidence. But a
    /// reader that polls every 200 µs sees pairs that are 120 µs apart at 0 or 200, and the estimate is wrong
    /// with high confidence.
    pub fn record(&mut self, bytes: u32, apart: Duration) {
        let bit_nanos = u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC);
        let bits_per_second = bit_nanos.checked_div(apart.as_nanos()).map(u64::try_from);
        self.latest[(self.recorded % KEPT as u64) as usize] = match bits_per_second {
            Some(Ok(bits)) => bits,
            _ => u64::MAX,
        };
        self.recorded = self.recorded.saturating_add(1);
    }

    /// Returns the capacity where the latest pairs lie most densely; of two equal ones, the slower. `None`
    /// before eight pairs, or if most pairs came together.
    pub fn capacity(&self) -> Option<Capacity> {
        let pairs = self.recorded.min(KEPT as u64) as usize;
        if pairs < ENOUGH {
            return None;
        }
        let mut sorted = self.latest;
        let sorted = &mut sorted[..pairs];
        sorted.sort_unstable();
        let (mut first, mut length) = (0, 0);
        for (at, &slowest) in sorted.iter().enumerate() {
            let near = slowest.saturating_add(slowest / WIDTH);
            let end = sorted.partition_point(|&bits| bits <= near);
            if end - at > length {
                (first, length) = (at, end - at);
            }
        }
        let bits_per_second = sorted[first + (length - 1) / 2];
        let confidence = Percent::new((100 * length / pairs) as u32).unwrap_or(Percent::ALL);
        (1..u64::MAX).contains(&bits_per_second).then_some(Capacity { bits_per_second, confidence, pairs })
    }
}

impl Default for PacketPairs {
    fn default() -> Self {
        PacketPairs::new()
    }
}

/// Pairs remembered: a path's capacity changes when its route does, so the last second or so is enough.
const KEPT: usize = 32;
/// Pairs before there is an estimate: with fewer, two that agree by chance look like a share.
const ENOUGH: usize = 8;
/// Pairs agree within 1 / 8: the effect of a few microseconds of jitter on a gap of tens.
const WIDTH: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(apart: impl IntoIterator<Item = u64>) -> Option<Capacity> {
        let mut pairs = PacketPairs::new();
        apart.into_iter().for_each(|micros| pairs.record(1_500, Duration::from_micros(micros)));
        pairs.capacity()
    }

    #[test]
    fn few_pairs_are_no_estimate() {
        assert_eq!(pairs([120; 7]), None);
        let all = Capacity { bits_per_second: 100_000_000, confidence: Percent::ALL, pairs: 8 };
        assert_eq!(pairs([120; 8]), Some(all));
    }

    #[test]
    fn pairs_that_came_together_are_no_rate_but_count() {
        assert_eq!(pairs([0; 20]), None);
        let some = pairs([120, 0, 120, 0, 120, 0, 120, 0, 120, 120]).unwrap();
        assert_eq!((some.bits_per_second, some.confidence.get()), (100_000_000, 60));
        // As many as those that measured something: the slower ones are believed.
        assert_eq!(pairs([120, 0, 120, 0, 120, 0, 120, 0]).unwrap().confidence.get(), 50);
    }

    #[test]
    fn only_the_latest_count() {
        let capacity = pairs(core::iter::repeat_n(120, 40).chain([12; 32])).unwrap();
        assert_eq!((capacity.bits_per_second, capacity.pairs), (1_000_000_000, 32));
    }

    #[test]
    fn pairs_that_scatter_are_not_trusted() {
        let scattered = pairs((1..=32).map(|pair| 12 + 7 * pair * pair % 1_009)).unwrap();
        assert!(scattered.confidence.get() <= 25, "{scattered:?}");
    }

    #[test]
    fn extremes_are_no_panic() {
        let mut pairs = PacketPairs::new();
        for _ in 0..8 {
            pairs.record(u32::MAX, Duration::from_nanos(1));
            pairs.record(0, Duration::MAX);
        }
        assert_eq!(pairs.capacity(), None);
    }
}

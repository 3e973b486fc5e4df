//! [`AckRate`]: the mean rate at which ACKs come, and whether one came much faster.
//!
//! The obvious average of the gaps fails exactly when it is needed. Compression moves ACKs together but
//! loses none, so a burst is a long gap and many short ones, and an average taken in the middle of it has
//! seen either only the long one or mostly the short ones:
//!
//! ```text
//!   as sent      │   │   │   │   │   │   │   │   │   │   │   │
//!   as received  │   │   │                     ││││││││  │   │      queued behind other packets
//!                         ├─────── one sample ────────┤              8 packets in 8 mean gaps
//! ```
//!
//! So an ACK that comes in less than half its time joins the one before it, and both are one sample: their
//! packets, in the time from the last ACK before them. Samples are weighted by their packets. While a burst
//! lasts the mean stands still, as spreading it requires.

use core::time::Duration;

use crate::time::saturating_nanos;
use crate::{Rate, Timestamp};

/// A running mean of the time for each acknowledged packet (soft timers A.1: the average arrival rate of
/// ACKs).
///
/// It counts packets, not ACKs: a receiver that acknowledges every second packet, or twenty at once, gives
/// the same mean as one that acknowledges each.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{AckRate, Timestamp};
///
/// let mut rate = AckRate::new();
/// for ack in 0..20 {
///     assert!(!rate.on_ack(Timestamp::from_micros(240 * ack), 2));
/// }
/// assert_eq!(rate.gap(), Some(Duration::from_micros(120)));
/// assert!(rate.on_ack(Timestamp::from_micros(240 * 19 + 24), 2));
/// assert_eq!(rate.gap(), Some(Duration::from_micros(120))); // the burst is not over
/// ```
///
/// # Cost
/// 72 bytes, no allocation; O(1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AckRate {
    /// Nanoseconds for each packet, times [`ONE`].
    mean: u64,
    /// The number of packets in the mean, up to [`MEMORY`].
    seen: u64,
    /// The sample that may still grow.
    open: Option<Sample>,
    /// `None` at the start and after an idle time: the gap to the next ACK says nothing of the path.
    last: Option<Timestamp>,
    /// Samples in the mean, counted up to [`ENOUGH`].
    samples: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sample {
    nanos: u64,
    packets: u64,
}

impl AckRate {
    /// Makes an estimate without a mean until enough ACKs have come.
    pub fn new() -> Self {
        AckRate::default()
    }

    /// Starts from a known rate: given, estimated, or that of the last busy period (soft timers A.2). It has
    /// the weight of 64 packets and decays as they do.
    pub fn starting_at(rate: Rate) -> Self {
        AckRate { mean: rate.span_nanos(ONE), seen: MEMORY, samples: ENOUGH, ..AckRate::default() }
    }

    /// Counts an ACK that acknowledges `packets` packets, or lets them leave. One with none is ignored.
    /// Returns whether it was compressed: it came in less than half the mean time for what it acknowledges,
    /// because ACKs were held up and came together.
    ///
    /// Times must not go backwards.
    pub fn on_ack(&mut self, now: Timestamp, packets: u64) -> bool {
        if packets == 0 {
            return false;
        }
        let Some(last) = self.last.replace(now) else {
            return false;
        };
        let ack = Sample { nanos: saturating_nanos(now.saturating_duration_since(last)), packets };
        if !self.is_early(ack) {
            self.close();
            self.open = Some(ack);
            return false;
        }
        let open = self.open.unwrap_or(Sample { nanos: 0, packets: 0 });
        let together = Sample {
            nanos: open.nanos.saturating_add(ack.nanos),
            packets: open.packets.saturating_add(ack.packets),
        };
        self.open = Some(together);
        if together.packets >= LONGEST_BURST {
            self.close();
        }
        true
    }

    /// Notes that the flow has been idle: the gap before the next ACK is not the path's. The mean stays.
    pub fn idle(&mut self) {
        self.close();
        self.last = None;
    }

    /// Returns the mean time for each packet; `None` before eight ACKs have been compared.
    pub fn gap(&self) -> Option<Duration> {
        (self.samples >= ENOUGH).then(|| Duration::from_nanos(self.mean / ONE))
    }

    /// Returns the mean rate, as [`gap`](Self::gap); store it for the next busy period.
    pub fn rate(&self) -> Option<Rate> {
        self.gap().map(|gap| gap.max(Duration::from_nanos(1))).and_then(|gap| Rate::every(gap).ok())
    }

    /// Returns whether it came in less than half its mean time, or in no time, as ACKs that were read
    /// together.
    fn is_early(&self, ack: Sample) -> bool {
        let early = |gap: Duration| u128::from(ack.nanos) * 2 < gap.as_nanos() * u128::from(ack.packets);
        ack.nanos == 0 || self.gap().is_some_and(early)
    }

    /// Adds the open sample to the mean.
    ///
    /// One that differs by more than a factor of two counts as two: a time-out or a missed idle time must not
    /// spoil the mean for a hundred ACKs, and a path that has really changed keeps saying so. For the same
    /// reason an ACK for many packets that comes late counts as one for few. It says that the receiver paused, not
    /// that the path is slow; and a mean that is too long lasts, because ACKs come back as the packets left.
    fn close(&mut self) {
        let Some(sample) = self.open.take() else {
            return;
        };
        let (nanos, most) = match self.gap() {
            // These packets have no timing, and there is nothing to compare with.
            None if sample.nanos == 0 => return,
            None => (sample.nanos, LONGEST_BURST),
            Some(gap) => {
                let expected = saturating_nanos(gap).max(1).saturating_mul(sample.packets);
                let nanos = sample.nanos.clamp(expected / FACTOR, expected.saturating_mul(FACTOR));
                (nanos, if nanos > expected { PAUSE } else { LONGEST_BURST })
            }
        };
        let weight = sample.packets.min(most);
        self.seen = (self.seen + weight).min(MEMORY);
        let of_sample = u128::from(nanos) * u128::from(ONE * weight) / u128::from(sample.packets);
        let of_others = u128::from(self.mean) * u128::from(self.seen - weight);
        self.mean = u64::try_from((of_others + of_sample) / u128::from(self.seen)).unwrap_or(u64::MAX);
        self.samples = (self.samples + 1).min(ENOUGH);
    }
}

/// Packets that the mean remembers. A burst of ten without a gap before it, which is no compression, makes it
/// 8% shorter: packets spread at nine tenths of it are still eight tenths of the true gap apart.
const MEMORY: u64 = 64;
/// Samples before there is a mean.
const ENOUGH: u32 = 8;
/// Packets in one burst at most, and the most that one sample counts for. ACKs that keep coming faster are
/// the path's new rate.
const LONGEST_BURST: u64 = MEMORY / 2;
/// The packets that one sample counts for if it comes late.
const PAUSE: u64 = 4;
/// The factor of [`AckRate::close`].
const FACTOR: u64 = 2;
/// Fixed point of the mean, so that small changes of a short gap are not lost.
const ONE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn gap_micros(rate: &AckRate) -> u128 {
        (rate.gap().unwrap().as_nanos() + 500) / 1_000
    }

    /// ACKs of one packet each 100 µs until there is a mean.
    fn steady() -> (AckRate, u64) {
        let mut rate = AckRate::new();
        let acks = 60;
        for ack in 0..acks {
            rate.on_ack(at(100 * ack), 1);
        }
        (rate, 100 * (acks - 1))
    }

    #[test]
    fn compression_does_not_move_the_mean() {
        let (mut rate, mut now) = steady();
        for _ in 0..20 {
            now += 1_000;
            assert!(!rate.on_ack(at(now), 1));
            for follower in 1..10 {
                assert!(rate.on_ack(at(now + follower), 1));
                assert_eq!(gap_micros(&rate), 100);
            }
        }
    }

    #[test]
    fn a_big_ack_is_as_many_packets() {
        let (mut rate, now) = steady();
        for ack in 1..20 {
            rate.on_ack(at(now + 2_000 * ack), 20);
        }
        assert_eq!(gap_micros(&rate), 100);
    }

    #[test]
    fn the_mean_follows_a_path_that_changes() {
        for new in [5, 10, 1_000, 3_000] {
            let (mut rate, now) = steady();
            for ack in 1..3_000 {
                rate.on_ack(at(now + new * ack), 1);
            }
            let gap = gap_micros(&rate) as u64;
            assert!(gap.abs_diff(new) * 20 <= new, "{gap} is not {new}");
        }
    }

    #[test]
    fn an_idle_time_is_no_gap_and_a_forgotten_one_counts_as_two() {
        let (mut rate, now) = steady();
        rate.idle();
        rate.on_ack(at(now + 60_000_000), 1);
        rate.on_ack(at(now + 60_000_100), 1);
        rate.on_ack(at(now + 60_000_200), 1);
        assert_eq!(gap_micros(&rate), 100);
        rate.on_ack(at(now + 90_000_000), 1);
        rate.on_ack(at(now + 90_000_100), 1);
        assert!((100..=103).contains(&gap_micros(&rate)));
    }

    #[test]
    fn there_is_no_mean_of_a_few() {
        let mut rate = AckRate::new();
        for ack in 0..9 {
            rate.on_ack(at(100 * ack), 1);
            assert_eq!(rate.gap(), None);
        }
        rate.on_ack(at(900), 0);
        assert_eq!(rate.gap(), None);
        rate.on_ack(at(900), 1);
        assert_eq!(gap_micros(&rate), 100);
    }

    #[test]
    fn a_known_rate_is_the_mean_at_once() {
        let known = Rate::per_second(8_000).unwrap();
        let mut rate = AckRate::starting_at(known);
        assert_eq!(rate.rate(), Some(known));
        // A burst right after an idle time, with no valid gap before it, is a fast sample.
        for follower in 0..20 {
            rate.on_ack(at(follower), 1);
        }
        rate.on_ack(at(1_000), 1);
        assert!((100..125).contains(&gap_micros(&rate)));
    }

    #[test]
    fn a_known_rate_that_is_wrong_is_unlearnt() {
        let mut rate = AckRate::starting_at(Rate::per_second(100).unwrap());
        for ack in 0..2_000 {
            rate.on_ack(at(100 * ack), 1);
        }
        assert_eq!(gap_micros(&rate), 100);
    }

    #[test]
    fn extremes_saturate() {
        let mut rate = AckRate::starting_at(Rate::every(Duration::from_nanos(u64::MAX)).unwrap());
        rate.on_ack(Timestamp::ZERO, u64::MAX);
        rate.on_ack(Timestamp::MAX, u64::MAX);
        rate.on_ack(Timestamp::MAX, u64::MAX);
        rate.on_ack(Timestamp::MAX, 1);
        rate.idle();
        assert!(rate.gap().is_some());
        let mut rate = AckRate::new();
        for _ in 0..1_000 {
            rate.on_ack(Timestamp::from_nanos(5), 1);
        }
        assert_eq!(rate.rate(), None);
        for ack in 0..1_000 {
            rate.on_ack(Timestamp::from_micros(100 * ack), 1);
        }
        assert_eq!(gap_micros(&rate), 100);
    }
}

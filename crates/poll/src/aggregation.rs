//! [`Aggregation`]: polls at the interval that finds a target number of packets, on average.
//!
//! A poll that finds several packets handles them while code and data are in the cache; one that finds none is
//! wasted. The number found depends on how long the poll waited, so the interval is controlled (soft timers
//! §4.2 and §5.8, which leave open how):
//!
//! ```text
//!   T  ←  T · e^((Q − found) / 8Q)        within shortest ..= longest
//! ```
//!
//! Fewer found than the target: wait longer; more: shorter. The exponents sum up to nothing over time, so the mean found
//! is the target, however unevenly packets come: a step by the quotient of both would leave it higher. One step is at
//! most a quarter, and the next ones make up for the rest of a burst, up to 64 quotas of it.
//!
//! When the CPU goes idle, polling is turned off and wake-ups on (soft timers §5.8), so that a packet is
//! never delayed needlessly; the next wake-up turns polling on again.
//!
//! Aggregation delays packets, by up to an interval, and compresses ACKs. The latter does not affect a sender
//! that paces.

use core::time::Duration;

use super::named::{Named, PolicySettings};
use super::{Look, Next, Policy, Preset, WhenIdle};
use crate::error::PolicyError;
use crate::nanos::saturating_nanos;
use crate::nanos::{Nanos, multiply_divide};
use softtimers_core::Timestamp;

/// The target quota of polls, and the bounds of the interval between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregationConfig {
    /// Q, the aggregation quota: the target number of packets per poll, on average; at least one.
    pub quota: u32,
    /// The shortest interval; at least a nanosecond.
    pub shortest: Duration,
    /// The longest interval, which bounds the delay; at least the shortest.
    pub longest: Duration,
    /// The behaviour when the CPU is about to be idle.
    pub when_idle: WhenIdle,
}

impl AggregationConfig {
    /// One packet a poll, where the only benefit is that there are no interrupts, as the paper says; or five,
    /// with which a computation beside 100,000 packets/s kept all of a CPU where wake-ups left it half. From
    /// 5 µs to 1 ms.
    pub const fn preset(preset: Preset) -> Self {
        AggregationConfig {
            quota: match preset {
                Preset::Paper => 1,
                Preset::Measured => 5,
            },
            shortest: Duration::from_micros(5),
            longest: Duration::from_millis(1),
            when_idle: WhenIdle::WakeUp,
        }
    }
}

impl Default for AggregationConfig {
    fn default() -> Self {
        AggregationConfig::preset(Preset::Measured)
    }
}

/// Polls at the interval that finds a target number of packets.
///
/// ```
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{Aggregation, AggregationConfig, Look, Next, Policy};
///
/// // A packet each 10 µs; five are wanted.
/// let mut policy = Aggregation::new(AggregationConfig::default());
/// let (mut now, mut last) = (Timestamp::ZERO, 0);
/// for _ in 0..100 {
///     let arrived = now.as_nanos() / 10_000;
///     let found = (arrived - last) as u32;
///     last = arrived;
///     let Next::At(time) = policy.looked(&Look { began: now, ended: now, found }) else { panic!() };
///     now = time;
/// }
/// assert!((45..=56).contains(&policy.interval().as_micros()));
/// assert_eq!(policy.idle(now), Next::Armed);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregation {
    interval: Interval,
    when_idle: WhenIdle,
    next: Next,
}

impl Aggregation {
    /// Makes a policy that begins with a poll, and an interval of 50 µs.
    pub fn new(config: AggregationConfig) -> Self {
        let interval = Interval::new(config.quota, config.shortest, config.longest);
        Aggregation { interval, when_idle: config.when_idle, next: Next::Now }
    }

    /// Returns the present time between two polls.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval.nanos)
    }
}

impl Policy for Aggregation {
    fn looked(&mut self, look: &Look) -> Next {
        // The packets found by a wake-up say nothing about the interval.
        if self.next != Next::Armed {
            self.interval.found(look.found);
        }
        self.next = Next::At(self.interval.after(look));
        self.next
    }

    fn idle(&mut self, _: Timestamp) -> Next {
        if self.when_idle == WhenIdle::WakeUp {
            self.next = Next::Armed;
        }
        self.next
    }

    fn next(&self) -> Next {
        self.next
    }
}

impl Named for Aggregation {
    const NAME: &'static str = "aggregation";
    const ABOUT: &'static str = "Polls at the interval that finds a wanted number of packets";

    fn with(settings: PolicySettings) -> Result<Self, PolicyError> {
        let default = AggregationConfig::default();
        let longest = settings.time.unwrap_or(default.longest);
        Ok(Aggregation::new(AggregationConfig {
            quota: settings.quota.unwrap_or(default.quota),
            shortest: default.shortest.min(longest),
            longest,
            when_idle: settings.when_idle.unwrap_or(default.when_idle),
        }))
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings {
            quota: Some(self.interval.quota()),
            time: Some(self.interval.longest()),
            when_idle: Some(self.when_idle),
        }
    }
}

/// The controller of the interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interval {
    quota: u32,
    /// What was found beyond the quota and has not changed the interval yet, in parts of the quota: [`A_QUOTA`] is all of it.
    excess: i64,
    nanos: u64,
    shortest: u64,
    longest: u64,
}

impl Interval {
    pub(super) fn new(quota: u32, shortest: Duration, longest: Duration) -> Self {
        let shortest = saturating_nanos(shortest).max(1);
        let longest = saturating_nanos(longest).max(shortest);
        Interval { quota: quota.max(1), excess: 0, nanos: FIRST.clamp(shortest, longest), shortest, longest }
    }

    /// Returns Q, the quota, in packets.
    pub(super) fn quota(&self) -> u32 {
        self.quota
    }

    pub(super) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// Records that a poll found `found` packets.
    pub(super) fn found(&mut self, found: u32) {
        let beyond = (i64::from(found) - i64::from(self.quota)) * A_QUOTA / i64::from(self.quota);
        let excess = (self.excess + beyond).clamp(-MOST_KEPT, MOST_KEPT);
        let step = excess.clamp(-MOST_AT_ONCE, MOST_AT_ONCE);
        // e^x is 1 + x + x²/2, nearly, and x is an eighth of the step.
        let factor = ONE - step * (ONE / A_QUOTA / 8) + step * step;
        let wanted = multiply_divide(self.nanos, factor.unsigned_abs(), ONE.unsigned_abs());
        // At least a nanosecond away.
        let wanted = if step < 0 { wanted.max(self.nanos.saturating_add(1)) } else { wanted };
        self.nanos = wanted.clamp(self.shortest, self.longest);
        self.excess = match () {
            // A burst is made up for by polls at the shortest interval, which find less than the quota.
            () if wanted < self.shortest => excess,
            // What was not there is not made up for.
            () if wanted > self.longest => 0,
            () => excess - step,
        };
    }

    /// Returns the time of the poll after this look. Intervals run from beginning to beginning; a passed one
    /// means now.
    pub(super) fn after(&self, look: &Look) -> Timestamp {
        look.began.after(self.nanos).max(look.ended)
    }
}

/// A quota, in the units of the excess.
const A_QUOTA: i64 = 1 << 10;
/// Changes the interval by less than a quarter: e^(7/32).
const MOST_AT_ONCE: i64 = A_QUOTA * 7 / 4;
/// A stall of a machine is not made up for by a thousand polls in vain.
const MOST_KEPT: i64 = 64 * A_QUOTA;
/// One, in the units of half the square of an eighth of the excess.
const ONE: i64 = 128 * A_QUOTA * A_QUOTA;
/// The first interval. Any value suffices: twenty polls later it has no effect.
const FIRST: u64 = 50_000;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use softtimers_core::Random;

    /// The results of 7,000 polls once the interval had settled, with randomly arriving packets.
    #[derive(Debug)]
    struct Found {
        /// Thousandths of a packet a poll.
        per_poll: u64,
        /// The wait of each packet in nanoseconds, sorted.
        waits: Vec<u64>,
    }

    impl Found {
        fn simulate(quota: u32, mean_gap: u64) -> Self {
            let mut policy = Aggregation::new(AggregationConfig { quota, ..AggregationConfig::default() });
            let mut random = Random::stream(5, quota.into());
            let (mut now, mut arrival) = (Timestamp::ZERO, 0u64);
            let mut waits = Vec::new();
            for poll in 0..8_001 {
                if poll <= 1_000 {
                    waits.clear();
                }
                let mut found = 0;
                while arrival <= now.as_nanos() {
                    found += 1;
                    waits.push(now.as_nanos() - arrival);
                    arrival += (u128::from(random.exponential()) * u128::from(mean_gap)
                        / u128::from(Random::ONE)) as u64;
                }
                let Next::At(time) = policy.looked(&Look { began: now, ended: now, found }) else { panic!() };
                now = time;
            }
            waits.sort_unstable();
            Found { per_poll: waits.len() as u64 * 1_000 / 7_000, waits }
        }

        fn quantile(&self, percent: usize) -> u64 {
            self.waits[(self.waits.len() - 1) * percent / 100]
        }
    }

    #[test]
    fn what_is_found_is_within_5_percent_of_the_quota() {
        for quota in [1, 2, 5, 10, 15] {
            for mean_gap in [15_000, 30_000, 60_000] {
                let found = Found::simulate(quota, mean_gap).per_poll;
                let wanted = u64::from(quota) * 1_000;
                assert!(
                    found.abs_diff(wanted) * 100 <= wanted * 5,
                    "{found} of {wanted}, gaps of {mean_gap} ns"
                );
            }
        }
    }

    /// §5.8: the cost of aggregation. A packet waits for those that are found with it, and the packets of a
    /// poll are answered at once: as many acknowledgements as the quota leave together.
    #[test]
    #[cfg_attr(miri, ignore = "a quarter of a million packets")]
    fn a_packet_waits_the_longer_and_leaves_with_more_others_the_larger_the_quota() {
        const GAP: u64 = 30_000;
        let found = [1u32, 2, 5, 10, 15].map(|quota| (quota, Found::simulate(quota, GAP)));
        for (quota, found) in &found {
            let (wanted, half) = (u64::from(*quota) * GAP, u64::from(*quota) * GAP / 2);
            assert!(found.quantile(50).abs_diff(half) * 4 <= half, "{quota}: {} ns", found.quantile(50));
            assert!(
                (wanted * 3 / 4..wanted * 3).contains(&found.quantile(99)),
                "{quota}: {} ns",
                found.quantile(99)
            );
        }
        for percent in [50, 99] {
            assert!(found.is_sorted_by(|(_, one), (_, more)| one.quantile(percent) < more.quantile(percent)));
        }
        assert!(found.is_sorted_by(|(_, one), (_, more)| one.per_poll < more.per_poll));
    }

    #[test]
    fn the_interval_keeps_its_bounds() {
        let mut interval = Interval::new(5, Duration::from_micros(5), Duration::from_millis(1));
        (0..100).for_each(|_| interval.found(0));
        assert_eq!(interval.nanos, 1_000_000);
        (0..200).for_each(|_| interval.found(u32::MAX));
        assert_eq!(interval.nanos, 5_000);
        let mut least = Interval::new(0, Duration::ZERO, Duration::ZERO);
        (0..100).for_each(|_| least.found(9));
        assert_eq!(least.nanos, 1);
    }

    #[test]
    fn idle_enables_wake_ups_and_the_next_packet_turns_polling_on() {
        let mut policy = Aggregation::new(AggregationConfig::default());
        let look = Look { began: Timestamp::ZERO, ended: Timestamp::ZERO, found: 0 };
        assert!(matches!(policy.looked(&look), Next::At(_)));
        let interval = policy.interval();
        assert_eq!(policy.idle(Timestamp::ZERO), Next::Armed);
        assert!(matches!(policy.looked(&Look { found: 90, ..look }), Next::At(_)));
        assert_eq!(policy.interval(), interval, "a wake-up says nothing of the interval");
    }

    #[test]
    fn the_interval_shrinks_by_a_fifth_and_grows_by_a_quarter_at_most() {
        let config = AggregationConfig::default();
        let mut policy = Aggregation::new(config);
        for (found, rounds) in [(100_000, 12), (0, 300)] {
            for _ in 0..rounds {
                let before = policy.interval().as_nanos();
                policy.looked(&Look { began: Timestamp::ZERO, ended: Timestamp::ZERO, found });
                let after = policy.interval().as_nanos();
                assert!(after >= before - before.div_ceil(5), "{found} found: from {before} to {after} ns");
                assert!(after <= before + before.div_ceil(4), "{found} found: from {before} to {after} ns");
                assert_eq!(policy.next(), Next::At(Timestamp::from_nanos(after as u64)));
            }
        }
        assert_eq!(policy.interval(), config.longest);
    }
}

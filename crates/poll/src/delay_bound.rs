//! [`DelayBound`]: the policy for users, with one number, the longest acceptable delay.
//!
//! A poll is cheap; a wake-up costs as much as hundreds of polls. So the choice depends not on CPU time but
//! on delay: polls that find a few packets each pay as long as those come within the longest delay. HIP
//! compares its own estimate in the same way; here the user sets the bound and everything else follows from
//! it:
//!
//! ```text
//!   quota · mean gap ≤ max_delay       poll, with the interval that finds `quota` packets (soft timers §4.2)
//!   quota · mean gap > 2 · max_delay   wake-ups
//!   the CPU was not idle for a while   poll whatever the rate is: the CPU is saturated, and looks in
//!                                      passing cost nothing (soft timers §5.8), where a wake-up costs others
//! ```
//!
//! No interval is longer than `max_delay`. Between the two lines the policy stays as it is.
//!
//! The paper turns polling off whenever the CPU goes idle ([`WhenIdle::WakeUp`]). That gives the least delay.
//! A program that sleeps between polls uses the bound for the opposite: few wake-ups, each for several
//! packets ([`WhenIdle::KeepPolling`]).

use core::time::Duration;

use super::aggregation::Interval;
use super::named::{Named, PolicySettings};
use super::{Look, Next, Policy, Preset, WhenIdle};
use crate::error::PolicyError;
use crate::nanos::{Nanos, saturating_nanos};
use softtimers_core::Timestamp;

/// The delay bound, and the target of polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayBoundConfig {
    /// The longest time that a packet may wait in its device; at least a nanosecond.
    pub max_delay: Duration,
    /// The target number of packets per poll, on average; at least one.
    pub quota: u32,
    /// The behaviour when the CPU is about to be idle.
    pub when_idle: WhenIdle,
}

impl DelayBoundConfig {
    /// The paper's rule for an idle CPU and one packet a poll; or continued polling, and five.
    pub const fn preset(preset: Preset, max_delay: Duration) -> Self {
        let (quota, when_idle) = match preset {
            Preset::Paper => (1, WhenIdle::WakeUp),
            Preset::Measured => (5, WhenIdle::KeepPolling),
        };
        DelayBoundConfig { max_delay, quota, when_idle }
    }
}

impl Default for DelayBoundConfig {
    /// Returns the default, 200 µs: ten times the lateness of a wake-up, and short compared with most network
    /// delays.
    fn default() -> Self {
        DelayBoundConfig::preset(Preset::Measured, Duration::from_micros(200))
    }
}

/// Polls or wake-ups, by the rate and the longest delay.
///
/// ```
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{DelayBound, DelayBoundConfig, Look, Next, Policy};
///
/// let at = Timestamp::from_micros;
/// let mut policy = DelayBound::new(DelayBoundConfig::default());
/// // Two thousand packets a second: five take 2.5 ms, so each has its wake-up.
/// for packet in 1..=20 {
///     policy.idle(at(500 * packet - 400));
///     assert_eq!(policy.looked(&Look { began: at(500 * packet), ended: at(500 * packet), found: 1 }), Next::Armed);
/// }
/// // A hundred thousand a second: five take 50 µs.
/// for packet in 1..=40 {
///     policy.idle(at(10_000 + 10 * packet - 8));
///     let now = at(10_000 + 10 * packet);
///     policy.looked(&Look { began: now, ended: now, found: 1 });
/// }
/// assert!(matches!(policy.next(), Next::At(time) if time <= at(10_600)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayBound {
    quota: u64,
    max_delay: u64,
    when_idle: WhenIdle,
    interval: Interval,
    /// The mean time between packets, in nanoseconds.
    gap: u64,
    /// The last look that found packets.
    found_at: Option<Timestamp>,
    /// Looks since the CPU was idle.
    busy: u32,
    polls: bool,
    next: Next,
    switches: u64,
}

impl DelayBound {
    /// Makes a policy that begins with wake-ups.
    pub fn new(config: DelayBoundConfig) -> Self {
        let max_delay = saturating_nanos(config.max_delay).max(1);
        let shortest = SHORTEST_DELAY.min(Duration::from_nanos(max_delay));
        DelayBound {
            quota: config.quota.max(1).into(),
            max_delay,
            when_idle: config.when_idle,
            interval: Interval::new(config.quota, shortest, Duration::from_nanos(max_delay)),
            gap: u64::MAX / 4,
            found_at: None,
            busy: 0,
            polls: false,
            next: Next::Armed,
            switches: 0,
        }
    }

    /// Returns the estimated packets a second, rounded down; zero before the second look that found any.
    pub fn packets_per_second(&self) -> u64 {
        1_000_000_000 / self.gap.max(1)
    }

    /// Returns whether the CPU has not been idle for a while.
    fn is_saturated(&self) -> bool {
        self.busy >= SATURATED
    }

    /// Returns how often the policy changed between polls and wake-ups.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Updates the mean gap after a look. Several packets at once have more weight than one; an empty look
    /// counts only if the gap has become longer than the mean.
    fn learn(&mut self, look: &Look) {
        let since = self.found_at.map(|at| look.ended.nanos_since(at));
        if look.found == 0 {
            if let Some(longer) = since.and_then(|since| since.checked_sub(self.gap)) {
                self.gap += longer / 8;
            }
            return;
        }
        self.found_at = Some(look.ended);
        let Some(since) = since else { return };
        let gap = since / u64::from(look.found);
        let weight = u64::from(look.found.min(4));
        self.gap = match self.gap {
            // Only the first gap is known.
            unknown if unknown == u64::MAX / 4 => gap,
            known if gap > known => known + (gap - known) / 8 * weight,
            known => known - (known - gap) / 8 * weight,
        };
    }

    /// Returns whether the rate justifies polls; between the two lines, as before.
    fn is_worth_polling(&self) -> bool {
        let wait = self.gap.saturating_mul(self.quota);
        wait <= self.max_delay || (self.polls && wait / 2 <= self.max_delay)
    }

    fn switch_to(&mut self, polls: bool) {
        self.switches += u64::from(self.polls != polls);
        self.polls = polls;
    }
}

impl Policy for DelayBound {
    fn looked(&mut self, look: &Look) -> Next {
        self.learn(look);
        if self.next != Next::Armed {
            self.interval.found(look.found);
        }
        self.busy = self.busy.saturating_add(1);
        let worth = self.is_worth_polling();
        self.switch_to(worth || self.is_saturated());
        self.next = if self.polls { Next::At(self.interval.after(look)) } else { Next::Armed };
        self.next
    }

    fn idle(&mut self, _: Timestamp) -> Next {
        self.busy = 0;
        if self.when_idle == WhenIdle::WakeUp || !self.is_worth_polling() {
            self.switch_to(false);
            self.next = Next::Armed;
        }
        self.next
    }

    fn next(&self) -> Next {
        self.next
    }
}

impl Named for DelayBound {
    const NAME: &'static str = "delay-bound";
    const ABOUT: &'static str = "Polls while enough packets come within the longest delay, else wake-ups";

    fn with(settings: PolicySettings) -> Result<Self, PolicyError> {
        let default = DelayBoundConfig::default();
        Ok(DelayBound::new(DelayBoundConfig {
            max_delay: settings.time.unwrap_or(default.max_delay),
            quota: settings.quota.unwrap_or(default.quota),
            when_idle: settings.when_idle.unwrap_or(default.when_idle),
        }))
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings {
            quota: Some(self.interval.quota()),
            time: Some(Duration::from_nanos(self.max_delay)),
            when_idle: Some(self.when_idle),
        }
    }

    fn switches(&self) -> u64 {
        self.switches
    }
}

/// A poll every 5 µs costs little even if it is a system call.
const SHORTEST_DELAY: Duration = Duration::from_micros(5);
/// Looks in a row without idle time that mean saturation: two may follow each other by chance.
const SATURATED: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn look(time: Timestamp, found: u32) -> Look {
        Look { began: time, ended: time, found }
    }

    /// Packets evenly `gap` µs apart for `count` packets. Returns the longest wait in ns and the looks made.
    fn run(policy: &mut DelayBound, start: u64, gap: u64, count: u64, idle: bool) -> (u64, u64) {
        let (mut longest, mut looks, mut packet) = (0, 0, 0);
        while packet < count {
            let arrival = at(start + packet * gap);
            let now = match if idle { policy.idle(arrival) } else { policy.next() } {
                Next::At(poll) => poll,
                _ => arrival,
            };
            let mut found = 0;
            while packet < count && at(start + packet * gap) <= now {
                longest = longest.max(now.nanos_since(at(start + packet * gap)));
                (packet, found) = (packet + 1, found + 1);
            }
            looks += 1;
            policy.looked(&look(now, found));
        }
        (longest, looks)
    }

    #[test]
    fn the_mean_gap_moves_an_eighth_for_each_packet_and_a_half_for_four_and_more() {
        let mut policy = DelayBound::new(DelayBoundConfig::default());
        let mut rate = |time, found| {
            policy.looked(&look(at(time), found));
            policy.packets_per_second()
        };
        assert_eq!(rate(100, 1), 0, "one packet has no gap");
        assert_eq!(rate(900, 8), 10_000, "the first gap is the mean: 100 µs");
        assert_eq!(rate(1_800, 1), 5_000, "900 µs for one: 200");
        assert_eq!(rate(3_800, 2), 2_500, "1,000 µs for each of two: 400");
        assert_eq!(rate(4_040, 3), 3_571, "80 µs for each of three: 280");
        assert_eq!(rate(5_120, 9), 5_000, "120 µs for each of nine: 200");
        assert_eq!(rate(5_300, 0), 5_000, "none for less than the mean says nothing");
        assert_eq!(rate(6_120, 0), 3_333, "none for 1,000 µs: 300");
    }

    #[test]
    fn no_packet_waits_longer_than_the_bound() {
        for gap in [1, 3, 10, 40, 79, 81, 200, 700, 5_000] {
            for idle in [false, true] {
                let mut policy = DelayBound::new(DelayBoundConfig::default());
                let (longest, _) = run(&mut policy, 1_000, gap, 5_000, idle);
                assert!(longest <= 200_000, "{longest} ns at gaps of {gap} µs");
            }
        }
    }

    #[test]
    fn often_enough_is_polled_and_seldom_is_woken_up_for() {
        let mut policy = DelayBound::new(DelayBoundConfig::default());
        let (_, looks) = run(&mut policy, 1_000, 10, 10_000, true);
        assert!((1_600..=2_600).contains(&looks), "five a poll: {looks} looks");
        let (_, looks) = run(&mut policy, 200_000, 500, 10_000, true);
        assert!((9_900..=10_100).contains(&looks), "one a wake-up: {looks} looks");
        assert_eq!(policy.next(), Next::Armed);
        assert_eq!((policy.switches(), Named::switches(&policy)), (2, 2));
    }

    /// Soft timers §5.8, and unlike the livelock paper: polled even though packets are slow.
    #[test]
    fn a_saturated_processor_polls_at_any_rate_and_an_idle_one_stops() {
        let mut policy = DelayBound::new(DelayBoundConfig::default());
        run(&mut policy, 1_000, 1_000, 100, false);
        assert!(policy.is_saturated() && matches!(policy.next(), Next::At(_)));
        assert_eq!(policy.idle(at(200_000)), Next::Armed);
        assert!(!policy.is_saturated());
    }

    #[test]
    fn the_papers_rule_wakes_up_whenever_idle() {
        let config = DelayBoundConfig::preset(Preset::Paper, Duration::from_micros(200));
        let mut policy = DelayBound::new(config);
        run(&mut policy, 1_000, 10, 1_000, false);
        assert!(matches!(policy.next(), Next::At(_)));
        assert_eq!(policy.idle(at(20_000)), Next::Armed);
    }

    #[test]
    fn a_stream_that_ends_is_not_polled_for_long() {
        let mut policy = DelayBound::new(DelayBoundConfig::default());
        run(&mut policy, 1_000, 10, 10_000, true);
        let mut polls = 0;
        while let Next::At(time) = policy.idle(at(0)) {
            policy.looked(&look(time, 0));
            polls += 1;
            assert!(polls < 20);
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for max_delay in [Duration::ZERO, Duration::MAX] {
            let config = DelayBoundConfig { max_delay, quota: u32::MAX, ..DelayBoundConfig::default() };
            let mut policy = DelayBound::new(config);
            for time in [Timestamp::ZERO, Timestamp::MAX, Timestamp::ZERO] {
                for found in [0, 1, u32::MAX] {
                    policy.looked(&look(time, found));
                    policy.idle(time);
                }
            }
        }
    }
}

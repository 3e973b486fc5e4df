//! [`PollBudget`], the limit on busy-poll time, enforced by a [`Meter`].
//!
//! The meter is a leaky bucket in wall time. Polling fills it; it leaks at the allowed share all the
//! time, also while the program polls, works or sleeps:
//!
//! ```text
//!   used
//!   full ├ ─ ─ ─ ─ ─╱╲╱╲╱╲─ ─ ─ ─ ─ ─ ─     share · period; no polling above this line
//!        │     poll╱      ╲sleep
//!        │       ╱          ╲   poll
//!      0 └─────────────────────╱╲────▶ time
//! ```
//!
//! So a loop that has not polled for a while may poll without a pause at first, and in the long run
//! polls its share. Nanoseconds are counted in hundredths, so that a percentage of them is a whole
//! number: nothing is rounded, and no division is done.

use core::time::Duration;

use crate::time::NANOS_PER_SEC;
use crate::{Percent, Timestamp};

/// The share of one CPU that a loop may spend busy-polling while it has nothing to do.
///
/// In any time `t`, at most `share · (t + period)` is busy-polled, plus one poll of the sources. If a poll is
/// interrupted for long, at most what a second pays off is charged. A share of 100% is no limit; at 0% the
/// loop sleeps whenever nothing is due.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Idle, Percent, PollBudget, Timestamp, Wait};
///
/// let at = Timestamp::from_micros;
/// let tenth = PollBudget::new(Percent::new(10)?).over(Duration::from_millis(1));
/// let mut idle = Idle::spin().within(tenth);
/// assert_eq!(idle.wait(at(0), Some(at(500))), Wait::Poll);
/// // 150 µs of polling later, the tenth of a millisecond is used up: sleep, and be late.
/// assert_eq!(idle.wait(at(150), Some(at(500))), Wait::Until(at(500)));
/// # Ok::<(), softtimers_core::PercentError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PollBudget {
    share: Percent,
    /// The period in nanoseconds.
    period: u64,
}

impl PollBudget {
    /// Half of one CPU, over 10 ms: the default budget of every policy.
    pub const HALF: PollBudget = PollBudget::new(Percent::HALF);

    /// No limit on polling.
    pub const UNLIMITED: PollBudget = PollBudget::new(Percent::ALL);

    /// `share` of the time, over 10 ms: as long as a time slice or two, too short for a person to notice.
    pub const fn new(share: Percent) -> Self {
        PollBudget { share, period: NANOS_PER_SEC / 100 }
    }

    /// The same share, over `period` (up to 584 years): `share · period` may be busy-polled at once.
    #[must_use]
    pub const fn over(self, period: Duration) -> Self {
        let nanos = period.as_nanos();
        PollBudget {
            share: self.share,
            period: if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 },
        }
    }

    /// Returns the share of one CPU.
    pub const fn share(self) -> Percent {
        self.share
    }

    /// Returns the period over which the share holds.
    pub const fn period(self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Hundredths of nanoseconds of polling that fill the bucket.
    const fn full(self) -> u64 {
        self.hundredths(self.period)
    }

    /// The most that is ever charged, in the same unit.
    const fn most(self) -> u64 {
        self.full().saturating_add(self.hundredths(LONGEST_PAYMENT))
    }

    /// Hundredths of nanoseconds that may be busy-polled for `nanos` of time.
    const fn hundredths(self, nanos: u64) -> u64 {
        nanos.saturating_mul(self.share.get() as u64)
    }
}

/// The busy-poll time of an idle policy, and the sleeps that its budget forced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polling {
    /// Busy-poll time: from a decision to poll until the next decision, or until something was
    /// found. It is wall time, so a CPU that was lost while polling counts as busy-polled.
    pub time: Duration,
    /// Sleeps to the deadline itself that would have been shorter, or none at all, with more budget.
    pub forced_sleeps: u64,
}

/// Keeps the account of a [`PollBudget`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meter {
    budget: PollBudget,
    /// The content of the bucket, in hundredths of nanoseconds, as of `at`.
    used: u64,
    at: Timestamp,
    /// When the poll under way began.
    polling: Option<Timestamp>,
    spent: Polling,
}

impl Meter {
    pub(super) const fn new(budget: PollBudget) -> Self {
        let spent = Polling { time: Duration::ZERO, forced_sleeps: 0 };
        Meter { budget, used: 0, at: Timestamp::ZERO, polling: None, spent }
    }

    /// Returns the same account under another budget.
    pub(super) fn under(self, budget: PollBudget) -> Self {
        Meter { budget, used: self.used.min(budget.most()), ..self }
    }

    pub(super) const fn budget(&self) -> PollBudget {
        self.budget
    }

    pub(super) const fn spent(&self) -> Polling {
        self.spent
    }

    pub(super) fn begin(&mut self, now: Timestamp) {
        self.polling = Some(now);
    }

    /// Ends the poll under way, if there is one.
    #[inline]
    pub(super) fn end(&mut self, now: Timestamp) {
        if let Some(since) = self.polling.take() {
            self.charge(now.saturating_duration_since(since), now);
        }
    }

    fn charge(&mut self, polled: Duration, now: Timestamp) {
        self.spent.time += polled;
        let nanos = u64::try_from(polled.as_nanos()).unwrap_or(u64::MAX);
        self.used = self.used.saturating_add(nanos.saturating_mul(100));
        self.leak(now);
        self.used = self.used.min(self.budget.most());
    }

    /// Counts a sleep that the budget forced.
    pub(super) fn forced(&mut self) {
        self.spent.forced_sleeps += 1;
    }

    /// Returns whether polling may begin at `now`, or later with nothing spent in between.
    pub(super) fn allows(&mut self, now: Timestamp) -> bool {
        self.used.saturating_sub(self.leaked(now)) < self.budget.full()
    }

    /// Brings the account up to `now`.
    pub(super) fn leak(&mut self, now: Timestamp) {
        self.used = self.used.saturating_sub(self.leaked(now));
        self.at = self.at.max(now);
    }

    fn leaked(&self, now: Timestamp) -> u64 {
        self.budget.hundredths(now.as_nanos().saturating_sub(self.at.as_nanos()))
    }
}

/// One poll that took a minute, because the host had the CPU or the machine was suspended, must not forbid
/// polling for an hour: at most what a second pays off is charged.
const LONGEST_PAYMENT: u64 = NANOS_PER_SEC;

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn meter(percent: u32) -> Meter {
        Meter::new(PollBudget::new(Percent::new(percent).unwrap()).over(Duration::from_millis(1)))
    }

    fn poll(meter: &mut Meter, from: u64, until: u64) {
        meter.begin(at(from));
        meter.end(at(until));
    }

    #[test]
    fn what_is_used_up_comes_back_at_the_share() {
        let mut meter = meter(10);
        poll(&mut meter, 0, 111);
        assert!(meter.allows(at(111)), "99.9 of 100 µs, a tenth of the time given back");
        poll(&mut meter, 111, 112);
        assert!(!meter.allows(at(112)));
        assert!(meter.allows(at(121)), "0.8 µs too much is given back in 8");
        assert_eq!(meter.spent().time, Duration::from_micros(112));
    }

    #[test]
    fn the_ends_of_the_scale_are_no_limit_and_no_polling() {
        let mut all = meter(100);
        poll(&mut all, 0, 1_000_000);
        assert!(all.allows(at(1_000_000)));
        assert!(!meter(0).allows(at(1_000_000)));
        let mut forever = Meter::new(PollBudget::UNLIMITED.over(Duration::MAX));
        forever.begin(Timestamp::ZERO);
        forever.end(Timestamp::MAX);
        assert!(forever.allows(Timestamp::MAX));
    }

    #[test]
    fn one_look_of_a_minute_is_paid_off_in_a_second() {
        let mut meter = meter(10);
        poll(&mut meter, 0, 60_000_000);
        assert!(!meter.allows(at(60_999_999)));
        assert!(meter.allows(at(61_000_001)));
    }

    #[test]
    fn ending_a_poll_that_never_began_costs_nothing() {
        let mut meter = meter(1);
        meter.end(at(1_000));
        assert_eq!(meter.spent(), Polling::default());
    }
}

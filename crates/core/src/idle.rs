//! [`Idle`] decides how a loop with nothing to do waits: polling or sleeping.
//!
//! A sleep ends late by an amount that can be learnt (15–20 µs in a typical virtual machine). Ending the
//! sleep that much earlier meets the due time; the time left is busy-polled:
//!
//! ```text
//!                 now                       due − lead      due
//!   Park           │── sleep ──────────────────┤ · · wake-up ●       lead: what nearly every wake-up takes
//!   Hybrid         │── sleep ───────────┤ · · wake-up · poll ●       lead: what few wake-ups exceed
//!   Spin           │── poll ───────────────────────────────── ●
//! ```
//!
//! `Park` polls little, because its lead is a low quantile of the lateness; `Hybrid` polls a few
//! microseconds before most events and is rarely late. No lead is taken off slack
//! ([`Idle::wait_within`]): the slack is there so that one sleep serves many events, and a lead as long as the slack
//! would end each sleep for its first event. Where the due time is nearer than a wake-up
//! takes, both poll: going to sleep would cost as much and come late.
//!
//! Polling is not the safe choice: a virtual machine that burns its share is taken off its CPU for
//! milliseconds, and beside another busy process a loop loses a whole scheduler slice. So every policy has a
//! budget ([`PollBudget`], half of one CPU unless you say otherwise). All polling counts against it, also the
//! last few microseconds before a deadline. When it is used up, the loop sleeps to the deadline and is late
//! by a wake-up, rather than over budget. A flow faster than wake-ups needs all of a CPU under every policy,
//! and gets it only by asking ([`Idle::within`]). Spinning its driver may also withhold
//! ([`Idle::allow_spin`]): one spinning thread of a program is enough.
//!
//! An idle program with nothing pending sleeps for good under every policy (soft timers §5.1: the idle
//! CPU halts when nothing is due before the next interrupt).

mod budget;
mod policy;

use core::fmt;
use core::time::Duration;

use crate::Timestamp;

use budget::Meter;
pub use budget::{PollBudget, Polling};
use policy::Policy;

/// An idle policy with its learnt estimate of this machine's wake-up lateness.
///
/// ```
/// use softtimers_core::{Idle, Timestamp, Wait};
///
/// let at = Timestamp::from_micros;
/// assert_eq!(Idle::park().wait(at(0), Some(at(120))), Wait::Until(at(120)));
/// assert_eq!(Idle::spin().wait(at(0), Some(at(120))), Wait::Poll);
/// assert_eq!(Idle::spin().wait(at(0), None), Wait::Forever);
/// ```
///
/// # Cost
/// Every operation is a few integer operations; only the lead's needs a division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idle {
    policy: &'static Policy,
    may_spin: bool,
    /// Learnt wake-up lateness: a low quantile to park by, a high one for the hybrid.
    lead: Duration,
    /// The last deadline that was polled for from the start.
    polled: Option<Timestamp>,
    meter: Meter,
}

/// The way to wait until something happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Poll the sources without sleeping.
    Poll,
    /// Sleep until a source is ready or this time has come.
    Until(Timestamp),
    /// Sleep until a source is ready.
    Forever,
}

impl Idle {
    /// The name of each policy, which [`find`](Self::find) takes, and what it does.
    pub const ALL: [(&'static str, &'static str); policy::ALL.len()] = {
        let mut all = [("", ""); policy::ALL.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = (policy::ALL[at].name, policy::ALL[at].about);
            at += 1;
        }
        all
    };

    /// Returns the policy of this name: one of [`ALL`](Self::ALL).
    pub fn find(name: &str) -> Option<Self> {
        policy::ALL.into_iter().find(|policy| policy.name == name).map(Idle::new)
    }

    /// Sleeps until just before the deadline, early by the shortest wake-up time. The default.
    ///
    /// Limited by [`PollBudget::HALF`], as all policies; it comes near that only where events are closer
    /// together than a wake-up takes. A flow that must keep its schedule there needs more:
    /// [`within`](Self::within).
    pub const fn park() -> Self {
        Idle::new(&policy::PARK)
    }

    /// Sleeps until before the deadline, early by a high percentile of wake-up time, then busy-polls.
    ///
    /// Limited by [`PollBudget::HALF`], as [`park`](Self::park).
    pub const fn hybrid() -> Self {
        Idle::new(&policy::HYBRID)
    }

    /// Polls while anything is pending, within [`PollBudget::HALF`].
    pub const fn spin() -> Self {
        Idle::new(&policy::SPIN)
    }

    const fn new(policy: &'static Policy) -> Self {
        Idle { policy, may_spin: true, lead: policy.lead, polled: None, meter: Meter::new(PollBudget::HALF) }
    }

    /// Returns this policy and its budget with the busy-poll account of `before`, the policy that ran until
    /// now, so that a change of policy does not reset the account.
    #[must_use]
    pub fn after(self, before: &Idle) -> Self {
        Idle { meter: before.meter.under(self.budget()), ..self }
    }

    /// Returns the same policy within a budget, as yet unused.
    #[must_use]
    pub const fn within(self, budget: PollBudget) -> Self {
        Idle { meter: Meter::new(budget), ..self }
    }

    /// Allows a spinning policy to spin from now on, or forbids it; it parks while forbidden. Has no effect
    /// on other policies.
    pub fn allow_spin(&mut self, allowed: bool) {
        self.may_spin = allowed;
    }

    /// Decides how to wait at `now`, given the earliest deadline. The time until the next call counts as busy-poll time
    /// if the answer is [`Wait::Poll`] although nothing is due yet, unless [`busy`](Self::busy) is called before.
    ///
    /// The lead decays by 1/32 per deadline polled for without sleeping, so that one bad spell cannot keep a
    /// loop polling.
    pub fn wait(&mut self, now: Timestamp, poll_at: Option<Timestamp>) -> Wait {
        self.wait_within(now, poll_at, Duration::ZERO)
    }

    /// As [`wait`](Self::wait), for a deadline that `slack` is part of: the sleep is shortened only by what the
    /// [lead](Self::lead) exceeds it by, so it ends up to as much later, at most a wake-up.
    ///
    /// A loop over several events gives [`SoftTimers::slack_left`](crate::SoftTimers::slack_left), which ends where
    /// the slack of another one ends; one over a [`DepartureQueue`](crate::queue::DepartureQueue) its
    /// [slack](crate::queue::QueueConfig::slack).
    ///
    /// ```
    /// use core::time::Duration;
    /// use softtimers_core::{Idle, Timestamp, Wait};
    ///
    /// let (at, micros) = (Timestamp::from_micros, Duration::from_micros);
    /// let mut idle = Idle::park();
    /// (0..200).for_each(|_| idle.woke(at(0), at(16))); // wake-ups take 16 µs here
    /// let mut wait = |slack| match idle.wait_within(at(0), Some(at(120)), micros(slack)) {
    ///     Wait::Until(wake) => wake.as_nanos() / 1_000,
    ///     _ => unreachable!(),
    /// };
    /// assert_eq!([wait(0), wait(10), wait(20)], [104, 114, 120]);
    /// ```
    pub fn wait_within(&mut self, now: Timestamp, poll_at: Option<Timestamp>, slack: Duration) -> Wait {
        self.meter.end(now);
        self.meter.leak(now);
        let Some(deadline) = poll_at else { return Wait::Forever };
        if deadline <= now {
            return Wait::Poll;
        }
        let spins = self.policy.spins && self.may_spin;
        let wake = if spins { now } else { deadline.saturating_sub(self.lead.saturating_sub(slack)) };
        if wake < deadline && !self.meter.allows(wake.max(now)) {
            self.meter.forced();
            self.polled = Some(deadline);
            return Wait::Until(deadline);
        }
        if wake > now {
            self.polled = Some(deadline);
            return Wait::Until(wake);
        }
        if !spins && self.polled != Some(deadline) {
            self.polled = Some(deadline);
            self.lead -= self.lead / FADE;
        }
        self.meter.begin(now);
        Wait::Poll
    }

    /// Notes that polling found something to do at `now`: the time that follows is work.
    #[inline]
    pub fn busy(&mut self, now: Timestamp) {
        self.meter.end(now);
    }

    /// Notes that a sleep intended to end at `intended` ended at `now`, with no source ready.
    pub fn woke(&mut self, intended: Timestamp, now: Timestamp) {
        if self.policy.spins && self.may_spin {
            return;
        }
        let late = now.saturating_duration_since(intended).min(MOST_LEAD);
        let Policy { up, down, .. } = *self.policy;
        if late > self.lead {
            self.lead += (late - self.lead) / up;
        } else {
            self.lead -= (self.lead - late) / down;
        }
    }

    /// Returns by how much sleeps are shortened.
    pub fn lead(&self) -> Duration {
        self.lead
    }

    /// Returns whether the policy is to spin, allowed to or not.
    pub fn spins(&self) -> bool {
        self.policy.spins
    }

    /// Returns the limit on busy-polling.
    pub fn budget(&self) -> PollBudget {
        self.meter.budget()
    }

    /// Returns the busy-poll time so far, and the sleeps that the budget forced.
    pub fn polling(&self) -> Polling {
        self.meter.spent()
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name)
    }
}

impl Default for Idle {
    fn default() -> Self {
        Idle::park()
    }
}

/// Some twenty events after its cause has gone, a lead that is twice too long is right again.
const FADE: u32 = 32;
/// One wake-up that came milliseconds late (interference, a suspend) must not make the loop poll for
/// milliseconds before each event.
const MOST_LEAD: Duration = Duration::from_micros(60);

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;

    use super::*;
    use crate::Percent;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// Nine wake-ups of 10 µs, one of 30 µs, over and over.
    fn learnt(mut idle: Idle) -> Duration {
        for round in 0..1_000u64 {
            idle.woke(at(0), at(if round % 10 == 0 { 30 } else { 10 }));
        }
        idle.lead()
    }

    #[test]
    fn policies_have_the_names_of_their_constructors() {
        for (idle, name) in [(Idle::park(), "park"), (Idle::hybrid(), "hybrid"), (Idle::spin(), "spin")] {
            assert_eq!((Idle::find(name), idle.to_string()), (Some(idle), name.to_owned()));
        }
        for (name, _) in Idle::ALL {
            assert_eq!(Idle::find(name).map(|idle| idle.to_string()), Some(name.to_owned()));
        }
        assert_eq!(Idle::find("sleep"), None);
    }

    #[test]
    fn parking_learns_the_least_lateness_and_the_hybrid_the_most() {
        let (park, hybrid) = (learnt(Idle::park()), learnt(Idle::hybrid()));
        assert!(park >= Duration::from_micros(10) && park < Duration::from_micros(13), "{park:?}");
        assert!(hybrid > Duration::from_micros(15) && hybrid < Duration::from_micros(30), "{hybrid:?}");
        assert_eq!(learnt(Idle::spin()), Duration::ZERO);
    }

    #[test]
    fn one_wake_up_of_a_second_does_not_make_it_poll_for_long() {
        let mut idle = Idle::hybrid();
        idle.woke(at(0), Timestamp::MAX);
        assert!(idle.lead() < MOST_LEAD);
    }

    /// A spell of late wake-ups, then a flow whose deadlines are all nearer than the lead they left.
    #[test]
    fn a_bad_spell_does_not_make_it_poll_for_ever() {
        for mut idle in [Idle::park(), Idle::hybrid()] {
            for _ in 0..500 {
                idle.woke(at(0), at(1_000));
            }
            assert!(idle.lead() > Duration::from_micros(55));
            let slept = (0..200u64).filter(|event| {
                let now = at(event * 40);
                match idle.wait(now, Some(at(event * 40 + 40))) {
                    Wait::Until(wake) => {
                        idle.woke(wake, wake + Duration::from_micros(18));
                        true
                    }
                    _ => false,
                }
            });
            assert!(slept.count() > 150, "{:?}", idle.lead());
        }
    }

    #[test]
    fn a_spinner_that_may_not_spin_parks_and_learns_to() {
        let mut idle = Idle::spin();
        idle.allow_spin(false);
        assert_eq!(idle.wait(at(0), Some(at(120))), Wait::Until(at(120)));
        let parked = learnt(idle);
        assert_eq!(parked, learnt(Idle::park()));
        idle.allow_spin(true);
        assert_eq!(idle.wait(at(0), Some(at(120))), Wait::Poll);
    }

    #[test]
    fn what_is_due_is_not_polled_for() {
        let mut idle = Idle::spin();
        assert_eq!(idle.wait(at(5), Some(at(5))), Wait::Poll);
        idle.busy(at(900));
        assert_eq!(idle.polling(), Polling::default());
    }

    #[test]
    fn work_is_not_charged_to_the_budget() {
        let mut idle = Idle::spin();
        for round in 0..10u64 {
            let begin = at(round * 10_000);
            assert_eq!(idle.wait(begin, Some(Timestamp::MAX)), Wait::Poll);
            idle.busy(begin + Duration::from_micros(3));
        }
        assert_eq!(idle.polling(), Polling { time: Duration::from_micros(30), forced_sleeps: 0 });
    }

    #[test]
    fn another_policy_takes_the_account_over() {
        let mut before = Idle::spin().within(PollBudget::UNLIMITED);
        assert_eq!(before.wait(at(0), Some(at(50_000))), Wait::Poll);
        before.busy(at(20_000));
        let tenth = PollBudget::new(Percent::new(10).unwrap());
        let mut after = Idle::spin().within(tenth).after(&before);
        assert_eq!((after.budget(), after.polling().time), (tenth, Duration::from_micros(20_000)));
        // Without a limit the account was settled at once; under a tenth it is not.
        assert_eq!(after.wait(at(20_000), Some(at(50_000))), Wait::Poll);
        after.busy(at(22_000));
        let mut again = Idle::spin().within(tenth).after(&after);
        assert_eq!(again.wait(at(22_000), Some(at(50_000))), Wait::Until(at(50_000)));
    }

    /// One sleep to the deadline, not one to the lead and then another.
    #[test]
    fn without_budget_a_hybrid_sleeps_through() {
        let mut idle = Idle::hybrid().within(PollBudget::new(Percent::new(0).unwrap()));
        assert_eq!(idle.wait(at(0), Some(at(120))), Wait::Until(at(120)));
        assert_eq!(idle.wait(at(119), Some(at(120))), Wait::Until(at(120)));
        assert_eq!(idle.polling(), Polling { time: Duration::ZERO, forced_sleeps: 2 });
    }

    #[test]
    fn hybrid_sleeps_short_of_the_deadline_and_then_polls() {
        let mut idle = Idle::hybrid();
        assert_eq!(idle.wait(at(0), Some(at(120))), Wait::Until(at(100)));
        assert_eq!(idle.wait(at(100), Some(at(120))), Wait::Poll);
        assert_eq!(idle.wait(at(0), None), Wait::Forever);
    }

    #[test]
    fn no_lead_is_taken_off_slack() {
        for mut idle in [Idle::park(), Idle::hybrid()] {
            (0..500).for_each(|_| idle.woke(at(0), at(20)));
            for (slack, early) in
                [(0, idle.lead()), (7, idle.lead() - Duration::from_micros(7)), (30, Duration::ZERO)]
            {
                let wait = idle.wait_within(at(0), Some(at(120)), Duration::from_micros(slack));
                assert_eq!(wait, Wait::Until(at(120).saturating_sub(early)), "{idle} {slack}");
            }
        }
    }

    #[test]
    fn parking_does_not_sleep_when_a_wake_up_would_take_longer() {
        assert_eq!(Idle::default().wait(at(5), Some(at(5))), Wait::Poll);
        let mut idle = Idle::default();
        assert_eq!(idle.wait(at(0), Some(at(9))), Wait::Until(at(9)), "nothing learnt yet");
        for _ in 0..200 {
            idle.woke(at(0), at(20));
        }
        assert_eq!(idle.wait(at(0), Some(at(9))), Wait::Poll);
        assert!(matches!(idle.wait(at(0), Some(at(120))), Wait::Until(wake) if wake < at(102)));
    }
}

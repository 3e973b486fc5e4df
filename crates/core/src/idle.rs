//! What a loop with nothing to do should do: [`Idle`] decides between polling and sleeping.
//!
//! A sleeping wake-up comes late by an amount that one can learn (15–20 µs in a typical virtual
//! machine). Sleeping less by that much meets the due time; the rest is polled away:
//!
//! ```text
//!                 now                       due − lead      due
//!   Park           │── sleep ──────────────────┤ · · wake-up ●       lead: what nearly every wake-up takes
//!   Hybrid         │── sleep ───────────┤ · · wake-up · poll ●       lead: what few wake-ups exceed
//!   Spin           │── poll ───────────────────────────────── ●
//! ```
//!
//! `Park` polls little, because its lead is a low quantile of the lateness; `Hybrid` polls a few
//! microseconds before most events and is rarely late. Where the due time is nearer than a wake-up
//! takes, both poll: going to sleep would cost as much and come late. A flow faster than wake-ups
//! therefore takes all of the processor under every policy, as it would by sleeping.
//!
//! Spinning is not the safe choice: a virtual machine that burns its share is taken off its core for
//! milliseconds, and beside another busy process a whole scheduler slice is lost. An idle program
//! with nothing pending sleeps for good under every policy (soft timers §5.1: the idle CPU halts when
//! nothing is due before the next interrupt).

use core::time::Duration;

use crate::Timestamp;

/// An idle policy with what it has learnt about this machine's wake-ups.
///
/// ```
/// use softtimers_core::{Idle, Timestamp, Wait};
///
/// let at = Timestamp::from_micros;
/// assert_eq!(Idle::park().wait(at(0), Some(at(120))), Wait::Until(at(120)));
/// assert_eq!(Idle::spin().wait(at(0), Some(at(120))), Wait::Poll);
/// assert_eq!(Idle::spin().wait(at(0), None), Wait::Forever);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idle {
    policy: Policy,
    /// Learnt wake-up lateness: a low quantile to park by, a high one for the hybrid.
    lead: Duration,
    /// The last deadline that was polled for from the start.
    polled: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Policy {
    Park,
    Hybrid,
    Spin,
}

/// What to do until something happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Look at the sources without sleeping.
    Poll,
    /// Sleep until a source is ready or this time has come.
    Until(Timestamp),
    /// Sleep until a source is ready.
    Forever,
}

impl Idle {
    /// Sleep until the deadline, less what a wake-up takes at the least. The default.
    pub const fn park() -> Self {
        Idle { policy: Policy::Park, lead: Duration::ZERO, polled: None }
    }

    /// Sleep until the deadline, less what a wake-up takes at the most; poll the rest away.
    pub const fn hybrid() -> Self {
        Idle { policy: Policy::Hybrid, lead: FIRST_LEAD, polled: None }
    }

    /// Poll while anything is pending.
    pub const fn spin() -> Self {
        Idle { policy: Policy::Spin, lead: Duration::ZERO, polled: None }
    }

    /// What to do at `now`, given the earliest deadline.
    ///
    /// Each deadline that is polled for without a sleep lets the lead fade by a thirty-second: what no
    /// sleep confirms any more is forgotten, so that one bad spell cannot keep a loop polling.
    pub fn wait(&mut self, now: Timestamp, poll_at: Option<Timestamp>) -> Wait {
        let Some(deadline) = poll_at else { return Wait::Forever };
        if self.policy == Policy::Spin || deadline <= now {
            return Wait::Poll;
        }
        let wake = deadline.saturating_sub(self.lead);
        if wake > now {
            self.polled = Some(deadline);
            return Wait::Until(wake);
        }
        if self.polled != Some(deadline) {
            self.polled = Some(deadline);
            self.lead -= self.lead / FADE;
        }
        Wait::Poll
    }

    /// A sleep that was to end at `intended` ended at `now`, with no source ready.
    pub fn woke(&mut self, intended: Timestamp, now: Timestamp) {
        let late = now.saturating_duration_since(intended).min(MOST_LEAD);
        let (up, down) = match self.policy {
            Policy::Park => (16, 4),
            Policy::Hybrid => (4, 64),
            Policy::Spin => return,
        };
        if late > self.lead {
            self.lead += (late - self.lead) / up;
        } else {
            self.lead -= (self.lead - late) / down;
        }
    }

    /// By how much sleeps are shortened.
    pub fn lead(&self) -> Duration {
        self.lead
    }
}

impl Default for Idle {
    fn default() -> Self {
        Idle::park()
    }
}

/// Some twenty events after its cause has gone, a lead that is twice too long is right again.
const FADE: u32 = 32;
/// A typical virtual machine's wake-up; what is learnt replaces it within tens of wake-ups.
const FIRST_LEAD: Duration = Duration::from_micros(20);
/// One wake-up that came milliseconds late (a neighbour, a suspend) must not make the loop poll for
/// milliseconds before each event.
const MOST_LEAD: Duration = Duration::from_micros(60);

#[cfg(test)]
mod tests {
    use super::*;

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
    fn hybrid_sleeps_short_of_the_deadline_and_then_polls() {
        let mut idle = Idle::hybrid();
        assert_eq!(idle.wait(at(0), Some(at(120))), Wait::Until(at(100)));
        assert_eq!(idle.wait(at(100), Some(at(120))), Wait::Poll);
        assert_eq!(idle.wait(at(0), None), Wait::Forever);
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

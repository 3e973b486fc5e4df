//! What a loop with nothing to do should do: [`Idle`] decides between polling and sleeping.
//!
//! A sleeping wake-up comes late by an amount that one can learn (15–20 µs in a typical virtual
//! machine), so there are three ways to meet a due time from idle:
//!
//! ```text
//!                 now                                  due      + wake-up lateness
//!   Park           │── sleep ───────────────────────────┤ · · · · ●   late by the wake-up, least CPU
//!   Hybrid         │── sleep ─────────────────┤ · · poll · ●          on time, some CPU
//!   Spin           │── poll ───────────────────────────── ●          on time, all the CPU
//! ```
//!
//! Spinning is not the safe choice: a virtual machine that burns its share is taken off its core for
//! milliseconds, and beside another busy process a whole scheduler slice is lost. So the default is to
//! park, and an idle program with nothing pending sleeps for good under every policy (soft timers
//! §5.1: the idle CPU halts when nothing is due before the next interrupt).

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
    /// Learnt wake-up lateness: a high quantile, moving up fast and down slowly.
    lead: Duration,
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
    /// Sleep until the deadline. The default, and the least CPU.
    pub const fn park() -> Self {
        Idle { policy: Policy::Park, lead: Duration::ZERO }
    }

    /// Sleep until the deadline less the learnt lateness of a wake-up, then poll.
    pub const fn hybrid() -> Self {
        Idle { policy: Policy::Hybrid, lead: FIRST_LEAD }
    }

    /// Poll while anything is pending.
    pub const fn spin() -> Self {
        Idle { policy: Policy::Spin, lead: Duration::ZERO }
    }

    /// What to do at `now`, given the earliest deadline.
    pub fn wait(&self, now: Timestamp, poll_at: Option<Timestamp>) -> Wait {
        let Some(deadline) = poll_at else { return Wait::Forever };
        let wake = deadline.saturating_sub(self.lead);
        match self.policy {
            Policy::Spin => Wait::Poll,
            _ if wake <= now => Wait::Poll,
            _ => Wait::Until(wake),
        }
    }

    /// A sleep that was to end at `intended` ended at `now`, with no source ready.
    pub fn woke(&mut self, intended: Timestamp, now: Timestamp) {
        if self.policy != Policy::Hybrid {
            return;
        }
        let late = now.saturating_duration_since(intended).min(MOST_LEAD);
        self.lead = if late > self.lead {
            self.lead + (late - self.lead) / 4
        } else {
            self.lead - (self.lead - late) / 64
        };
    }

    /// The wake-up lateness that sleeps are shortened by: zero unless hybrid.
    pub fn lead(&self) -> Duration {
        self.lead
    }
}

impl Default for Idle {
    fn default() -> Self {
        Idle::park()
    }
}

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

    #[test]
    fn the_lead_follows_a_high_quantile_of_the_lateness() {
        let mut idle = Idle::hybrid();
        // Nine wake-ups of 10 µs, one of 30 µs, over and over: between the two, near the upper end.
        for round in 0..2_000u64 {
            idle.woke(at(0), at(if round % 10 == 0 { 30 } else { 10 }));
        }
        assert!(idle.lead() > Duration::from_micros(15), "{:?}", idle.lead());
        assert!(idle.lead() < Duration::from_micros(30), "{:?}", idle.lead());
        idle.woke(at(0), Timestamp::MAX);
        assert!(idle.lead() < MOST_LEAD);
    }

    #[test]
    fn hybrid_sleeps_short_of_the_deadline_and_then_polls() {
        let idle = Idle::hybrid();
        assert_eq!(idle.wait(at(0), Some(at(120))), Wait::Until(at(100)));
        assert_eq!(idle.wait(at(100), Some(at(120))), Wait::Poll);
        assert_eq!(idle.wait(at(0), None), Wait::Forever);
    }

    #[test]
    fn parking_with_an_overdue_event_does_not_sleep() {
        assert_eq!(Idle::default().wait(at(5), Some(at(5))), Wait::Poll);
        let mut idle = Idle::default();
        idle.woke(at(0), at(50));
        assert_eq!(idle.lead(), Duration::ZERO);
    }
}

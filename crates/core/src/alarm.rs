//! When to touch the one hardware timer behind all soft timers: [`Alarm`].
//!
//! Setting a kernel timer costs 0.6 µs, and 3 to 10 where it becomes the CPU's next interrupt, as one a
//! hundred microseconds ahead usually does; a wake-up for nothing costs 7 to 27. So the alarm is moved *earlier* at once,
//! *later* only when it would otherwise go off soon, and cleared as soon as nothing wants it (soft timers §5.9: arming
//! must be cheap, the cost is in the expiry).
//!
//! ```text
//!   now        armed at a                      wanted at d
//!   ─┬────────────┬────────────────────────────────┬────▶
//!    └─ margin ─┘                                        a is past the margin: leave it, look later
//!    └──── margin ────┘                                  a is about to expire for nothing: move to d
//! ```
//!
//! A thread about to sleep moves the alarm later by any amount: otherwise it would wake at `a` for nothing
//! and set `d` then. A thread that runs beside a sleeper would move it for each event that it takes over,
//! under a dense load by a few microseconds 100,000 times a second. So it moves the alarm later only by 100
//! µs or more.

use core::time::Duration;

use crate::Timestamp;

/// The state of a one-shot hardware timer, and the decision whether to change it.
///
/// ```
/// use softtimers_core::{Alarm, Command, Timestamp};
///
/// let at = Timestamp::from_micros;
/// let mut alarm = Alarm::new();
/// assert_eq!(alarm.want(at(0), Some(at(500))), Command::Set(at(500)));
/// assert_eq!(alarm.want(at(0), Some(at(900))), Command::Keep); // it can still be moved in time
/// assert_eq!(alarm.want(at(0), Some(at(200))), Command::Set(at(200)));
/// assert_eq!(alarm.want(at(150), Some(at(900))), Command::Set(at(900)));
/// assert_eq!(alarm.want(at(160), None), Command::Clear);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Alarm {
    armed: Option<Timestamp>,
}

/// A command for the hardware timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Leave it as it is: no system call.
    Keep,
    /// Arm it for this time, instead of whatever it is armed for.
    Set(Timestamp),
    /// Disarm the timer.
    Clear,
}

impl Alarm {
    /// A timer that is not armed.
    pub const fn new() -> Self {
        Alarm { armed: None }
    }

    /// Returns the command to carry out before a sleep, given `poll_at`, the earliest deadline.
    ///
    /// After it the timer goes off at `poll_at` or before, never later.
    pub fn want(&mut self, now: Timestamp, poll_at: Option<Timestamp>) -> Command {
        self.want_by(Duration::ZERO, now, poll_at)
    }

    /// As [`want`](Self::want), for a thread that has changed the earliest deadline while another one sleeps
    /// on the timer: the timer is moved later by 100 µs or more, or not at all.
    ///
    /// ```
    /// use softtimers_core::{Alarm, Command, Timestamp};
    ///
    /// let at = Timestamp::from_micros;
    /// let mut alarm = Alarm::new();
    /// alarm.want(at(0), Some(at(40)));
    /// assert_eq!(alarm.want_for_sleeper(at(30), Some(at(50))), Command::Keep);
    /// assert_eq!(alarm.want_for_sleeper(at(30), Some(at(140))), Command::Set(at(140)));
    /// assert_eq!(alarm.want_for_sleeper(at(30), Some(at(35))), Command::Set(at(35)));
    /// ```
    pub fn want_for_sleeper(&mut self, now: Timestamp, poll_at: Option<Timestamp>) -> Command {
        self.want_by(WORTH_MOVING, now, poll_at)
    }

    /// Returns whether [`want_for_sleeper`](Self::want_for_sleeper) would keep the timer as it is, when the
    /// only change is a deadline at `earliest` or later: then the search for the earliest deadline can be
    /// skipped. O(1).
    ///
    /// ```
    /// use softtimers_core::{Alarm, Timestamp};
    ///
    /// let at = Timestamp::from_micros;
    /// let mut alarm = Alarm::new();
    /// alarm.want(at(0), Some(at(500)));
    /// assert!(alarm.keeps(at(10), at(500)));
    /// assert!(!alarm.keeps(at(10), at(499))); // it would move earlier
    /// assert!(!alarm.keeps(at(400), at(900))); // it may be about to go off for nothing
    /// ```
    pub fn keeps(&self, now: Timestamp, earliest: Timestamp) -> bool {
        self.armed.is_some_and(|armed| armed <= earliest && armed > now + MARGIN)
    }

    /// As [`want`](Self::want), but moves the timer later only by `least` or more.
    fn want_by(&mut self, least: Duration, now: Timestamp, poll_at: Option<Timestamp>) -> Command {
        let command = match (self.armed, poll_at) {
            (None, None) => Command::Keep,
            (Some(_), None) => Command::Clear,
            (None, Some(wanted)) => Command::Set(wanted),
            (Some(armed), Some(wanted)) if wanted < armed => Command::Set(wanted),
            (Some(armed), Some(wanted))
                if armed < wanted && armed <= now + MARGIN && wanted >= armed + least =>
            {
                Command::Set(wanted)
            }
            (Some(_), Some(_)) => Command::Keep,
        };
        match command {
            Command::Set(time) => self.armed = Some(time),
            Command::Clear => self.armed = None,
            Command::Keep => {}
        }
        command
    }

    /// Notes that the timer has gone off.
    pub fn expired(&mut self) {
        self.armed = None;
    }

    /// The time it is armed for.
    pub fn armed(&self) -> Option<Timestamp> {
        self.armed
    }
}

/// Longer than a loop's usual pass, so that one that stays busy moves the alarm before it expires;
/// shorter than the deadlines of an idle program's timers, so that those are left alone.
const MARGIN: Duration = Duration::from_micros(100);

/// Limits the cost of moving the timer later to a tenth of a CPU: one move of up to 10 µs each 100 µs.
const WORTH_MOVING: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is asked: armed exactly when wanted, never after the wanted time; and no system
        /// call is spent while the armed time is both early enough and not about to expire.
        #[test]
        fn never_late_and_never_armed_for_nothing(
            asks in prop::collection::vec((0u64..300, prop::option::of(0u64..2_000), any::<bool>()), 1..crate::effort::operations(100) as usize),
        ) {
            let (mut alarm, mut now) = (Alarm::new(), Timestamp::ZERO);
            for (step, wanted, sleeps) in asks {
                now += Duration::from_micros(step);
                if alarm.armed().is_some_and(|armed| armed <= now) {
                    alarm.expired();
                }
                let before = alarm.armed();
                let wanted = wanted.map(|ahead| now + Duration::from_micros(ahead));
                let keeps = wanted.is_some_and(|wanted| alarm.keeps(now, wanted));
                let command = if sleeps { alarm.want_for_sleeper(now, wanted) } else { alarm.want(now, wanted) };
                prop_assert_eq!(alarm.armed().is_some(), wanted.is_some());
                prop_assert!(!keeps || command == Command::Keep);
                prop_assert!(alarm.armed() <= wanted || wanted.is_none());
                if let (Some(armed), Some(wanted)) = (before, wanted) {
                    let soon = armed <= now + MARGIN && (!sleeps || wanted >= armed + WORTH_MOVING);
                    let fine = armed <= wanted && (armed == wanted || !soon);
                    prop_assert_eq!(command == Command::Keep, fine);
                }
            }
        }
    }
}

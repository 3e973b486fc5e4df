//! [`Alarm`]: the single event of a protocol that asks to be called at a time, and changes that time often.

use std::time::Duration;

use softtimers::{Slack, SoftTimers, TimerId, Timestamp};

/// One event among a program's timers, moved with each call of [`set`](Alarm::set).
///
/// Protocols without I/O of their own give one time at which they want to be called, and another one after each call.
/// That is one timer that is moved, not one timer per call.
#[derive(Debug)]
pub struct Alarm<E> {
    event: E,
    step: Duration,
    slack: Slack,
    pending: Option<TimerId>,
}

impl<E: Copy> Alarm<E> {
    /// Creates an alarm that fires at its time.
    pub fn exact(event: E) -> Self {
        Alarm { event, step: Duration::ZERO, slack: Slack::EXACT, pending: None }
    }

    /// Creates an alarm that fires like one of `epoll_wait` or `poll`: a whole number of steps after it is set, rounded
    /// up. An alarm that is already due stays so.
    pub fn in_steps(event: E, step: Duration) -> Self {
        Alarm { step, ..Alarm::exact(event) }
    }

    /// Creates an alarm that may be late by `slack`.
    pub fn within(event: E, slack: Duration) -> Self {
        Alarm { slack: Slack::within(slack), ..Alarm::exact(event) }
    }

    /// Moves it to `due`; `None` disarms it.
    pub fn set(&mut self, timers: &mut SoftTimers<E>, now: Timestamp, due: Option<Timestamp>) {
        let Some(due) = due else {
            self.pending.take().map(|id| timers.cancel(id));
            return;
        };
        let due = now + rounded_up(due.saturating_duration_since(now), self.step);
        let moved = self.pending.is_some_and(|id| timers.reschedule_at(now, id, due, self.slack).is_ok());
        if !moved {
            self.pending = Some(timers.schedule_at(now, due, self.slack, self.event));
        }
    }
}

fn rounded_up(wait: Duration, step: Duration) -> Duration {
    match u64::try_from(step.as_nanos()) {
        Ok(0) | Err(_) => wait,
        Ok(step) => Duration::from_nanos((wait.as_nanos() as u64).next_multiple_of(step)),
    }
}

#[cfg(test)]
mod tests {
    use softtimers::{Config, TriggerState};

    use super::*;

    fn micros(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// Returns when the only event of `timers` fires.
    fn next(timers: &SoftTimers<u8>) -> Option<Timestamp> {
        timers.next_due()
    }

    #[test]
    fn it_moves_and_goes_away() {
        let (mut timers, mut alarm) = (SoftTimers::new(Config::default()), Alarm::exact(7));
        alarm.set(&mut timers, micros(10), Some(micros(50)));
        alarm.set(&mut timers, micros(20), Some(micros(40)));
        assert_eq!((timers.len(), next(&timers)), (1, Some(micros(40))));
        alarm.set(&mut timers, micros(30), None);
        assert!(timers.is_empty());
    }

    #[test]
    fn it_can_be_set_again_after_it_went_off() {
        let (mut timers, mut alarm) = (SoftTimers::new(Config::default()), Alarm::exact(7));
        alarm.set(&mut timers, micros(10), Some(micros(20)));
        let turn = timers.trigger(TriggerState::Idle, micros(20));
        assert_eq!(timers.next(&turn).map(|fired| fired.event), Some(7));
        alarm.set(&mut timers, micros(20), Some(micros(30)));
        assert_eq!(next(&timers), Some(micros(30)));
    }

    #[test]
    fn steps_round_up_and_leave_what_is_due() {
        let (mut timers, step) = (SoftTimers::new(Config::default()), Duration::from_millis(1));
        let mut alarm = Alarm::in_steps(7, step);
        for (due, goes_off) in [(1_101, 2_100), (1_100, 1_100), (101, 1_100), (100, 100), (3, 100)] {
            alarm.set(&mut timers, micros(100), Some(micros(due)));
            assert_eq!(next(&timers), Some(micros(goes_off)), "{due}");
        }
    }
}

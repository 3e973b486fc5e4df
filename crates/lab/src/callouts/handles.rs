//! The interface with handles, `setcallout` and `unsetcallout`: `SoftTimers` as it is.

use softtimers_core::{Config, Slack, SoftTimers, TimerId, Timestamp, TriggerState};

use super::{Callout, Callouts};

/// Callouts with handles.
#[derive(Debug)]
pub struct Handles {
    timers: SoftTimers<Callout>,
    now: Timestamp,
}

impl Default for Handles {
    fn default() -> Self {
        Handles { timers: SoftTimers::new(Config::default()), now: Timestamp::ZERO }
    }
}

impl Callouts for Handles {
    type Name = TimerId;

    fn set(&mut self, ticks: u64, callout: Callout) -> TimerId {
        let due = Timestamp::from_micros(self.now.as_nanos() / 1_000 + ticks);
        self.timers.schedule_at(self.now, due, Slack::EXACT, callout)
    }

    fn cancel(&mut self, name: TimerId) -> bool {
        self.timers.cancel(name).is_some()
    }

    fn tick(&mut self, due: &mut Vec<Callout>) {
        self.now = Timestamp::from_micros(self.now.as_nanos() / 1_000 + 1);
        let turn = self.timers.trigger(TriggerState::ProtocolTimer, self.now);
        due.extend(std::iter::from_fn(|| self.timers.next(&turn)).map(|fired| fired.event));
    }
}

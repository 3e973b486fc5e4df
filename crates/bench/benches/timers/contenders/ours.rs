//! `SoftTimers`, with slack and the earliest deadline tracked, as programs use it.

use softtimers_core::{Config, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState};

use crate::contender::Contender;

pub(crate) struct Handles {
    timers: SoftTimers<u32>,
    now: Timestamp,
}

impl Contender for Handles {
    type Handle = TimerId;

    fn new(_: usize) -> Self {
        Handles { timers: SoftTimers::new(Config::default()), now: Timestamp::ZERO }
    }

    fn set(&mut self, due: u64, number: u32) -> TimerId {
        self.timers.schedule_at(self.now, Timestamp::from_micros(due), Slack::DEFAULT, number)
    }

    fn cancel(&mut self, handle: TimerId) {
        self.timers.cancel(handle);
    }

    fn rearm(&mut self, handle: TimerId, due: u64, _: u32) -> TimerId {
        // A stale handle would be a mistake of the bench, which every workload's count would show.
        let _ = self.timers.reschedule_at(self.now, handle, Timestamp::from_micros(due), Slack::DEFAULT);
        handle
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        self.now = Timestamp::from_micros(now);
        let turn = self.timers.trigger(TriggerState::Idle, self.now);
        while let Some(one) = self.timers.next(&turn) {
            fired.push(one.event);
        }
    }

    fn step(&mut self, now: u64, fired: &mut Vec<u32>) -> bool {
        self.now = Timestamp::from_micros(now);
        let turn = self.timers.trigger(TriggerState::Idle, self.now);
        match self.timers.step(&turn) {
            Step::Fired(one) => fired.push(one.event),
            Step::MoreWork => {}
            Step::Done => return false,
        }
        true
    }

    fn next(&mut self) -> Option<u64> {
        self.timers.next_due().map(|due| due.as_nanos() / 1_000)
    }
}

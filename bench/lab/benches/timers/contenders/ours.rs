//! `SoftTimers`, with slack and the earliest deadline tracked, as programs use it; and `KeyedTimers`, where the
//! number of a timer is its name.

use std::time::Duration;

use softtimers_core::{Config, KeyedTimers, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState};

use crate::contender::Contender;

pub(crate) struct Handles {
    timers: SoftTimers<u32>,
    now: Timestamp,
}

impl Contender for Handles {
    type Handle = TimerId;

    fn new(expected: usize) -> Self {
        let mut timers = SoftTimers::new(Config::default());
        timers.reserve(expected);
        Handles { timers, now: Timestamp::ZERO }
    }

    fn set(&mut self, due: u64, number: u32) -> TimerId {
        self.timers.schedule_at(self.now, Timestamp::from_micros(due), Slack::DEFAULT, number)
    }

    fn cancel(&mut self, handle: TimerId) {
        self.timers.cancel(handle);
    }

    fn rearm(&mut self, handle: TimerId, due: u64, _: u32) -> TimerId {
        // A stale handle would be a bug of the bench, which every workload's count would show.
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

    fn poll_at(&mut self) -> Option<u64> {
        self.timers.poll_at().map(Timestamp::as_nanos)
    }
}

pub(crate) struct Keyed {
    timers: KeyedTimers,
    now: Timestamp,
}

impl Contender for Keyed {
    type Handle = u32;

    fn new(expected: usize) -> Self {
        let mut timers = KeyedTimers::new(Duration::from_micros(1));
        timers.reserve(expected as u32);
        Keyed { timers, now: Timestamp::ZERO }
    }

    fn set(&mut self, due: u64, number: u32) -> u32 {
        self.timers.set(self.now, number, Timestamp::from_micros(due));
        number
    }

    fn cancel(&mut self, handle: u32) {
        self.timers.cancel(handle);
    }

    fn rearm(&mut self, handle: u32, due: u64, number: u32) -> u32 {
        self.set(due, number);
        handle
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        self.now = Timestamp::from_micros(now);
        let turn = self.timers.turn(self.now);
        while let Some((number, _)) = self.timers.next(&turn) {
            fired.push(number);
        }
    }

    fn step(&mut self, now: u64, fired: &mut Vec<u32>) -> bool {
        self.now = Timestamp::from_micros(now);
        let turn = self.timers.turn(self.now);
        match self.timers.step(&turn) {
            Step::Fired((number, _)) => fired.push(number),
            Step::MoreWork => {}
            Step::Done => return false,
        }
        true
    }

    fn next(&mut self) -> Option<u64> {
        self.timers.next_due().map(|due| due.as_nanos().div_ceil(1_000))
    }
}

//! hierarchical_hash_wheel_timer's cancellable quad wheel with overflow; its millisecond is a tick.

use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};

use crate::contender::Contender;

pub(crate) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    now: u64,
    sequence: u64,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    number: u32,
}

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }
}

impl Contender for HashWheel {
    type Handle = u64;

    fn new(_: usize) -> Self {
        HashWheel { wheel: QuadWheelWithOverflow::new(), now: 0, sequence: 0 }
    }

    fn set(&mut self, due: u64, number: u32) -> u64 {
        self.sequence += 1;
        let delay = Duration::from_millis(due.saturating_sub(self.now).max(1));
        let entry = Rc::new(Entry { id: self.sequence, number });
        self.wheel.insert_ref_with_delay(entry, delay).expect("a delay in its range");
        self.sequence
    }

    fn cancel(&mut self, handle: u64) {
        let _ = self.wheel.cancel(&handle);
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        while self.now < now {
            if now - self.now > 1 {
                match self.wheel.can_skip() {
                    Skip::Empty => {
                        self.now = now;
                        return;
                    }
                    Skip::Millis(ticks) => {
                        let ticks = u64::from(ticks).min(now - self.now);
                        self.wheel.skip(ticks as u32);
                        self.now += ticks;
                        continue;
                    }
                    Skip::None => {}
                }
            }
            self.now += 1;
            fired.extend(self.wheel.tick().iter().map(|entry| entry.number));
        }
    }

    fn next(&mut self) -> Option<u64> {
        match self.wheel.can_skip() {
            Skip::Empty => None,
            Skip::None => Some(self.now + 1),
            Skip::Millis(ticks) => Some(self.now + u64::from(ticks) + 1),
        }
    }
}

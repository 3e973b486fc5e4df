//! nexus-timer's wheel with ticks of 1 µs and eight levels.

use std::time::{Duration, Instant};

use nexus_timer::{TimerHandle, Wheel, WheelBuilder};

use crate::contender::Contender;

pub(crate) struct Nexus {
    wheel: Wheel<u32>,
    start: Instant,
}

impl Contender for Nexus {
    type Handle = TimerHandle<u32>;

    fn new(_: usize) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the clock is simulated")]
        let start = Instant::now();
        let builder = WheelBuilder::default().tick_duration(Duration::from_micros(1)).num_levels(8);
        Nexus { wheel: builder.unbounded(65_536).build(start).expect("a configuration"), start }
    }

    fn set(&mut self, due: u64, number: u32) -> TimerHandle<u32> {
        self.wheel.schedule(self.start + Duration::from_micros(due), number)
    }

    fn cancel(&mut self, handle: TimerHandle<u32>) {
        self.wheel.cancel(handle);
    }

    fn rearm(&mut self, handle: TimerHandle<u32>, due: u64, _: u32) -> TimerHandle<u32> {
        self.wheel.reschedule(handle, self.start + Duration::from_micros(due))
    }

    fn release(&mut self, handle: TimerHandle<u32>) {
        self.wheel.free(handle);
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        self.wheel.poll_and_rebalance(self.start + Duration::from_micros(now), fired);
    }

    fn next(&mut self) -> Option<u64> {
        // Its ticks are rounded down, so no timer would fire at the time that it returns.
        let next = self.wheel.next_deadline()? - self.start;
        Some(next.as_micros() as u64 + 1)
    }
}

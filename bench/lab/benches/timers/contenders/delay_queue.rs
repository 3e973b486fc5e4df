//! tokio-util's `DelayQueue`, polled on a current-thread runtime: milliseconds.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::clock;
use crate::contender::Contender;

pub(crate) struct Queue {
    runtime: Runtime,
    timers: DelayQueue<u32>,
    start: Instant,
}

impl Contender for Queue {
    type Handle = Key;

    fn new(expected: usize) -> Self {
        clock::set(0);
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let entered = runtime.enter();
        let (timers, start) = (DelayQueue::with_capacity(expected), Instant::now());
        drop(entered);
        Queue { runtime, timers, start }
    }

    fn set(&mut self, due: u64, number: u32) -> Key {
        let _entered = self.runtime.enter();
        self.timers.insert_at(number, self.start + Duration::from_millis(due))
    }

    fn cancel(&mut self, handle: Key) {
        let _entered = self.runtime.enter();
        self.timers.try_remove(&handle);
    }

    fn rearm(&mut self, handle: Key, due: u64, _: u32) -> Key {
        let _entered = self.runtime.enter();
        self.timers.reset_at(&handle, self.start + Duration::from_millis(due));
        handle
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        clock::set(now * 1_000_000);
        let timers = &mut self.timers;
        // The runtime's own wheel must have seen the new time before the queue's delay can fire.
        let mut seen = false;
        self.runtime.block_on(poll_fn(|context| {
            loop {
                match timers.poll_expired(context) {
                    Poll::Ready(Some(expired)) => {
                        fired.push(expired.into_inner());
                        seen = false;
                    }
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending if seen => return Poll::Ready(()),
                    Poll::Pending => {
                        seen = true;
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
            }
        }));
    }

    fn next(&mut self) -> Option<u64> {
        let first = self.timers.peek()?;
        Some((self.timers.deadline(&first) - self.start).as_millis() as u64)
    }
}

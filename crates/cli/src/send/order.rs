//! Which of several flows leaves next: softtimers' departure queue, or the heap that programs keep.
//!
//! Both have one [`RateClock`](softtimers::RateClock) a flow and hand out the same datagrams at the same
//! times. `--timer soft` takes the queue, all others the heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use softtimers::pace::queue::{Departure, DepartureQueue, FlowConfig, FlowId, Popped, QueueConfig};
use softtimers::{PaceConfig, PaceError, RateClock, Timestamp};

/// A datagram whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Due {
    pub(super) flow: u32,
    pub(super) place: Timestamp,
    /// When it might have left at the earliest.
    pub(super) due: Timestamp,
    /// Places that the flow has given up so far.
    pub(super) forfeited: u64,
}

#[derive(Debug)]
pub(super) enum Order {
    /// Each flow always has its next datagram waiting, so it is never idle.
    Queue { queue: Box<DepartureQueue<u32>>, flows: Vec<FlowId>, bytes: u32 },
    /// Each flow is in it once, with the time at which it may go on.
    Heap { next: BinaryHeap<Reverse<(Timestamp, u32)>>, clocks: Vec<RateClock> },
}

impl Order {
    /// The departure queue, with no flows yet; all datagrams have so many bytes.
    pub(super) fn queue(bytes: u32) -> Self {
        let config = QueueConfig { packets: u32::MAX, ..QueueConfig::default() };
        Order::Queue { queue: Box::new(DepartureQueue::new(config)), flows: Vec::new(), bytes }
    }

    pub(super) fn heap() -> Self {
        Order::Heap { next: BinaryHeap::new(), clocks: Vec::new() }
    }

    /// Adds the next flow, whose first datagram is due at `start`.
    pub(super) fn add(&mut self, pace: PaceConfig, start: Timestamp) -> Result<(), PaceError> {
        match self {
            Order::Queue { queue, flows, bytes } => {
                let id = queue.add_flow(FlowConfig::new(pace))?;
                let number = flows.len() as u32;
                flows.push(id);
                let taken = queue.enqueue_at(Timestamp::ZERO, id, start, *bytes, number);
                debug_assert!(taken.is_ok(), "{taken:?}");
            }
            Order::Heap { next, clocks } => {
                let mut clock = RateClock::new(pace)?;
                next.push(Reverse((clock.start(start), clocks.len() as u32)));
                clocks.push(clock);
            }
        }
        Ok(())
    }

    /// When the next datagram may leave; `None` without flows.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        match self {
            Order::Queue { queue, .. } => queue.next_due(),
            Order::Heap { next, .. } => next.peek().map(|&Reverse((due, _))| due),
        }
    }

    /// Gives `leave` up to `most` datagrams that are due at `now`, the earliest first.
    ///
    /// # Cost
    /// O(log flows) for each, whichever it is.
    pub(super) fn take(&mut self, now: Timestamp, most: usize, mut leave: impl FnMut(Due)) -> io::Result<()> {
        match self {
            Order::Queue { queue, bytes, .. } => {
                let turn = queue.turn(now);
                for _ in 0..most {
                    let Some(popped) = queue.pop_due(&turn) else { break };
                    // Without a limit on the delay nothing expires.
                    let Popped::Departure(Departure { flow, token, place, due, .. }) = popped else {
                        continue;
                    };
                    queue.enqueue(now, flow, *bytes, token).map_err(io::Error::other)?;
                    let forfeited = queue.flow_stats(flow).map_or(0, |stats| stats.forfeited);
                    leave(Due { flow: token, place, due, forfeited });
                }
            }
            Order::Heap { next, clocks } => {
                for _ in 0..most {
                    let Some(mut first) = next.peek_mut().filter(|first| first.0.0 <= now) else { break };
                    let Reverse((due, flow)) = *first;
                    let clock = &mut clocks[flow as usize];
                    let place = clock.place();
                    first.0.0 = clock.departed(now);
                    leave(Due { flow, place, due, forfeited: clock.forfeited() });
                }
            }
        }
        Ok(())
    }

    /// Places in the schedules of all flows that were given up.
    pub(super) fn forfeited(&self) -> u64 {
        match self {
            Order::Queue { queue, flows, .. } => {
                flows.iter().filter_map(|&flow| queue.flow_stats(flow)).map(|stats| stats.forfeited).sum()
            }
            Order::Heap { clocks, .. } => clocks.iter().map(RateClock::forfeited).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use softtimers::{CatchUp, Rate};

    use super::*;

    /// The comparison is one of mechanisms: with the same stalls, the same datagrams leave at the same times.
    #[test]
    fn the_queue_and_the_heap_agree() {
        let pace = PaceConfig {
            catch_up: CatchUp::within(Duration::from_millis(5)),
            ..PaceConfig::new(Rate::every(Duration::from_millis(1)).unwrap())
        };
        let run = |mut order: Order| {
            for flow in 0..7 {
                order.add(pace, Timestamp::from_micros(1_000 + flow * 142)).unwrap();
            }
            let mut left = Vec::new();
            let mut now = Timestamp::from_micros(1_000);
            for step in 0..500u64 {
                order.take(now, 7, |due| left.push((now, due))).unwrap();
                // Mostly on time, now and then after a stall that is made up or given up.
                let pause = if step % 97 == 96 { 11_000 } else { step % 3 * 40 };
                now = order.next_due().unwrap().max(now) + Duration::from_micros(pause);
            }
            // Those that are due at the same time leave in either order, all of them in one turn.
            left.sort_by_key(|&(at, due)| (due.flow, at));
            (left, order.forfeited())
        };
        let (queue, heap) = (run(Order::queue(100)), run(Order::heap()));
        assert!(queue.1 > 0 && queue.0.len() > 500, "{} {}", queue.1, queue.0.len());
        assert_eq!(queue.0.iter().zip(&heap.0).find(|(queue, heap)| queue != heap), None);
        assert_eq!((queue.0.len(), queue.1), (heap.0.len(), heap.1));
    }
}

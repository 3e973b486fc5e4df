//! Which of several flows leaves next: by softtimers' departure queue, or by the heap that programs use.
//!
//! Both have one [`RateClock`](softtimers::RateClock) per flow and return the same datagrams at the same times, a
//! quantum of a flow at a time. `--timer soft` uses the queue, all others the heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use std::time::Duration;

use softtimers::queue::{Departure, DepartureQueue, FlowConfig, FlowId, Popped, Quantum, QueueConfig};
use softtimers::{PaceConfig, PaceError, RateClock, Timestamp, Trace};

/// A datagram that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Due {
    pub(super) flow: u32,
    pub(super) place: Timestamp,
    /// The earliest time at which it might have left.
    pub(super) due: Timestamp,
    /// The length, if a recording gives one.
    pub(super) length: Option<u16>,
    /// Scheduled times that the flow has skipped so far.
    pub(super) forfeited: u64,
}

#[derive(Debug)]
pub(super) enum Order {
    /// Each flow always has its next datagram waiting, so it is never idle; and if several may leave together, the one
    /// after it.
    Queue { queue: Box<DepartureQueue<u32>>, flows: Vec<FlowId>, bytes: u32, quantum: u32 },
    /// Each flow is in it once, with the time at which it may go on.
    Heap { next: BinaryHeap<Reverse<(Timestamp, u32)>>, clocks: Vec<RateClock>, quantum: u32 },
}

impl Order {
    /// Creates the departure queue without flows; all datagrams have `bytes` bytes, `quantum` of a flow leave together, and
    /// they are collected once in a [slot](QueueConfig::slot).
    pub(super) fn queue(bytes: u32, quantum: u32, slot: Duration) -> Self {
        let config = QueueConfig { packets: u32::MAX, slot, ..QueueConfig::default() };
        Order::Queue { queue: Box::new(DepartureQueue::new(config)), flows: Vec::new(), bytes, quantum }
    }

    pub(super) fn heap(quantum: u32) -> Self {
        Order::Heap { next: BinaryHeap::new(), clocks: Vec::new(), quantum }
    }

    /// Adds the next flow, whose first datagram is due at `start`. A heap may follow a recording.
    pub(super) fn add(
        &mut self,
        pace: PaceConfig,
        trace: Option<&Trace>,
        start: Timestamp,
    ) -> Result<(), PaceError> {
        match self {
            Order::Queue { queue, flows, bytes, quantum } => {
                let together = Quantum { packets: *quantum, ..Quantum::within(Duration::MAX) };
                let id = queue.add_flow(FlowConfig { quantum: together, ..FlowConfig::new(pace) })?;
                let number = flows.len() as u32;
                flows.push(id);
                for _ in 0..(*quantum).min(2) {
                    let taken = queue.enqueue_at(Timestamp::ZERO, id, start, *bytes, number);
                    debug_assert!(taken.is_ok(), "{taken:?}");
                }
            }
            Order::Heap { next, clocks, .. } => {
                let mut clock = match trace {
                    Some(trace) => RateClock::replay(trace.clone(), pace)?,
                    None => RateClock::new(pace)?,
                };
                next.push(Reverse((clock.start(start), clocks.len() as u32)));
                clocks.push(clock);
            }
        }
        Ok(())
    }

    /// Returns when the next datagram may leave; `None` without flows.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        match self {
            Order::Queue { queue, .. } => queue.next_due(),
            Order::Heap { next, .. } => next.peek().map(|&Reverse((due, _))| due),
        }
    }

    /// Passes up to `most` datagrams due at `now` to `leave`, the earliest first. A quantum cut short by that limit
    /// ends there.
    ///
    /// # Cost
    /// For each datagram, O(1) amortised with the queue; O(log flows) with the heap.
    pub(super) fn take(&mut self, now: Timestamp, most: usize, mut leave: impl FnMut(Due)) -> io::Result<()> {
        match self {
            Order::Queue { queue, bytes, .. } => {
                let turn = queue.turn(now);
                let mut cut = false;
                for _ in 0..most {
                    let Some(popped) = queue.pop_due(&turn) else { break };
                    // Without a limit on the delay no packet expires.
                    let Popped::Departure(Departure { flow, token, place, due, more, .. }) = popped else {
                        continue;
                    };
                    queue.enqueue(now, flow, *bytes, token).map_err(io::Error::other)?;
                    let forfeited = queue.flow_stats(flow).map_or(0, |stats| stats.forfeited);
                    leave(Due { flow: token, place, due, length: None, forfeited });
                    cut = more;
                }
                if cut {
                    // Ends a turn that the last call left open.
                    let _ = queue.turn(now);
                }
            }
            Order::Heap { next, clocks, quantum } => {
                let mut left = u32::try_from(most).unwrap_or(u32::MAX);
                while left > 0 {
                    let Some(mut first) = next.peek_mut().filter(|first| first.0.0 <= now) else { break };
                    let Reverse((due, flow)) = *first;
                    let clock = &mut clocks[flow as usize];
                    let (place, length, together) = (clock.place(), clock.length(), left.min(*quantum));
                    first.0.0 = clock.departed_together(now, together, together);
                    let forfeited = clock.forfeited();
                    (0..together).for_each(|_| leave(Due { flow, place, due, length, forfeited }));
                    left -= together;
                }
            }
        }
        Ok(())
    }

    /// Returns the scheduled times of all flows that were skipped.
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
        let run = |mut order: Order, quantum: usize| {
            for flow in 0..7 {
                order.add(pace, None, Timestamp::from_micros(1_000 + flow * 142)).unwrap();
            }
            let mut left = Vec::new();
            let mut now = Timestamp::from_micros(1_000);
            for step in 0..500u64 {
                // Within a quantum the queue reports skipped times only at its end.
                let told = |due: Due| if quantum == 1 { due } else { Due { forfeited: 0, ..due } };
                order.take(now, 7 * quantum, |due| left.push((now, told(due)))).unwrap();
                // Mostly on time, now and then after a stall that is made up or skipped.
                let pause = if step % 97 == 96 { 31_000 } else { step % 3 * 40 };
                now = order.next_due().unwrap().max(now) + Duration::from_micros(pause);
            }
            // Those due at the same time leave in either order, all of them in one turn.
            left.sort_by_key(|&(at, due)| (due.flow, at));
            (left, order.forfeited())
        };
        for quantum in [1, 2, 3, 8] {
            let (queue, heap) = (Order::queue(100, quantum, Duration::ZERO), Order::heap(quantum));
            let (queue, heap) = (run(queue, quantum as usize), run(heap, quantum as usize));
            assert!(queue.1 > 0 && queue.0.len() > 500, "{quantum}: {} {}", queue.1, queue.0.len());
            assert_eq!(queue.0.iter().zip(&heap.0).find(|(queue, heap)| queue != heap), None, "{quantum}");
            assert_eq!((queue.0.len(), queue.1), (heap.0.len(), heap.1), "{quantum}");
        }
    }

    /// The remainder of a quantum that a turn, or the end of the run, cuts short leaves in the next one, after the gap
    /// of the part that left.
    #[test]
    fn a_quantum_that_is_cut_short_counts_as_what_left() {
        let at = Timestamp::from_micros;
        let pace = PaceConfig::new(Rate::every(Duration::from_micros(100)).unwrap());
        for mut order in [Order::queue(100, 8, Duration::ZERO), Order::heap(8)] {
            order.add(pace, None, at(1_000)).unwrap();
            let mut take = |now, most| {
                let mut left = Vec::new();
                order.take(at(now), most, |due| left.push((due.place, due.due))).unwrap();
                (left, order.next_due())
            };
            assert_eq!(take(1_000, 8), (vec![(at(1_000), at(1_000)); 8], Some(at(1_800))));
            assert_eq!(take(1_800, 3), (vec![(at(1_800), at(1_800)); 3], Some(at(2_100))));
            assert_eq!(take(2_100, 64), (vec![(at(2_100), at(2_100)); 8], Some(at(2_900))));
            assert_eq!(take(2_899, 64), (vec![], Some(at(2_900))));
        }
    }
}

//! A receive policy on HIP's simulated machine: [`receive`].

use std::time::Duration;

use softtimers_core::Trace;
use softtimers_poll::Policy;
use softtimers_poll::readings::Costs;

use crate::engine::arrivals;
use crate::engine::receiver::{Receiver, Timing};

/// The results of a run: the columns of HIP's Table 3.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Received {
    /// Packets taken, which are all.
    pub packets: u64,
    /// CPU time for each packet, in microseconds.
    pub overhead_us: f64,
    /// The mean time from an arrival to the end of the interrupt or poll that takes it, in microseconds.
    pub delay_us: f64,
    /// The longest such time.
    pub longest_delay: Duration,
    /// Interrupts.
    pub interrupts: u64,
    /// Polls, whether they found packets or not.
    pub polls: u64,
    /// Empty polls.
    pub unsuccessful: u64,
    /// Changes between interrupts and polls.
    pub switches: u64,
}

/// Receives all packets of a recording under a policy, on a machine with these costs, whose clock polls at
/// exactly the times that the policy asks for.
///
/// ```
/// use softtimers_core::{Timestamp, TraceBuilder};
/// use softtimers_poll::readings::Costs;
/// use softtimers_poll::Interrupts;
///
/// let mut packets = TraceBuilder::default();
/// (1..=10).for_each(|packet| packets.push(Timestamp::from_micros(100 * packet), 1_500));
/// let packets = packets.finish().expect("ten packets");
/// let received = softtimers_sim::receive(Interrupts, Costs::HIP, &packets);
/// assert_eq!((received.interrupts, received.overhead_us), (10, 5.5));
/// ```
///
/// # Panics
/// If polls cost nothing and the policy polls without a pause, because time would not pass.
pub fn receive<P: Policy>(policy: P, costs: Costs, packets: &Trace) -> Received {
    assert!(!costs.poll.is_zero(), "a poll that costs nothing: time would not pass");
    let stats = Receiver::new(policy, costs, Timing::Clock, arrivals::of_trace(packets)).run(|_, _| ()).0;
    Received {
        packets: stats.packets(),
        overhead_us: stats.overhead_us(),
        delay_us: stats.delay_us(),
        longest_delay: stats.longest_delay,
        interrupts: stats.interrupts,
        polls: stats.polls,
        unsuccessful: stats.unsuccessful,
        switches: stats.switches,
    }
}

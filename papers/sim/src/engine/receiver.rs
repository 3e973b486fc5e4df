//! A receiving device, and the CPU that takes packets from it: the simulator of HIP §6.
//!
//! Four events, in the paper's letters, and a policy of [`softtimers_poll`] that decides when the next
//! interrupt or poll (a *look*) is:
//!
//! ```text
//!   A      A A                 A           A packet arrives
//!   ├─ V_I + V(B) ─┤I          │
//!   └ an interrupt takes ──┘   │           I  an interrupt is over; what arrived during it was taken in it
//!     what arrives in it       ├───┤       Ps a poll begins, at a time the policy chose
//!                             Ps   Pf      Pf it is over: V_P + V(B), or V_P for nothing
//! ```
//!
//! A packet's delay is from its arrival to the end of the look that takes it, so it includes waiting in the
//! device. The overhead is the length of all looks, plus V_S for each change between interrupts and polls,
//! which delays no packet. At most two future events are pending, the next arrival and the next look, so
//! there is no event queue: the earlier of the two is next, and an arrival at exactly the time of a poll is
//! taken by it.

mod settling;
mod stats;
mod timing;

use std::iter::Peekable;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_poll::readings::Costs;
use softtimers_poll::{Look, Next, Policy};

use super::arrivals::Arrival;

pub(crate) use settling::Settling;
pub(crate) use stats::ReceiveStats;
pub(crate) use timing::Timing;

/// An event of the log, in the letters of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReceiverEvent {
    /// A: a packet arrives.
    Arrival,
    /// The beginning of an interrupt, which the paper omits because it is the time of the arrival.
    InterruptBegin,
    /// I: its end, with the number of packets taken.
    InterruptEnd(u32),
    /// P_s: the beginning of a poll.
    PollBegin,
    /// P_f: its end, with the number of packets taken.
    PollEnd(u32),
}

/// A device that receives the packets of a trace, under a policy.
#[derive(Debug)]
pub(crate) struct Receiver<P, I: Iterator<Item = Arrival>> {
    policy: P,
    costs: Costs,
    timing: Timing,
    arrivals: Peekable<I>,
    /// Packets that arrived and were not taken: their times, and their bytes in total.
    ring: Vec<Timestamp>,
    bytes: u64,
    now: Timestamp,
    armed: bool,
    /// Whether a look takes a packet that arrives as it ends.
    takes_at_end: bool,
    /// The number of packets that fit; unlimited if none.
    room: Option<usize>,
    account: ReceiveStats,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Interrupt,
    Poll,
}

impl<P: Policy, I: Iterator<Item = Arrival>> Receiver<P, I> {
    /// Begins at time zero; `arrivals` come in order of time.
    pub(crate) fn new(policy: P, costs: Costs, timing: Timing, arrivals: I) -> Self {
        let armed = policy.next() == Next::Armed;
        Receiver {
            policy,
            costs,
            timing,
            arrivals: arrivals.peekable(),
            ring: Vec::new(),
            bytes: 0,
            now: Timestamp::ZERO,
            armed,
            takes_at_end: false,
            room: None,
            account: ReceiveStats::default(),
        }
    }

    /// Sets whether a look takes a packet that arrives exactly at its end, which the paper does not state.
    pub(crate) fn takes_at_end(self, takes_at_end: bool) -> Self {
        Receiver { takes_at_end, ..self }
    }

    /// Sets how many packets fit into the device. A packet occupies its slot until the end of the look that
    /// takes it; one that arrives when all slots are occupied is lost unnoticed.
    pub(crate) fn with_room(self, room: Option<usize>) -> Self {
        Receiver { room, ..self }
    }

    /// Runs until the last packet has been taken; `watch` sees every event in order.
    ///
    /// # Cost
    /// O(1) for each packet and each look.
    pub(crate) fn run(mut self, mut watch: impl FnMut(Timestamp, ReceiverEvent)) -> (ReceiveStats, P) {
        while let Some((begin, by)) = self.next_look(&mut watch) {
            self.look(begin, by, &mut watch);
        }
        self.account.span = self.now.saturating_duration_since(Timestamp::ZERO);
        (self.account, self.policy)
    }

    /// Lets packets arrive until it is time for a look; `None` after the last packet.
    fn next_look(&mut self, watch: &mut impl FnMut(Timestamp, ReceiverEvent)) -> Option<(Timestamp, By)> {
        loop {
            let arrival = self.arrivals.peek().map(|arrival| arrival.at);
            if arrival.is_none() && self.ring.is_empty() {
                return None;
            }
            let look = self.planned(arrival);
            match (look, arrival) {
                (Some((time, _)), Some(arrival)) if arrival < time => self.arrive(watch),
                (None, _) => self.arrive(watch),
                (Some((time, By::Poll)), _) if self.passes_by(time) => self.now = time,
                (Some(look), _) => return Some(look),
            }
        }
    }

    /// Returns whether this is a trigger state at which the planned poll is not due yet.
    fn passes_by(&mut self, time: Timestamp) -> bool {
        matches!(self.policy.next(), Next::At(_)) && !self.timing.is_look(time)
    }

    /// Returns when the policy wants to look, as far as known before another packet arrives.
    fn planned(&mut self, arrival: Option<Timestamp>) -> Option<(Timestamp, By)> {
        match self.policy.next() {
            Next::Armed => self.ring.first().map(|_| (self.now, By::Interrupt)),
            Next::At(time) => Some((self.timing.poll(self.now, time, arrival), By::Poll)),
            Next::Now => {
                self.skip_empty(arrival);
                Some((self.now, By::Poll))
            }
            Next::Watched(longest) => self.watched(longest),
        }
    }

    /// The oldest packet is taken at a trigger state or by the watchdog.
    fn watched(&mut self, longest: Duration) -> Option<(Timestamp, By)> {
        let oldest = *self.ring.first()?;
        let passing = self.timing.passing_after(oldest);
        let bound = oldest + longest;
        Some(if passing <= bound { (passing, By::Poll) } else { (bound, By::Interrupt) })
    }

    /// Counts the empty polls until the next packet at once: a policy that polls continuously need not be
    /// asked each time.
    fn skip_empty(&mut self, arrival: Option<Timestamp>) {
        let Some(arrival) = arrival.filter(|_| self.timing.is_always() && self.ring.is_empty()) else {
            return;
        };
        let poll = self.costs.poll_period(0);
        let count = arrival.saturating_duration_since(self.now).as_nanos() / poll.as_nanos().max(1);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.account.empty_polls(count, poll);
        self.now += Duration::from_nanos(count.saturating_mul(poll.as_nanos() as u64));
    }

    fn arrive(&mut self, watch: &mut impl FnMut(Timestamp, ReceiverEvent)) {
        let Some(Arrival { at: time, bytes }) = self.arrivals.next() else { return };
        if let Next::Watched(_) = self.policy.next() {
            let passed = self.timing.passed(self.now, time);
            self.account
                .empty_polls(if self.ring.is_empty() { passed } else { 0 }, self.costs.poll_period(0));
        }
        self.now = self.now.max(time);
        if self.room.is_some_and(|room| self.ring.len() >= room) {
            self.account.lost += 1;
            return;
        }
        self.ring.push(time);
        self.bytes += u64::from(bytes);
        watch(time, ReceiverEvent::Arrival);
        self.policy.arrived(time);
        self.note_mode();
    }

    fn look(&mut self, begin: Timestamp, by: By, watch: &mut impl FnMut(Timestamp, ReceiverEvent)) {
        let begin = begin.max(self.now);
        watch(
            begin,
            if by == By::Interrupt { ReceiverEvent::InterruptBegin } else { ReceiverEvent::PollBegin },
        );
        let mut end = begin + self.period(by);
        let takes_at_end = self.takes_at_end;
        while self.arrivals.peek().is_some_and(|next| next.at < end || (takes_at_end && next.at == end)) {
            self.arrive(watch);
            end = begin + self.period(by);
        }
        self.now = end;
        self.account.bytes += self.bytes;
        self.bytes = 0;
        let found = u32::try_from(self.ring.len()).unwrap_or(u32::MAX);
        for arrival in self.ring.drain(..) {
            self.account.delay(end.saturating_duration_since(arrival));
        }
        self.account.look(end.saturating_duration_since(begin), found, by == By::Poll);
        watch(
            end,
            if by == By::Interrupt {
                ReceiverEvent::InterruptEnd(found)
            } else {
                ReceiverEvent::PollEnd(found)
            },
        );
        self.policy.looked(&Look { began: begin, ended: end, found });
        if self.timing.is_idle_between() {
            self.policy.idle(end);
        }
        self.timing.looked(end);
        self.note_mode();
    }

    /// V_I or V_P, plus V(B) of the packets taken so far.
    fn period(&self, by: By) -> Duration {
        match by {
            By::Interrupt => self.costs.interrupt_period(self.bytes),
            By::Poll => self.costs.poll_period(self.bytes),
        }
    }

    fn note_mode(&mut self) {
        let armed = self.policy.next() == Next::Armed;
        if armed != self.armed {
            self.armed = armed;
            self.account.switch(self.costs.switch);
        }
    }
}

//! The 4.2BSD model: the driver at device priority, IP below it, a queue between (§4.1, §6.3).
//!
//! ```text
//!   SPLIMP   interrupt, then packet, packet, … while the ring has any ─▶ ipintrq, 50
//!   IPL 0    IP's thread: input, output, transmitter; preempted by every packet that arrives
//!   SPLIMP   transmit interrupt: reclaim what was sent, load what waits
//! ```
//!
//! None of this is a policy of this library: it is what those replace.

use super::super::config::Consumer;
use super::{Packet, Router};
use crate::engine::device::Ring;

/// The state of the kernel's three pieces.
#[derive(Debug)]
pub(super) struct Interrupts {
    receive: Option<Receive>,
    transmit: Option<Transmit>,
    pub(super) ipintrq: Ring<Packet>,
    network: Option<Network>,
}

#[derive(Clone, Copy, Debug)]
enum Receive {
    Entry,
    Packet(Packet),
}

#[derive(Clone, Copy, Debug)]
enum Transmit {
    Entry,
    Reclaim,
}

#[derive(Clone, Copy, Debug)]
enum Network {
    Input(Packet),
    Queue(Packet),
    Output(Packet),
    Finish,
}

impl Interrupts {
    pub(super) fn new(ifq: u32) -> Self {
        Interrupts { receive: None, transmit: None, ipintrq: Ring::new(ifq), network: None }
    }

    /// The number of packets in processing.
    #[cfg(test)]
    pub(super) fn in_hand(&self) -> u64 {
        let network =
            matches!(self.network, Some(Network::Input(_) | Network::Queue(_) | Network::Output(_)));
        u64::from(matches!(self.receive, Some(Receive::Packet(_)))) + u64::from(network)
    }
}

impl Router {
    /// A packet is in the ring: raises an interrupt, unless its handler is already running.
    pub(super) fn receive_raised(&mut self) {
        if self.interrupts.receive.is_none() {
            self.interrupts.receive = Some(Receive::Entry);
            self.counters.interrupts += 1;
            self.cpu.give(self.tasks.receive, self.costs.interrupt);
        }
    }

    pub(super) fn receive_goes_on(&mut self) {
        let first = match self.interrupts.receive.take() {
            Some(Receive::Packet(packet)) => {
                self.interrupts.ipintrq.push(packet);
                if self.interrupts.network.is_none() {
                    self.next_of_ipintrq();
                }
                false
            }
            Some(Receive::Entry) => true,
            None => return,
        };
        if !first && !self.config.batching {
            // One packet for each interrupt; if there is another, its interrupt is pending.
            if !self.ring.is_empty() {
                self.receive_raised();
            }
            return;
        }
        if let Some(packet) = self.ring.pop() {
            self.interrupts.receive = Some(Receive::Packet(packet));
            self.cpu.give(self.tasks.receive, self.costs.receive);
        }
    }

    fn next_of_ipintrq(&mut self) {
        if let Some(packet) = self.interrupts.ipintrq.pop() {
            self.interrupts.network = Some(Network::Input(packet));
            self.cpu.give(self.tasks.network, self.costs.input);
        }
    }

    pub(super) fn network_goes_on(&mut self) {
        let through_process = self.config.consumer != Consumer::Kernel;
        let (next, work) = match self.interrupts.network.take() {
            Some(Network::Input(packet)) if through_process => (Network::Queue(packet), self.costs.queue),
            Some(Network::Input(packet)) => (Network::Output(packet), self.costs.output),
            Some(Network::Output(packet)) => {
                self.transmit(packet);
                (Network::Finish, self.costs.finish)
            }
            Some(Network::Queue(packet)) => {
                self.queued(packet);
                return self.next_of_ipintrq();
            }
            Some(Network::Finish) | None => return self.next_of_ipintrq(),
        };
        self.interrupts.network = Some(next);
        self.cpu.give(self.tasks.network, work);
    }

    /// A packet was sent: raises an interrupt, unless its handler is already running.
    pub(super) fn transmit_raised(&mut self) {
        if self.interrupts.transmit.is_none() {
            self.interrupts.transmit = Some(Transmit::Entry);
            self.counters.interrupts += 1;
            self.cpu.give(self.tasks.transmit, self.costs.transmit_interrupt);
        }
    }

    pub(super) fn transmit_goes_on(&mut self) {
        if let Some(Transmit::Reclaim) = self.interrupts.transmit.take() {
            self.output.reclaim(1);
        }
        if self.output.reclaimable() > 0 {
            self.interrupts.transmit = Some(Transmit::Reclaim);
            self.cpu.give(self.tasks.transmit, self.costs.transmit);
        } else {
            self.restart_output();
        }
    }
}

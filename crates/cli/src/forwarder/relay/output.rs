//! The datagrams waiting to leave at a side of the relay, grouped by client: [`Output`].
//!
//! ```text
//!   came     A1 B1 A2 C1 B2 ─▶ arranged  A1 A2 │ B1 B2 │ C1 ─▶ three sends instead of five
//! ```
//!
//! Each client's datagrams keep their order. Later datagrams are grouped separately and leave behind these, so that no
//! client's datagram waits for datagrams that others send later.

use std::collections::VecDeque;
use std::mem::replace;

use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::poller::Transmit;
use softtimers_net::udp::SendBatch;

use super::hop::{BATCH, Hop, LONGEST_DATAGRAM, Peer};
use crate::forwarder::volume::Volume;

/// Datagrams that wait to be sent.
#[derive(Debug)]
pub(crate) struct Output {
    pub(super) batch: SendBatch,
    /// The destination and the length of each datagram in the batch.
    hops: VecDeque<(Hop, usize)>,
    /// The number of first ones already grouped by client; later ones leave behind them.
    arranged: usize,
    /// Space for sorting, kept between turns.
    order: Vec<usize>,
    /// The arrival times of the datagrams that left in this turn.
    arrivals: Vec<Timestamp>,
    /// Times from arrival to departure since the last count, in nanoseconds.
    pub(super) latencies: Vec<u64>,
    /// Datagrams sent, and datagrams lost, since the last count.
    pub(super) sent: Volume,
    pub(super) failed: Volume,
}

impl Output {
    pub(super) fn new() -> Self {
        let mut batch = SendBatch::new(WAITING, LONGEST_DATAGRAM);
        // Adjacent datagrams of one length and destination pass through the kernel as one send; where it cannot, one by
        // one.
        batch.set_segmentation(true);
        Output {
            batch,
            hops: VecDeque::with_capacity(WAITING),
            arranged: 0,
            order: Vec::with_capacity(WAITING),
            arrivals: Vec::with_capacity(WAITING),
            latencies: Vec::with_capacity(WAITING),
            sent: Volume::default(),
            failed: Volume::default(),
        }
    }

    /// Returns how many of the first datagrams, at most `most`, leave by one socket, and its owner; `None` if none may
    /// leave.
    pub(super) fn run(&self, most: usize) -> Option<(Peer, usize)> {
        let first = self.hops.front().filter(|_| most > 0)?.0.peer;
        let run = match first {
            // All leave by the listening socket.
            Peer::Address(_) => self.hops.len(),
            Peer::Upstream(_) => self.hops.iter().take_while(|(hop, _)| hop.peer == first).count(),
        };
        Some((first, run.min(most)))
    }

    /// Groups the datagrams added since the last call by client.
    pub(super) fn arrange(&mut self) {
        let begin = replace(&mut self.arranged, self.hops.len());
        let peer = |hops: &VecDeque<(Hop, usize)>, at: usize| hops.get(at).map(|(hop, _)| hop.peer);
        if (begin..self.arranged).is_sorted_by_key(|at| peer(&self.hops, at)) {
            return;
        }
        self.order.clear();
        self.order.extend(begin..self.arranged);
        // A client's datagrams keep their order of arrival.
        self.order.sort_by_key(|&at| peer(&self.hops, at));
        // Follow each cycle of the permutation separately, so that each element moves only once.
        for start in begin..self.arranged {
            let mut to = start;
            loop {
                let from = replace(&mut self.order[to - begin], to);
                if from == start || from == to {
                    break;
                }
                self.hops.swap(to, from);
                self.batch.swap(to, from);
                to = from;
            }
        }
    }

    /// Says whether no datagram waits.
    pub(super) fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    /// Counts the first `sent` as sent; they have left the batch.
    pub(super) fn have_left(&mut self, sent: usize) {
        self.arranged = self.arranged.saturating_sub(sent);
        for (hop, length) in self.hops.drain(..sent.min(self.hops.len())) {
            self.sent.count(length);
            self.arrivals.extend(hop.arrived);
        }
    }

    /// Records the departure time of this turn's datagrams.
    pub(super) fn note_departures(&mut self) {
        if !self.arrivals.is_empty() {
            let now = Monotonic.now();
            let latency = |arrived| now.saturating_duration_since(arrived).as_nanos() as u64;
            self.latencies.extend(self.arrivals.drain(..).map(latency));
        }
    }

    /// Drops the first one, if there is one.
    pub(super) fn discard(&mut self) -> bool {
        let Some((_, length)) = self.hops.pop_front().filter(|_| self.batch.discard_first()) else {
            return false;
        };
        self.arranged = self.arranged.saturating_sub(1);
        self.failed.count(length);
        true
    }
}

impl Transmit for Output {
    type Address = Hop;

    fn queue(&mut self, bytes: &[u8], to: Option<Hop>) -> bool {
        let Some(hop) = to else { return false };
        let address = match hop.peer {
            Peer::Address(address) => Some(address),
            Peer::Upstream(_) => None,
        };
        let taken = self.batch.push(bytes, address).is_ok();
        if taken {
            self.hops.push_back((hop, bytes.len()));
        }
        taken
    }
}

/// Datagrams that may wait to be sent: four turns.
const WAITING: usize = 4 * BATCH;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    #[test]
    fn no_more_than_256_datagrams_wait_to_be_sent() {
        let mut output = Output::new();
        let to = Hop { peer: Peer::Address(SocketAddr::from(([127, 0, 0, 1], 9))), arrived: None };
        let taken = (0..1_000).take_while(|_| output.queue(b"datagram", Some(to))).count();
        assert_eq!(taken, 256);
    }

    fn address(client: u16) -> Hop {
        Hop { peer: Peer::Address(SocketAddr::from(([127, 0, 0, 1], client))), arrived: None }
    }

    /// Datagrams that wait, in the order in which they leave: client and number.
    fn waiting(output: &mut Output) -> Vec<(u16, u8)> {
        let mut bytes = Vec::new();
        output.batch.edit(|datagram| bytes.push(datagram[0]));
        assert_eq!(bytes.len(), output.hops.len());
        let client = |hop: &Hop| match hop.peer {
            Peer::Address(address) => address.port(),
            Peer::Upstream(_) => 0,
        };
        output.hops.iter().map(|(hop, _)| client(hop)).zip(bytes).collect()
    }

    proptest! {
        /// Turns of datagrams from some clients, and how many leave after each turn.
        #[test]
        fn clients_are_neighbours_within_a_turn_and_each_keeps_its_order(
            turns in prop::collection::vec((prop::collection::vec(1..5_u16, 0..40), 0..40_usize), 1..6)
        ) {
            let (mut output, mut number, mut left) = (Output::new(), 0_u8, Vec::new());
            for (clients, leave) in turns {
                let old = output.hops.len();
                for client in &clients {
                    prop_assert!(output.queue(&[number], Some(address(*client))));
                    number += 1;
                }
                let before = waiting(&mut output);
                output.arrange();
                let after = waiting(&mut output);
                prop_assert_eq!(&before[..old], &after[..old]);
                let mut runs: Vec<u16> = after[old..].iter().map(|(client, _)| *client).collect();
                runs.dedup();
                let mut once = clients.clone();
                once.sort_unstable();
                once.dedup();
                prop_assert_eq!(runs.len(), once.len());
                let leave = leave.min(after.len());
                (0..leave).for_each(|_| assert!(output.discard()));
                left.extend_from_slice(&after[..leave]);
            }
            left.extend(waiting(&mut output));
            prop_assert_eq!(left.len(), usize::from(number));
            for client in 1..5 {
                let numbers = left.iter().filter(|(of, _)| *of == client);
                prop_assert!(numbers.is_sorted());
            }
        }
    }

    /// A datagram left behind by a full socket stays ahead of all later ones.
    #[test]
    fn what_waits_is_not_overtaken() {
        let mut output = Output::new();
        [(9, 0), (8, 1)]
            .into_iter()
            .for_each(|(client, number)| assert!(output.queue(&[number], Some(address(client)))));
        output.arrange();
        [(7, 2), (9, 3), (7, 4)]
            .into_iter()
            .for_each(|(client, number)| assert!(output.queue(&[number], Some(address(client)))));
        output.arrange();
        assert_eq!(waiting(&mut output), [(8, 1), (9, 0), (7, 2), (7, 4), (9, 3)]);
    }
}

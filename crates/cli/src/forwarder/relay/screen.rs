//! Deciding about a datagram: [`Screen`], the handler of a relay.
//!
//! ```text
//!   from a client:  no loop? ─▶ rules ─▶ a client, or room for one? ─▶ its socket
//!   an answer:      may its client have it? ──────────────────────────▶ the listening socket
//! ```
//!
//! The checks run from the cheapest on, so a refused datagram costs no more than the check that refused it.

use std::cell::RefCell;
use std::mem::{replace, take};
use std::net::SocketAddr;
use std::rc::Rc;

use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::poller::{Outputs, Packet, Poller};
use softtimers_net::relay::{RelayStats, is_misdirected};
use softtimers_poll::{AnyPolicy, Quota, SourceId};

use super::hop::{Hop, Peer};
use super::side::Side;
use super::table::Table;
use crate::forwarder::engine::Handler;
use crate::forwarder::rules::{Action, Filter, Seen};
use crate::forwarder::stats::{ClientStats, Stats};
use crate::forwarder::volume::Volume;
use softtimers_load::mode::PollingPlan;

/// Decides about datagrams, and queues them at the other side.
#[derive(Debug)]
pub(crate) struct Screen {
    /// The clients, shared with both sides.
    table: Rc<RefCell<Table>>,
    /// The rules, if there are any.
    rules: Option<Filter>,
    /// The address that clients send to.
    local: SocketAddr,
    /// The address that their datagrams go to.
    upstream: SocketAddr,
    sides: [SourceId; 2],
    /// Datagrams received at each side and dropped.
    refused: [Volume; 2],
    /// Datagrams dropped for want of room at the output of each side.
    unsent: [Volume; 2],
    /// Datagrams that would have made a loop, or could not be answered.
    misdirected: u64,
    /// The counts of the table at the last check.
    known: RelayStats,
}

impl Screen {
    /// Creates a screen between the clients that send to `local` and the upstream.
    pub(crate) fn new(
        table: Rc<RefCell<Table>>,
        rules: Option<Filter>,
        local: SocketAddr,
        upstream: SocketAddr,
    ) -> Self {
        Screen {
            table,
            rules,
            local,
            upstream,
            sides: [0, 1].map(SourceId::from_index),
            refused: Default::default(),
            unsent: Default::default(),
            misdirected: 0,
            known: RelayStats::default(),
        }
    }

    fn up(&mut self, source: SocketAddr, length: usize, at: Timestamp) -> Option<(SourceId, Peer)> {
        if is_misdirected(source, self.upstream, self.local) {
            self.misdirected += 1;
            return None;
        }
        let seen = Seen::datagram(source, self.upstream, length, at);
        if self.rules.as_mut().is_some_and(|rules| rules.decide(&seen) == Action::Reject) {
            return None;
        }
        let client = self.table.borrow_mut().client_of(at, source, length)?;
        Some((self.sides[1], Peer::Upstream(client)))
    }
}

impl Handler for Screen {
    type Side = Side;
    const DOING: &'static str = "relaying";

    fn quota(looking: &PollingPlan) -> Quota {
        looking.quota()
    }

    fn handle(&mut self, packet: Packet<'_, Hop>, outputs: &mut Outputs<'_, Side>) {
        let arrived = packet.from.arrived;
        let at = arrived.unwrap_or_else(|| Monotonic.now());
        let way = match packet.from.peer {
            Peer::Address(source) => self.up(source, packet.bytes.len(), at),
            Peer::Upstream(client) => {
                // It counts as sent from here on: it leaves at the end of the turn, or is lost at the output.
                let to = self.table.borrow_mut().sessions.answer(at, client, packet.bytes.len());
                to.ok().map(|to| (self.sides[0], Peer::Address(to)))
            }
        };
        match way {
            Some((side, peer)) => {
                if !outputs.send(side, packet.bytes, Some(Hop { peer, arrived })) {
                    self.unsent[side.index()].count(packet.bytes.len());
                }
            }
            None => {
                self.refused[outputs.from().index()].count(packet.bytes.len());
                outputs.drop_by_rule();
            }
        }
    }

    fn filter(&mut self) -> Option<&mut Filter> {
        self.rules.as_mut()
    }

    fn fire(&mut self, now: Timestamp, _: &mut Poller<Side, AnyPolicy>) -> Option<Timestamp> {
        let sessions = &mut self.table.borrow_mut().sessions;
        sessions.expire(now);
        sessions.poll_at()
    }

    fn count(&mut self, stats: &mut Stats) {
        for (at, end) in stats.ends.iter_mut().enumerate() {
            end.dropped.rule += &take(&mut self.refused[at]);
            end.dropped.output += &take(&mut self.unsent[at]);
        }
        let now = *self.table.borrow().sessions.stats();
        let before = replace(&mut self.known, now);
        let withheld = |stats: &RelayStats| stats.withheld_budget + stats.withheld_rate;
        *stats.clients.get_or_insert_default() += &ClientStats {
            opened: now.opened - before.opened,
            expired: now.expired - before.expired,
            evicted: now.evicted - before.evicted,
            refused: now.no_socket - before.no_socket,
            withheld: withheld(&now) - withheld(&before),
            withheld_budget: now.withheld_budget - before.withheld_budget,
            withheld_rate: now.withheld_rate - before.withheld_rate,
            withheld_bytes: now.withheld_bytes - before.withheld_bytes,
            misdirected: take(&mut self.misdirected),
            upstream_refused: 0,
        };
    }
}

//! What becomes of a datagram: [`Screen`], the handler of a relay.
//!
//! ```text
//!   from a client:  no loop? ─▶ rules ─▶ a client, or room for one? ─▶ its socket
//!   an answer:      may its client have it? ──────────────────────────▶ the listening socket
//! ```
//!
//! The cheapest question comes first, and whatever is refused costs no more than it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use softtimers::poll::SourceId;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::poller::{Outputs, Packet};
use softtimers_wan::udp::is_misdirected;

use super::rules::{Action, Filter, Seen};
use super::side::{Hop, Peer, Side};
use super::table::Table;
use super::volume::Volume;

/// Decides about datagrams, and where they go.
#[derive(Debug)]
pub struct Screen {
    /// The clients.
    pub table: Rc<RefCell<Table>>,
    /// The rules, if there are any.
    pub rules: Option<Filter>,
    /// The address that clients send to.
    pub local: SocketAddr,
    /// Where their datagrams go.
    pub upstream: SocketAddr,
    /// The two sides.
    pub sides: [SourceId; 2],
    /// What came in at each and went no further.
    pub refused: [Volume; 2],
    /// What found no room to leave at each.
    pub unsent: [Volume; 2],
    /// Datagrams that a rule rejected.
    pub rejected: u64,
    /// Datagrams that would have made a loop, or could not be answered.
    pub misdirected: u64,
}

impl Screen {
    /// Queues a datagram where it belongs, or drops and counts it.
    pub fn take(&mut self, packet: &Packet<'_, Hop>, outputs: &mut Outputs<'_, Side>) {
        let arrived = packet.from.arrived;
        let at = arrived.unwrap_or_else(|| Monotonic.now());
        let way = match packet.from.peer {
            Peer::Address(source) => self.up(source, packet.bytes.len(), at),
            Peer::Upstream(client) => {
                // It counts as sent from here on: what waits leaves at the end of the turn, or is lost at the output.
                let to = self.table.borrow_mut().sessions.answer(at, client, packet.bytes.len());
                to.ok().map(|to| (self.sides[0], Peer::Address(to)))
            }
        };
        match way {
            // If there is no room, it is counted there.
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

    fn up(&mut self, source: SocketAddr, length: usize, at: Timestamp) -> Option<(SourceId, Peer)> {
        if is_misdirected(source, self.upstream, self.local) {
            self.misdirected += 1;
            return None;
        }
        let seen = Seen::datagram(source, self.upstream, length, at);
        if self.rules.as_mut().is_some_and(|rules| rules.decide(&seen) == Action::Reject) {
            self.rejected += 1;
            return None;
        }
        let client = self.table.borrow_mut().client_of(at, source, length)?;
        Some((self.sides[1], Peer::Upstream(client)))
    }
}

//! Where a datagram of the relay comes from or goes to: [`Hop`]; and how much is taken and kept at once.

use std::net::SocketAddr;

use softtimers::Timestamp;
use softtimers_net::relay::ClientId;

/// One end of a datagram's way through the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// The source or destination.
    pub(crate) peer: Peer,
    /// The time of arrival at the relay.
    pub(crate) arrived: Option<Timestamp>,
}

/// The other end of a datagram's way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Peer {
    /// The address of a client.
    Address(SocketAddr),
    /// The upstream, by the socket of this client.
    Upstream(ClientId),
}

/// Datagrams per receive.
pub(super) const BATCH: usize = 64;
/// No UDP datagram is longer, so none is cut off.
pub(super) const LONGEST_DATAGRAM: usize = 65_535;

//! The clients of a datagram relay, a table that strangers fill, and how much each may be answered.
//!
//! Each client gets a socket of its own towards the upstream, so that answers find back. What lies between is the relay's own
//! affair: a network path, or rules. **Open to anybody, it must not be a weapon:**
//!
//! | what | bound |
//! |---|---|
//! | clients, spoofed sources too | [`ClientLimits::most`]; beyond that who is new takes the place of who makes the least use of the relay |
//! | bytes and datagrams to a client | three times those that it has sent, for life |
//! | answers to a prefix | [`ClientLimits::answers_per_prefix`] |
//! | loops | what comes from the upstream's address or the relay's own [is refused](is_misdirected) |
//! | a client that has vanished | forgotten when it has sent nothing for [`ClientLimits::idle`], however much it is sent |
//!
//! Bytes and answers have no bound where addresses cannot be forged: on the loopback interface, and in the networks of
//! [`ClientLimits::trust`]. A download through a relay for strangers needs that trust, and so does a protocol that answers
//! one request by more than three datagrams, however small. All of it is counted: [`RelayStats`].
//!
//! [`Sessions`] has the table, the sockets and the timers; how a relay learns that a socket has something to be read is its own
//! affair.

mod answers;
mod clients;
mod config;
mod places;
mod sessions;

use std::net::SocketAddr;

pub use clients::ClientId;
pub use config::{ClientLimits, NotSent, RelayConfig, RelayStats};
pub use sessions::{Sessions, prepare};

/// Returns whether a packet from `source` makes a loop, or cannot be answered: it comes from the upstream's address,
/// from the relay's own, which is `local`, or from port 0.
pub fn is_misdirected(source: SocketAddr, upstream: SocketAddr, local: SocketAddr) -> bool {
    source.port() == 0 || is_same(source, upstream) || is_same_socket(source, local)
}

/// Says whether two addresses are one, in whatever form they are written.
fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
}

/// Returns whether a packet from or to `address` meets the socket that is bound to `local`.
pub fn is_same_socket(address: SocketAddr, local: SocketAddr) -> bool {
    let (ip, bound) = (address.ip().to_canonical(), local.ip().to_canonical());
    let here = ip.is_loopback() || ip.is_unspecified();
    address.port() == local.port() && (ip == bound || (bound.is_unspecified() && here))
}

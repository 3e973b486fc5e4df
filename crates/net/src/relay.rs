//! The clients of a datagram relay, an untrusted table of bounded size, and limits on answers to each.
//!
//! Each client gets its own socket towards the upstream, so that answers find their way back. The relay
//! itself decides what lies between: a network path, or rules. **Open to the world, it must not become an
//! amplifier:**
//!
//! | what | bound |
//! |---|---|
//! | clients, spoofed sources too | [`ClientLimits::most`]; beyond that a new client replaces the one that uses the relay least |
//! | bytes and datagrams to a client | at most three times those that it has sent in total |
//! | answers to a prefix | [`ClientLimits::answers_per_prefix`] |
//! | loops | packets from the upstream's address or the relay's own [are refused](is_misdirected) |
//! | a client that has vanished | forgotten when it has sent nothing for [`ClientLimits::idle`], however much is sent to it |
//!
//! Bytes and answers are not limited where addresses cannot be forged: on the loopback interface, and in the
//! networks of [`ClientLimits::trust`]. A download through an open relay needs that trust, and so does a
//! protocol that answers one request by more than three datagrams, however small. All of it is counted:
//! [`RelayStats`].
//!
//! [`Sessions`] has the table, the sockets and the timers; the relay itself waits for readable sockets.

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

/// Returns whether two addresses are equal, in either notation.
fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
}

/// Returns whether a packet from or to `address` belongs to the socket that is bound to `local`.
pub fn is_same_socket(address: SocketAddr, local: SocketAddr) -> bool {
    let (ip, bound) = (address.ip().to_canonical(), local.ip().to_canonical());
    let here = ip.is_loopback() || ip.is_unspecified();
    address.port() == local.port() && (ip == bound || (bound.is_unspecified() && here))
}

//! The path between real sockets: a UDP relay for any number of clients.
//!
//! ```text
//!   client a ──┐                  ┌─ socket of a ──┐
//!   client b ──┼▶ listen ▶ Wan up ┼─ socket of b ──┼▶ upstream
//!   client c ──┘        ◀ Wan down└─ socket of c ──┘
//! ```
//!
//! Each client gets a socket of its own towards the upstream, so that answers find back; all share the
//! path, as the users of one line do. The model is the one of the tests, with the clock of
//! [`EventLoop`](softtimers::EventLoop) for the time: a packet that comes in is offered with the time at which
//! the kernel has received it, and one whose time has come is sent.
//!
//! **Open to anybody, it must not be a weapon.** By default it listens on loopback. Elsewhere:
//!
//! | what | bound |
//! |---|---|
//! | clients, spoofed sources too | [`ClientLimits::most`]; beyond that who is new takes the place of who makes the least use of the relay |
//! | bytes and datagrams to a client | three times those that it has sent, for life |
//! | answers to a prefix | [`ClientLimits::answers_per_prefix`] |
//! | memory for packets | [`PathConfig::most_packets`](crate::PathConfig::most_packets) and bytes, each direction |
//! | loops | what comes from the upstream's address or the relay's own is refused |
//! | a client that has vanished | forgotten when it has sent nothing for [`ClientLimits::idle`], however much it is sent |
//!
//! Bytes and answers have no bound where addresses cannot be forged: on the loopback interface, and in the networks of
//! [`ClientLimits::trust`]. A download through a relay for strangers needs that trust, and so does a protocol that answers
//! one request by more than three datagrams, however small. All of it is counted: [`RelayStats`].
//!
//! A relay with another middle than a path takes the same bounds from [`softtimers_net::relay`].
//!
//! Marks of the queue are counted and not written into packets: a UDP socket does not pass them through.

mod relay;

pub use relay::Relay;
pub use softtimers_net::relay::{ClientLimits, NotSent, RelayConfig, RelayStats};

pub use crate::live::{Carried, Ended};

//! The path between real sockets: a UDP relay for any number of clients.
//!
//! ```text
//!   client a ──┐                  ┌─ socket of a ──┐
//!   client b ──┼▶ listen ▶ Wan up ┼─ socket of b ──┼▶ upstream
//!   client c ──┘        ◀ Wan down└─ socket of c ──┘
//! ```
//!
//! Each client gets its own socket towards the upstream, so that answers reach it; all share the path, as the users of
//! one line do. The model is the same as in tests, with the clock of [`EventLoop`](softtimers::EventLoop): a packet is
//! offered with the time at which the kernel received it, and sent when it is due.
//!
//! **A relay open to strangers must not amplify attacks.** By default it listens on loopback. Elsewhere:
//!
//! | what | limit |
//! |---|---|
//! | clients, spoofed sources too | [`ClientLimits::most`]; beyond that a new client replaces the one that makes the least use of the relay |
//! | bytes and datagrams to a client | at most three times those that it has sent in total |
//! | answers to a prefix | [`ClientLimits::answers_per_prefix`] |
//! | memory for packets | [`PathConfig::most_packets`](crate::PathConfig::most_packets) and bytes, each direction |
//! | loops | datagrams from the upstream's address or the relay's own are refused |
//! | a client that has vanished | forgotten when it has sent nothing for [`ClientLimits::idle`], whatever it is sent |
//!
//! Bytes and answers are unlimited where addresses cannot be forged: on the loopback interface, and in the networks of
//! [`ClientLimits::trust`]. A download through a relay for strangers needs that trust, and so does a protocol that
//! answers one request with more than three datagrams, however small. Everything withheld is counted: [`RelayStats`].
//!
//! A relay with something else than a path in the middle gets the same limits from [`softtimers_net::relay`].
//!
//! The queue's marks are counted, but not written into packets: a UDP socket does not pass them through.

mod relay;

pub use softtimers_net::relay::{ClientLimits, NotSent, RelayConfig, RelayStats};

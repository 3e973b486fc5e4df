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
//! | sources, spoofed ones too | [`ClientLimits::most`]; one that was never answered and has been silent gives way, the rest are refused |
//! | memory for packets | [`PathConfig::most_packets`](crate::PathConfig::most_packets) and bytes, each direction |
//! | answers to a source that may be spoofed | as many bytes as it has sent, until it has sent again after an answer |
//! | loops | what comes from the upstream's address or the relay's own is refused |
//! | a client that has vanished | forgotten when it has sent nothing for [`ClientLimits::idle`], however much it is sent |
//!
//! All of it is counted: [`RelayStats`].
//!
//! A relay with another middle than a path takes the same bounds: [`Clients`], [`is_misdirected`], [`connected`].
//!
//! Marks of the queue are counted and not written into packets: a UDP socket does not pass them through.

mod clients;
mod config;
mod relay;
mod sessions;

pub use clients::{ClientId, Clients, Full};
pub use config::{ClientLimits, RelayConfig, RelayStats};
pub use relay::{Relay, is_misdirected};
pub use sessions::{connected, prepare};

pub use crate::live::{Carried, Ended};

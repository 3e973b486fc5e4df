//! The path between TCP streams: a relay for many connections. **Delay, rate and stalls only.**
//!
//! ```text
//!   client a ══╗  bytes ┌──────── Wan up ────────┐  bytes  ╔══ upstream
//!   client b ══╬═══════▶│ queue ▐ link ▌ delay   │════════▶╬══ upstream
//!   client c ══╝        └────────────────────────┘         ╚══ upstream
//! ```
//!
//! Each connection is two: the client's ends here, and one to the upstream begins here. Bytes that TCP has acknowledged
//! cannot be missing, so there is no reordering or damage to emulate; and congestion control sees the short way to the
//! relay, not the path. For that, use [`interfaces`](crate::interfaces) and leave TCP to the kernel. This is
//! emulated correctly:
//!
//! - **Delay**: each byte arrives late by the path's delay, and so do the end of a stream, a reset, and the opening,
//!   which the upstream sees one delay after the client. The client's own handshake is with the relay and takes no
//!   time: an exchange over a new connection takes one round trip, not two.
//! - **Rate**: one link in each direction for all connections, which take turns. On a limited link bytes travel in
//!   segments of at most 1,448 bytes, each with [`PathConfig::overhead`](crate::PathConfig::overhead) on top.
//! - **Loss is a stall**: a segment that the path loses is sent again a round trip after it left the link, then after two,
//!   four, and so on; those behind it wait.
//! - **The queue**: when it is full, the relay does not drop but stops reading, and TCP stops the sender.
//!
//! Either direction may end before the other; a reset is passed on. The limits:
//!
//! | what | limit |
//! |---|---|
//! | connections | [`StreamConfig::most`]; further ones are reset |
//! | memory of a connection, each way | [`StreamConfig::window`], which also limits its rate to a window per delay |
//! | a client or server that does not read | holds at most a sixteenth of the window here |
//! | memory for what is under way | [`PathConfig::most_bytes`](crate::PathConfig::most_bytes), each direction |
//! | a connection on which nothing moves | reset on both sides after [`StreamConfig::idle`] |
//!
//! All of these are counted: [`StreamStats`].

mod config;
mod connection;
mod pipes;
mod relay;

pub use config::{StreamConfig, StreamStats};
pub(crate) use relay::ConnectionId;

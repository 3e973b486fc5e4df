//! The path between TCP streams: a relay for many connections. **Delay and rate only.**
//!
//! ```text
//!   client a ══╗  bytes ┌──────── Wan up ────────┐  bytes  ╔══ upstream
//!   client b ══╬═══════▶│ queue ▐ link ▌ delay   │════════▶╬══ upstream
//!   client c ══╝        └────────────────────────┘         ╚══ upstream
//! ```
//!
//! Each connection is two: the client's ends here, and one to the upstream begins here. What TCP has acknowledged
//! cannot be lost any more, so there is no loss, reordering or damage to emulate; and congestion control sees the
//! short way to the relay, not the path. For that, use [`interfaces`](crate::interfaces) and leave TCP to the
//! kernel. What is right here:
//!
//! - **Delay**: each byte arrives as much later as the path says, and so do the end of a stream, a reset, and the
//!   opening, which the upstream sees one delay after the client. The client's own handshake is with the relay
//!   and takes no time: an exchange over a new connection takes one round trip, not two.
//! - **Rate**: one link each way for all connections, which take turns at it. On a limited link bytes go as
//!   segments of at most 1,448, each with [`PathConfig::overhead`](crate::PathConfig::overhead) on top.
//! - **The queue**: what finds it full is not dropped but not read either, and TCP stops its sender.
//!
//! Either direction may end before the other; a reset is passed on. Bounds:
//!
//! | what | bound |
//! |---|---|
//! | connections | [`StreamLimits::most`]; further ones are reset |
//! | memory of a connection, each way | [`StreamLimits::window`], which also bounds its rate: a window each delay |
//! | who does not read | holds at most a sixteenth of the window here |
//! | memory for what is under way | [`PathConfig::most_bytes`](crate::PathConfig::most_bytes), each direction |
//! | a connection on which nothing moves | reset on both sides after [`StreamLimits::idle`] |
//!
//! All of it is counted: [`StreamStats`].

mod config;
mod connection;
mod relay;

pub use config::{StreamConfig, StreamLimits, StreamStats};
pub use relay::Relay;

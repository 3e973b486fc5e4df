//! The path between two interfaces, for any traffic that crosses them: unmodified kernel TCP. Needs `CAP_NET_RAW`.
//!
//! ```text
//!   host ── cable ── [ A ]──▶ up: queue ▐ link ▌ loss ─ delay ──▶[ B ] ── cable ── host
//!                    [ A ]◀── delay ─ loss ▌ link ▐ queue :down ◀─[ B ]
//! ```
//!
//! Every frame that arrives at one interface leaves by the other with unchanged addresses, so both sides see a cable.
//! Frames that the kernel has merged, or left incomplete for offloads, are first converted to their form on the wire
//! ([`Frame::on_the_wire`](softtimers_net::packet::Frame::on_the_wire)): the path sees frames no longer than the
//! sender's segments, and no offload has to be switched off.
//!
//! Lengths count from the destination's address to the end of the payload. A check sequence, preamble and gap
//! are 24 bytes more on a real Ethernet: [`PathConfig::overhead`](crate::PathConfig::overhead).
//!
//! **Safety: it must not cut anyone off.**
//!
//! | risk | guard |
//! |---|---|
//! | an interface with an address (link-local ones of IPv6 aside), with the default route, or in a bridge | refused unless [`BridgeConfig::take`]: this machine would answer, or forward, beside the path |
//! | a loop of cables between both | frames of the bridge's own that come back end it ([`Problem::Loop`]), before anything is carried and once a second while something is |
//! | memory | [`PathConfig::most_packets`](crate::PathConfig::most_packets) and bytes, in each direction |
//! | any kind of end | nothing was changed but promiscuous mode, which ends with the descriptor |
//!
//! The queue's marks are written into IPv4 and IPv6 packets with an ECN-capable transport (RFC 3168). Other packets
//! stay unmarked, and are not dropped instead.

mod beside;
mod bridge;
mod claimed;
mod mark;
mod only;
mod problem;

pub use bridge::{BridgeConfig, BridgeStats};
pub use claimed::Claimed;
pub use only::{Only, OnlyError};
pub use problem::Problem;

//! The path between two interfaces, for whatever crosses them: kernel TCP, unmodified. Needs `CAP_NET_RAW`.
//!
//! ```text
//!   host ── cable ── [ A ]──▶ up: queue ▐ link ▌ loss ─ delay ──▶[ B ] ── cable ── host
//!                    [ A ]◀── delay ─ loss ▌ link ▐ queue :down ◀─[ B ]
//! ```
//!
//! Every frame that arrives at one leaves by the other, addresses and all, so both sides think that they share a
//! cable. What the kernel has joined or left undone is first made what it would have been on the wire
//! ([`Frame::on_the_wire`](softtimers_net::packet::Frame::on_the_wire)): the path sees frames no longer than their
//! sender's segments, and neither side needs its offloads switched off.
//!
//! Lengths count from the destination's address to the end of the payload. A check sequence, preamble and gap
//! are 24 bytes more on a real Ethernet: [`PathConfig::overhead`](crate::PathConfig::overhead).
//!
//! **It must not lock anybody out.**
//!
//! | what | guard |
//! |---|---|
//! | an interface with an address (link-local ones of IPv6 aside), with the default route, or in a bridge | refused unless [`BridgeConfig::take`]: this machine would answer, or forward, beside the path |
//! | a loop of cables between both | frames of the bridge's own that come back end it ([`Problem::Loop`]), before anything is carried and once a second while something is |
//! | memory | [`PathConfig::most_packets`](crate::PathConfig::most_packets) and bytes, each direction |
//! | its end, however it comes | nothing was changed but promiscuous mode, which ends with the descriptor |
//!
//! Marks of the queue are written into IPv4 and IPv6 packets whose transport is capable of them (RFC 3168); into
//! others they are not, and these are not dropped instead.

mod bridge;
mod claimed;
mod mark;
mod problem;

pub use bridge::{Bridge, BridgeConfig, BridgeStats};
pub use claimed::Claimed;
pub use problem::Problem;

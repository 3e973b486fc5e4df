//! How a relay is set up, and what it counts.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use softtimers::LoopConfig;

/// How a [`Relay`](super::Relay) is set up.
#[derive(Clone, Copy, Debug)]
pub struct RelayConfig {
    /// Where clients send to; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Where their packets go.
    pub upstream: SocketAddr,
    /// Who may be a client, and for how long.
    pub clients: ClientLimits,
    /// What is asked of the kernel for the receive buffer of each socket, in bytes. It may grant less.
    pub recv_buffer: usize,
    /// The loop that waits.
    pub events: LoopConfig,
}

impl RelayConfig {
    /// From any free port of the loopback interface to `upstream`.
    pub fn to(upstream: SocketAddr) -> Self {
        RelayConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            upstream,
            clients: ClientLimits::default(),
            recv_buffer: 4 << 20,
            events: LoopConfig::default(),
        }
    }
}

/// Who may be a client, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// The most clients at once. Each takes a descriptor.
    pub most: u32,
    /// A client is forgotten when it has sent nothing for so long. What it is sent does not count (RFC 4787,
    /// REQ-6), or an upstream that streams would keep a vanished client for ever.
    pub idle: Duration,
    /// When there is no room, one that was never answered gives way if it has sent nothing for so long.
    pub grace: Duration,
    /// Until a client is confirmed, by sending again after an answer, it is answered with at most so many
    /// times the bytes that it has sent. Two packets sent blindly confirm as well: this bounds what one
    /// spoofed packet does, not what a stream of them does.
    pub unconfirmed_ratio: u32,
    /// Clients on the loopback interface count as confirmed: nobody outside can send with such an address.
    pub trust_loopback: bool,
}

impl Default for ClientLimits {
    /// 512 clients, which a common limit of 1,024 descriptors has room for; two minutes of silence, the least
    /// that RFC 4787, REQ-5, asks for; no amplification.
    fn default() -> Self {
        ClientLimits {
            most: 512,
            idle: Duration::from_secs(120),
            grace: Duration::from_secs(1),
            unconfirmed_ratio: 1,
            trust_loopback: true,
        }
    }
}

/// What a relay has done beside what its path counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RelayStats {
    /// Clients there are.
    pub clients: u32,
    /// Clients there have been. `opened == clients + expired + evicted`.
    pub opened: u64,
    /// Clients forgotten after their time.
    pub expired: u64,
    /// Clients that had to give way.
    pub evicted: u64,
    /// Packets of new sources for which there was no room.
    pub refused: u64,
    /// Packets from the upstream's address, the relay's own, or port 0.
    pub misdirected: u64,
    /// New clients for which the system gave no socket.
    pub no_socket: u64,
    /// Answers that were not sent because the client was not confirmed: see
    /// [`ClientLimits::unconfirmed_ratio`].
    pub withheld: u64,
    /// Packets whose client was gone when they arrived.
    pub stray: u64,
    /// Errors by which the upstream, or a host on the way, said that it is not there. Each is about an earlier
    /// packet, and lost nothing by itself.
    pub upstream_refused: u64,
    /// Packets that the kernel had no buffer for when they were sent.
    pub send_full: u64,
    /// Packets that could not be sent for another reason.
    pub send_failed: u64,
    /// Packets of clients that the kernel dropped because the relay did not read in time.
    pub recv_drops: u64,
}

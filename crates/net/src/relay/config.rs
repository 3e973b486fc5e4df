//! How a relay is set up, and what it counts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use softtimers::{LoopConfig, Rate};

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The address that clients send to; port 0 is any that is free.
    pub listen: SocketAddr,
    /// The address that their packets go to.
    pub upstream: SocketAddr,
    /// The limits on clients.
    pub clients: ClientLimits,
    /// The receive buffer that is asked of the kernel for each socket, in bytes. It may grant less.
    pub recv_buffer: usize,
    /// The loop that waits.
    pub events: LoopConfig,
    /// Called when an answer is withheld for the first time, to say so while it happens; [`RelayStats`] counts all.
    pub on_first_withheld: Option<fn(NotSent)>,
    /// Called with the upstream's address when it, or a host on the way, first says that it is not there.
    pub on_first_refused: Option<fn(SocketAddr)>,
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
            on_first_withheld: None,
            on_first_refused: None,
        }
    }
}

/// Why an answer was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NotSent {
    /// Its client is not there any more.
    Gone,
    /// The client with this address would have got too much for what it sent: [`ClientLimits::answer_ratio`].
    Budget(SocketAddr),
    /// The prefix of this client has got too many answers lately: [`ClientLimits::answers_per_prefix`].
    Rate(SocketAddr),
}

/// Limits on the clients of a relay: their number, their lifetime, and the answers to each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// The most clients at once; at least one. Each takes a descriptor.
    pub most: u32,
    /// A client is forgotten when it has sent nothing for so long. What it is sent does not count (RFC 4787,
    /// REQ-6), or an upstream that streams would keep a vanished client for ever.
    pub idle: Duration,
    /// A client that is not trusted is sent at most this multiple of the bytes, and of the datagrams, that it has
    /// sent, for life. Nothing that a client sends over UDP shows that it receives, so no packet of its lifts this.
    pub answer_ratio: u32,
    /// Clients that are not trusted and have neighbouring addresses are sent no more answers than this together: those
    /// in an IPv4 /24 or an IPv6 /56, which may be 100 ms ahead of the rate.
    pub answers_per_prefix: Rate,
    /// Networks whose addresses nobody elsewhere can send with. Their clients are sent all that comes for them.
    pub trust: Vec<IpNet>,
    /// Trusts the loopback interface as well: the kernel drops what comes from outside with such an address, unless
    /// `route_localnet` is set.
    pub trust_loopback: bool,
}

impl ClientLimits {
    /// Returns whether `ip` is trusted not to be forged.
    pub fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        (self.trust_loopback && ip.is_loopback()) || self.trust.iter().any(|network| network.contains(&ip))
    }
}

impl Default for ClientLimits {
    /// 512 clients, which a common limit of 1,024 descriptors has room for; two minutes of silence, the least that RFC
    /// 4787, REQ-5, asks for; three times the bytes, as RFC 9000, section 8.1, has it; 1,000 answers a second for a prefix,
    /// a line of 11 Mbit/s at the most; trust in the loopback interface alone.
    fn default() -> Self {
        ClientLimits {
            most: 512,
            idle: Duration::from_secs(120),
            answer_ratio: 3,
            answers_per_prefix: Rate::per_second(1_000).expect("neither zero nor beyond one a nanosecond"),
            trust: Vec::new(),
            trust_loopback: true,
        }
    }
}

/// Counters of a relay, beside those of its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RelayStats {
    /// Clients in the table now.
    pub clients: u32,
    /// Clients there have been. `opened == clients + expired + evicted`.
    pub opened: u64,
    /// Clients forgotten after their time.
    pub expired: u64,
    /// Clients that had to give way.
    pub evicted: u64,
    /// Packets from the upstream's address, the relay's own, or port 0.
    pub misdirected: u64,
    /// New clients for which the system gave no socket.
    pub no_socket: u64,
    /// Answers that were not sent because the client would have got too much for what it sent: see
    /// [`ClientLimits::answer_ratio`].
    pub withheld_budget: u64,
    /// Answers that were not sent because the client's prefix had got too many: see
    /// [`ClientLimits::answers_per_prefix`].
    pub withheld_rate: u64,
    /// Bytes of payload in the answers of both kinds.
    pub withheld_bytes: u64,
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

//! The settings and the counters of a relay.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use softtimers::{Idle, LoopConfig, Rate};

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The address that clients send to; port 0 is any that is free.
    pub listen: SocketAddr,
    /// The address that their packets go to.
    pub upstream: SocketAddr,
    /// The limits on clients.
    pub clients: ClientLimits,
    /// The receive buffer to request for each socket, in bytes. The kernel may grant less.
    pub recv_buffer: usize,
    /// The loop that waits; by default it polls for the last microseconds before a packet is due.
    pub events: LoopConfig,
    /// Called when an answer is withheld for the first time, to report it at once; [`RelayStats`] counts all.
    pub on_first_withheld: Option<fn(NotSent)>,
    /// Called with the upstream's address when it, or a host on the path, first reports it unreachable
    /// (ICMP).
    pub on_first_refused: Option<fn(SocketAddr)>,
}

impl RelayConfig {
    /// Returns the settings for a relay from any free port of the loopback interface to `upstream`.
    pub fn to(upstream: SocketAddr) -> Self {
        RelayConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            upstream,
            clients: ClientLimits::default(),
            recv_buffer: 4 << 20,
            events: LoopConfig { idle: Idle::hybrid(), ..LoopConfig::default() },
            on_first_withheld: None,
            on_first_refused: None,
        }
    }
}

/// Why an answer was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NotSent {
    /// Its client is gone.
    Gone,
    /// The client with this address would have received too much for its own traffic:
    /// [`ClientLimits::answer_ratio`].
    Budget(SocketAddr),
    /// The prefix of this client has got too many answers lately: [`ClientLimits::answers_per_prefix`].
    Rate(SocketAddr),
}

/// Limits on the clients of a relay: their number, their lifetime, and the answers to each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// The most clients at once; at least one. Each takes a descriptor.
    pub most: u32,
    /// A client is forgotten when it has sent nothing for this time. Traffic to it does not count (RFC 4787,
    /// REQ-6), or a streaming upstream would keep a vanished client for ever.
    pub idle: Duration,
    /// An untrusted client gets at most this multiple of the bytes and datagrams that it has sent in total.
    /// No packet over UDP proves that the client receives, so none lifts this limit.
    pub answer_ratio: u32,
    /// Untrusted clients with neighbouring addresses together get at most this rate of answers: those in an
    /// IPv4 /24 or an IPv6 /56, which may be 100 ms ahead of the rate.
    pub answers_per_prefix: Rate,
    /// Networks whose addresses cannot be forged from outside. Their clients get all answers.
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
    /// Returns the defaults: 512 clients, which fit the common limit of 1,024 descriptors; two minutes of
    /// silence, the minimum of RFC 4787, REQ-5; three times the bytes, as in RFC 9000, section 8.1; 1,000
    /// answers a second for a prefix, at most 11 Mbit/s; trust only in the loopback interface.
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
    /// Clients so far. `opened == clients + expired + evicted`.
    pub opened: u64,
    /// Clients forgotten after their time.
    pub expired: u64,
    /// Clients evicted for new ones.
    pub evicted: u64,
    /// Packets from the upstream's address, the relay's own, or port 0.
    pub misdirected: u64,
    /// New clients for which the system gave no socket.
    pub no_socket: u64,
    /// Answers that were not sent because the client would have received too much for its own traffic: see
    /// [`ClientLimits::answer_ratio`].
    pub withheld_budget: u64,
    /// Answers that were not sent because the client's prefix had got too many: see
    /// [`ClientLimits::answers_per_prefix`].
    pub withheld_rate: u64,
    /// Bytes of payload in the answers of both kinds.
    pub withheld_bytes: u64,
    /// Packets whose client was gone when they arrived.
    pub stray: u64,
    /// ICMP errors by which the upstream, or a host on the path, was reported unreachable. Each is about an
    /// earlier packet, and loses none itself.
    pub upstream_refused: u64,
    /// Packets for which the kernel had no send buffer.
    pub send_full: u64,
    /// Packets that could not be sent for another reason.
    pub send_failed: u64,
    /// Packets of clients that the kernel dropped because the relay did not read in time.
    pub recv_drops: u64,
}

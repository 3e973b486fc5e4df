//! A relay of streams: its settings and its counters.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use softtimers::{Idle, LoopConfig};

/// The settings of a [relay](crate::Relay::tcp).
#[derive(Clone, Copy, Debug)]
pub struct StreamConfig {
    /// The address that clients connect to; with port 0, any free port.
    pub listen: SocketAddr,
    /// The address that their streams go to.
    pub upstream: SocketAddr,
    /// The most connections at once, by default 480, which fit a common limit of 1,024 descriptors: each takes two.
    pub most: u32,
    /// A connection ends when no byte has moved on it, in either direction, for this time; by default two minutes.
    pub idle: Duration,
    /// The most bytes held of one direction of a connection, on the path and for a reader that is behind. No connection
    /// is faster than one window per delay: the default of 16 MiB is 1 Gbit/s over more than 100 ms.
    pub window: usize,
    /// The settings of the event loop; by default it polls for the last microseconds before something is due.
    pub events: LoopConfig,
    /// Ends a client's connection in order when the upstream refuses it, as proxies do, and not by a reset.
    pub ends_refused_in_order: bool,
    /// Called when a client first has to wait because the system has no descriptor for it.
    pub on_first_wait: Option<fn()>,
    /// Called with the upstream's address when it first refuses a connection.
    pub on_first_refused: Option<fn(SocketAddr)>,
}

impl StreamConfig {
    /// Relays from any free port of the loopback interface to `upstream`.
    pub fn to(upstream: SocketAddr) -> Self {
        StreamConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            upstream,
            most: 480,
            idle: Duration::from_secs(120),
            window: 16 << 20,
            events: LoopConfig { idle: Idle::hybrid(), ..LoopConfig::default() },
            ends_refused_in_order: false,
            on_first_wait: None,
            on_first_refused: None,
        }
    }
}

/// Counters of a relay, besides those of its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamStats {
    /// Connections that are open now.
    pub connections: u32,
    /// Connections opened so far. `opened == connections + closed + reset + expired`.
    pub opened: u64,
    /// Connections that both sides have ended.
    pub closed: u64,
    /// Connections reset by one side or a host on the way; also those that the upstream refused.
    pub reset: u64,
    /// Connections closed for inactivity.
    pub expired: u64,
    /// Connections for which there was no room; reset at once.
    pub refused: u64,
    /// Times that the system had not two descriptors for another connection, which then waited in the kernel's queue.
    pub no_socket: u64,
    /// Connections that the upstream refused.
    pub upstream_refused: u64,
    /// Pieces that the path had lost, and that were sent again.
    pub resent: u64,
    /// Pieces that arrived when their connection was gone.
    pub stray: u64,
}

//! The settings of a forwarder: [`Plan`], and those of one [between](InterfacePair) two interfaces.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use softtimers::Percent;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::packet::Interface;

use crate::forwarder::asks::CountsRequests;
use crate::forwarder::frames::headers::Mac;
use crate::forwarder::notify::Notify;
use crate::forwarder::rules::Rulebook;
use softtimers_load::mode::PollingPlan;

/// The settings of any forwarder.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Whether a relay polls the receive queue of its clients' interface, too.
    pub(crate) napi: bool,
    /// When to poll for packets, and how many to take at once.
    pub(crate) looking: PollingPlan,
    /// The share of a CPU that input may have.
    pub(crate) cpu_limit: Option<Percent>,
    /// The rules, which may change during the run.
    pub(crate) rules: Option<Arc<Rulebook>>,
    /// The longest time that the run lasts.
    pub(crate) duration: Option<Duration>,
    /// The most packets to receive at the first side.
    pub(crate) count: Option<u64>,
    /// Called with news for the user, such as that a loop was found; one line, without its end.
    pub(crate) notify: Notify,
}

/// A program's means of controlling a forwarder while it runs.
#[derive(Debug)]
pub(crate) struct Controls {
    /// Ends the run.
    pub(crate) interrupt: Interrupt,
    /// CountsRequests it for its counts.
    pub(crate) asks: Option<CountsRequests>,
}

/// Two interfaces, and how to forward between them.
#[derive(Clone, Debug)]
pub(crate) struct InterfacePair {
    /// Interfaces that no other program uses, as [`claim`](softtimers_net::packet::claim) checks.
    pub(crate) interfaces: [Interface; 2],
    /// The driver of both interfaces.
    pub(crate) driver: FrameDriver,
    /// Threads that forward, at least one.
    pub(crate) pollers: u32,
    /// The two sides of a router; without them, it is a cable.
    pub(crate) routed: Option<[LegPlan; 2]>,
}

/// The driver by which frames get from and to an interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum FrameDriver {
    /// AF_PACKET, which every interface has.
    #[default]
    Packet,
    /// AF_XDP, which bypasses the kernel's network stack.
    Xdp,
    /// A program in the kernel forwards packets that need no user-space work; others come by AF_PACKET.
    Tc,
    /// As [`Tc`](Self::Tc), and an XDP program in the interface's driver forwards complete frames before the kernel
    /// allocates buffers for them.
    XdpFast,
}

/// One side of a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LegPlan {
    /// The station that packets go to there.
    pub(crate) next_hop: Mac,
    /// The router's addresses there.
    pub(crate) addresses: Vec<IpAddr>,
}

impl FrameDriver {
    /// Returns whether programs in the kernel forward frames.
    pub(crate) fn is_fast(self) -> bool {
        matches!(self, FrameDriver::Tc | FrameDriver::XdpFast)
    }

    /// Returns its name: `packet`, `xdp`, `tc` or `xdp-fast`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FrameDriver::Packet => "packet",
            FrameDriver::Xdp => "xdp",
            FrameDriver::Tc => "tc",
            FrameDriver::XdpFast => "xdp-fast",
        }
    }
}

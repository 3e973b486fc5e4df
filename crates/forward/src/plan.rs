//! The settings of a forwarder: [`Plan`], and those of one [between](InterfacePair) two interfaces.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use softtimers::Percent;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::packet::Interface;

use crate::asks::CountsRequests;
use crate::frames::headers::Mac;
use crate::mode::PollingPlan;
use crate::notify::Notify;
use crate::rules::Rulebook;

/// The settings of any forwarder.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When to poll for packets, and how many to take at once.
    pub looking: PollingPlan,
    /// The share of a CPU that input may have.
    pub cpu_limit: Option<Percent>,
    /// The rules, which may change during the run.
    pub rules: Option<Arc<Rulebook>>,
    /// The longest time that the run lasts.
    pub duration: Option<Duration>,
    /// The most packets to receive at the first side.
    pub count: Option<u64>,
    /// Called with news for the user, such as that a loop was found; one line, without its end.
    pub notify: Notify,
}

/// A program's means of controlling a forwarder while it runs.
#[derive(Debug)]
pub struct Controls {
    /// Ends the run.
    pub interrupt: Interrupt,
    /// CountsRequests it for its counts.
    pub asks: Option<CountsRequests>,
}

/// Two interfaces, and how to forward between them.
#[derive(Clone, Debug)]
pub struct InterfacePair {
    /// Interfaces that no other program uses, as [`claim`](softtimers_net::packet::claim) checks.
    pub interfaces: [Interface; 2],
    /// The driver of both interfaces.
    pub driver: FrameDriver,
    /// Threads that forward, at least one.
    pub pollers: u32,
    /// The two sides of a router; without them, it is a cable.
    pub routed: Option<[LegPlan; 2]>,
}

/// The driver by which frames get from and to an interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FrameDriver {
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
pub struct LegPlan {
    /// The station that packets go to there.
    pub next_hop: Mac,
    /// The router's addresses there.
    pub addresses: Vec<IpAddr>,
}

impl FrameDriver {
    /// Returns whether programs in the kernel forward frames.
    pub fn is_fast(self) -> bool {
        matches!(self, FrameDriver::Tc | FrameDriver::XdpFast)
    }

    /// Returns its name: `packet`, `xdp`, `tc` or `xdp-fast`.
    pub fn name(self) -> &'static str {
        match self {
            FrameDriver::Packet => "packet",
            FrameDriver::Xdp => "xdp",
            FrameDriver::Tc => "tc",
            FrameDriver::XdpFast => "xdp-fast",
        }
    }
}

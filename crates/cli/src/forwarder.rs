//! Forwards packets from one side to another, stable under overload.
//!
//! A flood keeps most user-space forwarders busy with nothing but receiving. This one is driven by a
//! [`Poller`](softtimers_net::poller::Poller): each direction has a quota, each packet is finished before the next one
//! is taken, and excess packets stay in the ring or the receive buffer, where dropping them costs nothing.
//!
//! ```text
//!   clients ─▶ socket ─▶ [ rules ▸ clients ] ─▶ a socket for each client ─▶ upstream      without root
//!           ◀────────── [ 3 × what it sent; answers a prefix ] ◀──────────
//!
//!   A ◀═▶ ring ─▶ [ cable, or router ▸ rules ] ─▶ output ◀═▶ B                            two interfaces
//! ```
//!
//! A [`Plan`] holds the settings, a [`Forward`] runs them, and [`stats::Stats`] counts. [`CountsRequester`](asks::CountsRequester) reads the counts during the
//! run, [`Rulebook`] changes the rules.
//!
//! - `engine`: the loop; `workers`: several of them;
//! - `frames`: decisions about frames, without I/O; `rules`: which packets pass;
//! - `relay`: datagrams between sockets; `interfaces`: frames between interfaces;
//! - `stats`: the counts; `wake`: how other threads wake a sleeping poller.

mod asks;
mod engine;
mod frames;
mod interfaces;
mod notify;
mod plan;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod relay;
mod rules;
pub(crate) mod stats;
mod volume;
mod wake;
mod workers;

use std::fmt;
use std::io;

use softtimers_measure::failure::Failure;
use softtimers_net::relay::RelayConfig;
use softtimers_net::udp::UdpSocket;

use interfaces::Pollers;
use stats::SharedStats;

pub(crate) use asks::asks;
pub(crate) use frames::headers::Mac;
pub(crate) use interfaces::fast::FastRoute;
pub(crate) use plan::{Controls, FrameDriver, InterfacePair, LegPlan, Plan};
pub(crate) use rules::{Purpose, Quoting, Rulebook, Rules, parse_quoting};
pub(crate) use volume::Volume;

/// A forwarder ready to run.
pub(crate) struct Forward(Box<dyn Pollers>);

impl Forward {
    /// Relays datagrams between clients, which send to `sockets`, and the upstream of `config`. Each socket has a
    /// poller on a thread of its own; several sockets are [bound together](UdpSocket::bind_group).
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn relay(
        plan: &Plan,
        controls: Controls,
        sockets: Vec<UdpSocket>,
        config: RelayConfig,
    ) -> io::Result<Self> {
        relay::open(plan, controls, sockets, config).map(Forward)
    }

    /// Forwards frames between two interfaces.
    ///
    /// # Errors
    /// The system's error about an interface or its driver: `PermissionDenied` without the privilege.
    pub(crate) fn between(plan: &Plan, controls: Controls, between: InterfacePair) -> io::Result<Self> {
        interfaces::open(plan, controls, between, None).map(Forward)
    }

    /// Forwards frames between two interfaces, most of them in the kernel, by the route attached to them.
    ///
    /// # Errors
    /// As [`between`](Self::between).
    pub(crate) fn by_route(
        plan: &Plan,
        controls: Controls,
        between: InterfacePair,
        route: FastRoute,
    ) -> io::Result<Self> {
        interfaces::open(plan, controls, between, Some(route)).map(Forward)
    }

    /// Forwards until the plan's end or a signal.
    ///
    /// # Errors
    /// A check failure if the system fails meanwhile; the work done until then is counted.
    pub(crate) fn run(self, stats: &SharedStats) -> Result<(), Failure> {
        self.0.run(stats)
    }
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forward(…)")
    }
}

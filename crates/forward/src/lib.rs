//! Forwards packets from one side to another, stable under overload.
//!
//! A flood makes most forwarders of user space do nothing but receive. This one is driven by a
//! [`Poller`](softtimers_net::poller::Poller): a quota each way, each packet carried as far as it goes before the next one
//! is taken, and what is too much left in the ring or the receive buffer, where it costs nothing.
//!
//! ```text
//!   clients ─▶ socket ─▶ [ rules ▸ clients ] ─▶ a socket for each client ─▶ upstream      without root
//!           ◀────────── [ 3 × what it sent; answers a prefix ] ◀──────────
//!
//!   A ◀═▶ ring ─▶ [ cable, or router ▸ rules ] ─▶ output ◀═▶ B                            two interfaces
//! ```
//!
//! A [`Plan`] says how, a [`Forward`] does it, and [`Stats`] is what it has done. [`Asker`] asks for that while it runs,
//! [`Rulebook`] changes the rules meanwhile. [`overload`] is what the receivers of such a forwarder are measured with.
//!
//! - `engine`: the loop; `workers`: several of them; `mode`: when it looks;
//! - `frames`: what becomes of a frame, without I/O; `rules`: which packets pass;
//! - `relay`: datagrams between sockets; `interfaces`: frames between interfaces;
//! - `stats`: the one account; `wake`: how threads beside reach one that sleeps.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

mod asks;
mod engine;
mod frames;
mod interfaces;
mod mode;
mod notify;
pub mod overload;
mod plan;
#[doc(hidden)]
pub mod properties;
mod relay;
mod rules;
pub mod stats;
mod volume;
mod wake;
mod workers;

use std::fmt;
use std::io;

use softtimers_measure::failure::Failure;
use softtimers_net::relay::RelayConfig;
use softtimers_net::udp::UdpSocket;

use interfaces::Pollers;

pub use asks::{Asker, Asks, asks};
pub use frames::headers::Mac;
pub use interfaces::fast::FastRoute;
pub use mode::{Looking, Mode};
pub use notify::Notify;
pub use plan::{Between, Controls, FrameDriver, LegPlan, Plan};
pub use rules::{Problem, Purpose, Quoting, Rulebook, Rules, parse, parse_quoting};
pub use stats::{SharedStats, Stats};
pub use volume::Volume;

/// A forwarder that has all it needs, and has not begun.
pub struct Forward(Box<dyn Pollers>);

impl Forward {
    /// Relays datagrams between clients, which send to `sockets`, and the upstream of `config`: one poller for each socket, on a
    /// thread of its own. Several are [bound together](UdpSocket::bind_group).
    ///
    /// # Errors
    /// The system's error.
    pub fn relay(
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
    /// What the system says of an interface, or of its driver: `PermissionDenied` without the privilege.
    pub fn between(plan: &Plan, controls: Controls, between: Between) -> io::Result<Self> {
        interfaces::open(plan, controls, between, None).map(Forward)
    }

    /// Forwards frames between two interfaces, most of them in the kernel, by the route that was attached to them.
    ///
    /// # Errors
    /// As [`between`](Self::between).
    pub fn by_route(plan: &Plan, controls: Controls, between: Between, route: FastRoute) -> io::Result<Self> {
        interfaces::open(plan, controls, between, Some(route)).map(Forward)
    }

    /// Forwards until the plan's end or a signal.
    ///
    /// # Errors
    /// A check failure if the system fails meanwhile; what was done until then is counted.
    pub fn run(self, stats: &SharedStats) -> Result<(), Failure> {
        self.0.run(stats)
    }
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forward(…)")
    }
}

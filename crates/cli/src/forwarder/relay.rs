//! The relay of datagrams: two [sides](side) for an [`Engine`], one of the clients and one of the upstream, and a
//! [`Screen`] between them.
//!
//! ```text
//!   clients ─▶ the kernel's hash ─┬─▶ socket ─▶ engine ─▶ a socket for each of its clients ─▶ upstream
//!                                 └─▶ socket ─▶ engine ─▶ …                        each on a thread of its own
//! ```
//!
//! Pollers share no client: a client's datagrams always arrive at the same socket, and its answers at its own.

mod hop;
mod output;
mod screen;
mod side;
mod table;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::napi::NapiDevice;
use softtimers_net::relay::{RelayConfig, Sessions, prepare};
use softtimers_net::udp::UdpSocket;

use crate::forwarder::engine::{Engine, EngineParts};
use crate::forwarder::interfaces::Pollers;
use crate::forwarder::plan::{Controls, Plan};
use crate::forwarder::stats::SharedStats;
use crate::forwarder::workers::Workers;
use screen::Screen;
use side::Side;
use table::Table;

/// All pollers: the first one's engine, and what the others need to build theirs.
struct Shares {
    first: Engine<Screen>,
    others: Vec<Share>,
    plan: Plan,
    config: RelayConfig,
    interrupt: Interrupt,
}

/// One poller's device, and its clients.
struct Share {
    /// Made before the thread, so that drops until it begins are counted.
    device: NapiDevice,
    sessions: Sessions,
}

/// Opens a relay for clients that send to these sockets, at least one, which are [bound
/// together](UdpSocket::bind_group).
///
/// # Errors
/// The system's error.
pub(crate) fn open(
    plan: &Plan,
    controls: Controls,
    sockets: Vec<UdpSocket>,
    config: RelayConfig,
) -> io::Result<Box<dyn Pollers>> {
    sockets.iter().try_for_each(|socket| prepare(socket, &config))?;
    let sessions = Sessions::several(&config, sockets.len());
    let shares = sockets
        .into_iter()
        .zip(sessions)
        .map(|(socket, sessions)| Side::device(socket, plan.napi).map(|device| Share { device, sessions }));
    let mut others = shares.collect::<io::Result<Vec<_>>>()?;
    if others.is_empty() {
        return Err(io::Error::other("no sockets to relay between"));
    }
    let interrupt = controls.interrupt.share()?;
    let first = others.remove(0).engine(plan, EngineParts::first(plan, controls)?, &config)?;
    Ok(Box::new(Shares { first, others, plan: plan.clone(), config, interrupt }))
}

impl Share {
    fn engine(self, plan: &Plan, mut parts: EngineParts, config: &RelayConfig) -> io::Result<Engine<Screen>> {
        let (local, upstream) = (self.device.device().socket().local_addr()?, config.upstream);
        let table = Rc::new(RefCell::new(Table::new(self.sessions)?));
        let clients = Side::clients(self.device, parts.until.clone(), plan.notify);
        // Answers are not counted.
        let sides = [clients, Side::upstream(&table, parts.until.uncounted())?];
        let screen = Screen::new(table, parts.filter.take(), local, upstream);
        Engine::new(plan, parts, screen, sides)
    }
}

/// One thread for each socket; this one has the first.
impl Pollers for Shares {
    fn run(mut self: Box<Self>, stats: &SharedStats) -> Result<(), Failure> {
        let clash = |error| Failure::broke_off("listening for signals", &error);
        let mut workers = Workers::ended_by(self.interrupt.stop_handle().map_err(clash)?);
        for share in self.others.drain(..) {
            let interrupt = self.interrupt.share().map_err(clash)?;
            let stop = interrupt.stop_handle().map_err(clash)?;
            let (plan, config, mut account) = (self.plan.clone(), self.config.clone(), stats.account());
            workers.start(stop, move || {
                let engine = EngineParts::another(&plan, interrupt)
                    .and_then(|parts| share.engine(&plan, parts, &config))
                    .map_err(|error| Failure::broke_off("setting up the relay", &error));
                engine?.run(&mut account)
            })?;
        }
        let carried = self.first.run(&mut stats.account());
        carried.and(workers.end())
    }
}

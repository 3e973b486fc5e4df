//! The relay of datagrams: what an [`Engine`] needs to be one. Two [sides](super::side), of the clients and of the
//! upstream, and a [`Screen`] between.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use softtimers::Timestamp;
use softtimers::poll::SourceId;
use softtimers_net::poller::{Outputs, Packet, Poller};
use softtimers_net::udp::UdpSocket;
use softtimers_wan::live::is_same_socket;
use softtimers_wan::udp::{RelayConfig, prepare};

use super::engine::{Basis, Counted, Ends, Engine, Handler};
use super::mode::Looks;
use super::report::{Beside, ClientCounts, Findings, WayCounts};
use super::rules::Filter;
use super::screen::Screen;
use super::side::{Hop, Side};
use super::table::Table;
use super::volume::EndCounts;
use crate::address::bind_failure;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::ForwardPlan;

/// Listens, and is ready to relay.
///
/// # Errors
/// A usage failure if the address cannot be used, the rules are wrong or --to is the relay itself.
pub fn bind(
    plan: &ForwardPlan,
    config: RelayConfig,
    interrupt: Interrupt,
) -> Result<Engine<Screen>, Failure> {
    let mut basis = Basis::of(plan, interrupt)?;
    let socket = UdpSocket::bind(config.listen).map_err(|error| bind_failure(config.listen, &error))?;
    let broke_off = |error: io::Error| Failure::broke_off("setting up the relay", &error);
    let local = socket.local_addr().map_err(broke_off)?;
    if is_same_socket(config.upstream, local) {
        return Err(Failure::usage(format_args!("--to {}: is the relay itself", config.upstream)));
    }
    prepare(&socket, &config).map_err(broke_off)?;
    let upstream = config.upstream;
    let table = Rc::new(RefCell::new(Table::new(config).map_err(broke_off)?));
    // Answers are not counted.
    let always = Ends { count: None, ..basis.ends.clone() };
    let sides = [
        Side::clients(socket, basis.ends.clone()).map_err(broke_off)?,
        Side::upstream(&table, always).map_err(broke_off)?,
    ];
    let screen = Screen {
        table,
        rules: basis.filter.take(),
        local,
        upstream,
        sides: [0, 1].map(SourceId::from_index),
        refused: Default::default(),
        unsent: Default::default(),
        rejected: 0,
        misdirected: 0,
    };
    Engine::new(plan, basis, screen, sides).map_err(broke_off)
}

impl Handler for Screen {
    type Side = Side;
    const DOING: &'static str = "relaying";

    fn handle(&mut self, packet: Packet<'_, Hop>, outputs: &mut Outputs<'_, Side>) {
        self.take(&packet, outputs);
    }

    fn filter(&self) -> Option<&Filter> {
        self.rules.as_ref()
    }

    fn filter_mut(&mut self) -> Option<&mut Filter> {
        self.rules.as_mut()
    }

    fn fire(&mut self, now: Timestamp, _: &mut Poller<Side, Looks>) -> Option<Timestamp> {
        let sessions = &mut self.table.borrow_mut().sessions;
        sessions.expire(now);
        sessions.poll_at()
    }

    fn findings(&self, [clients, upstream]: [&Side; 2]) -> Findings {
        let refusals = clients.refusals() + upstream.refusals();
        let stats = self.table.borrow().sessions.clients.stats();
        Findings {
            up: WayCounts { received: clients.received(), sent: upstream.sent() },
            down: WayCounts { received: upstream.received(), sent: clients.sent() },
            ends: [("clients", clients), ("upstream", upstream)].map(|(name, side)| {
                let mut end = EndCounts { name: name.to_owned(), ..side.carried() };
                let at = usize::from(name == "upstream");
                end.dropped.rule = self.refused[at];
                end.dropped.output += self.unsent[at];
                end
            }),
            beside: Beside::Relay { clients: ClientCounts::of(&stats, self.misdirected, refusals) },
            rejected: self.rejected,
        }
    }
}

/// Where clients send to.
pub fn local_addr(engine: &Engine<Screen>) -> SocketAddr {
    engine.handler.local
}

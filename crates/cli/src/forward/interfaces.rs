//! Forwarding between two interfaces: what an [`Engine`] needs for that. Two [ports](port), and a [`Carrier`] between.
//!
//! ```text
//!   A: ring ─▶ Carrier ─▶ Forwarder: as it is, routed, answered, or dropped
//!                 └─▶ B: output, with a ledger of what waits there and since when
//! ```
//!
//! How both interfaces are meanwhile is followed by [links].

pub mod carrier;
pub mod links;
pub mod port;

use std::io::{self, ErrorKind};
use std::sync::Arc;

use softtimers_net::packet::Interface;
use softtimers_net::poller::{PacketConfig, PacketDevice, Spread, XdpConfig, XdpDevice};
use softtimers_wan::interfaces::{Problem, claim};

use super::crew::Crew;
use super::engine::{Basis, Ends, Engine};
use super::frames::Forwarder;
use super::frames::loops::Loops;
use super::frames::router::{Leg, Router};
use super::{ForwardConfig, carry, ender};
use crate::args::FrameDriver;
use crate::commands::wan::carrier::failure;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::{ForwardPlan, InterfacesConfig};
use carrier::Carrier;
use links::{LinkWatch, Links};
use port::{Port, Wire};

/// Forwards between two interfaces until the plan's end or a signal.
///
/// # Errors
/// As [`run`](super::run).
pub fn run(plan: &ForwardPlan, between: &InterfacesConfig, interrupt: Interrupt) -> Result<(), Failure> {
    let [a, b] = &between.names;
    let what = format!("forward {a} {b}");
    if a == b {
        return Err(Failure::usage(format_args!("{what}: twice the same interface")));
    }
    let claimed = |name: &str| claim(name, between.take).map_err(|problem| failure(&what, &problem));
    let interfaces = [claimed(a)?, claimed(b)?];
    let shares = between.pollers as usize;
    match between.driver {
        FrameDriver::Packet => {
            let opened = |interface: &Interface| {
                let mtu = interface.mtu() as usize;
                let config = PacketConfig {
                    max_frame: (mtu + HEADERS).clamp(LEAST_FRAME, LONGEST_FRAME),
                    // A router's frames are addressed to it.
                    promiscuous: between.routed.is_none(),
                    ..PacketConfig::default()
                };
                let devices = match shares {
                    1 => PacketDevice::open(interface, &config).map(|device| vec![device]),
                    _ => PacketDevice::sharded(interface, &config, Spread::Flow, shares),
                };
                devices.map_err(|error| failure(&what, &Problem::from(error)))
            };
            let devices = opened(&interfaces[0])?.into_iter().zip(opened(&interfaces[1])?);
            let devices = devices.map(|(a, b)| [a, b]).collect();
            start(plan, between, interrupt, interfaces, devices)
        }
        FrameDriver::Xdp => {
            let devices = XdpDevice::sharded(&interfaces, XdpConfig::default(), shares);
            let devices = devices.map_err(|error| refusal(&what, &error))?.into_iter();
            let devices = devices.filter_map(|share| share.try_into().ok()).collect();
            start(plan, between, interrupt, interfaces, devices)
        }
    }
}

/// One thread for each pair of devices; this one has the first.
fn start<D: Wire + Send + 'static>(
    plan: &ForwardPlan,
    between: &InterfacesConfig,
    interrupt: Interrupt,
    interfaces: [Interface; 2],
    devices: Vec<[D; 2]>,
) -> Result<(), Failure> {
    let ender = ender(&interrupt)?;
    let room = devices.first().and_then(|[a, _]| a.room());
    let watch = LinkWatch::begin(&interfaces, room)?;
    let links = Arc::clone(watch.links());
    let (plan, between) = (plan.clone(), between.clone());
    let setting = Arc::new(Setting { plan, between, interfaces, links, loops: Loops::new() });
    let (plan, between) = (&setting.plan, &setting.between);
    let mut devices = devices.into_iter();
    let own = devices.next().ok_or_else(|| Failure::check("no devices to forward between"))?;
    let clash = |error| Failure::broke_off("listening for signals", &error);
    let shared = interrupt.share().map_err(clash)?;
    // What is wrong with the rules, or an address, is found before there is anybody else.
    let engine = setting.engine(Basis::of(plan, interrupt)?, own)?;
    let book = engine.rules.as_ref().map(|rules| Arc::clone(rules.book()));
    let [a, b] = between.names.clone();
    let doing = if between.routed.is_some() { "routing" } else { "forwarding" };
    let words = format!("{doing} between {a} and {b}");
    let config = ForwardConfig {
        driver: between.driver.name(),
        listen: a,
        to: b,
        pollers: between.pollers,
        routed: Some(between.routed.is_some()),
        ..ForwardConfig::of(plan, engine.metrics.as_ref())
    };
    carry(plan, engine, &config, &words, ender, |engine, counter| {
        engine.crew = Crew::ended_by(shared.ender().map_err(clash)?);
        for devices in devices {
            let (setting, interrupt) = (Arc::clone(&setting), shared.share().map_err(clash)?);
            let (counter, book) = (counter.clone(), book.clone());
            engine.crew.start(interrupt.ender().map_err(clash)?, move |board| {
                let basis = Basis::another(&setting.plan, interrupt, book.as_deref())?;
                let mut engine = setting.engine(basis, devices)?;
                engine.board = Some(board.clone());
                counter.into_iter().for_each(|counter| engine.count_in(counter));
                engine.run()
            })?;
        }
        Ok(())
    })
}

/// What all threads begin with.
struct Setting {
    plan: ForwardPlan,
    between: InterfacesConfig,
    interfaces: [Interface; 2],
    links: Arc<Links>,
    loops: Loops,
}

impl Setting {
    fn engine<D: Wire>(&self, mut basis: Basis, [a, b]: [D; 2]) -> Result<Engine<Carrier<D>>, Failure> {
        let Setting { plan, between, interfaces, links, loops } = self;
        let mut forwarder = Forwarder::new([0, 1].map(|side| interfaces[side].mtu()));
        forwarder.rules = basis.filter.take();
        forwarder.router = between.routed.as_ref().map(|legs| {
            Router::new([0, 1].map(|side| Leg {
                mac: interfaces[side].hardware_address(),
                next_hop: legs[side].next_hop,
                mtu: interfaces[side].mtu(),
                addresses: legs[side].addresses.clone(),
                machine: Vec::new(),
            }))
        });
        let always = Ends { count: None, ..basis.ends.clone() };
        let ports = [Port::new(a, basis.ends.clone()), Port::new(b, always)];
        let carrier = Carrier::new(forwarder, &between.names, &ports, loops.clone(), Links::follow(links));
        let engine = Engine::new(plan, basis, carrier, ports);
        engine.map_err(|error: io::Error| Failure::broke_off("setting up the forwarder", &error))
    }
}

/// What the device refuses is told in its own words: another choice is wanted, or a privilege, or another kernel.
fn refusal(what: &str, error: &io::Error) -> Failure {
    let words = format_args!("{what}: --driver xdp: {error}");
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::ResourceBusy => Failure::usage(words),
        _ => Failure::not_possible(words),
    }
}

/// Ethernet's header and two tags.
const HEADERS: usize = 22;
/// What a ring's slots can be.
const LEAST_FRAME: usize = 64;
const LONGEST_FRAME: usize = 65_536;

//! Forwarding between two interfaces: two [ports](port) for an [`Engine`], and a [`Carrier`] between them.
//!
//! ```text
//!   A: ring ─▶ Carrier ─▶ Forwarder: as it is, routed, answered, or dropped
//!                 └─▶ B: output, with a ledger of what waits there and since when
//! ```
//!
//! The state of both interfaces is followed by [links]. Each of several pollers has an engine and a thread of its own.

mod carrier;
pub(crate) mod fast;
mod links;
mod port;

use std::io;
use std::sync::Arc;

use softtimers_bpf::FastTurns;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::packet::Interface;
use softtimers_net::poller::{PacketConfig, PacketDevice, XdpDevice};

use crate::forwarder::engine::{Engine, EngineParts};
use crate::forwarder::frames::Forwarder;
use crate::forwarder::frames::headers::HEADERS;
use crate::forwarder::frames::loops::Loops;
use crate::forwarder::frames::router::{Leg, Router};
use crate::forwarder::plan::{Controls, FrameDriver, InterfacePair, Plan};
use crate::forwarder::stats::SharedStats;
use crate::forwarder::workers::Workers;
use carrier::Carrier;
use fast::{FastRoute, FastWorker};
use links::{LinkWatch, Links};
use port::{Port, Wire};

/// Forwards between two interfaces until the plan's end or a signal.
pub(crate) trait Pollers {
    fn run(self: Box<Self>, stats: &SharedStats) -> Result<(), Failure>;
}

/// Opens both interfaces, ready to forward between them.
///
/// # Errors
/// The system's error about an interface or its driver.
pub(crate) fn open(
    plan: &Plan,
    controls: Controls,
    between: InterfacePair,
    mut route: Option<FastRoute>,
) -> io::Result<Box<dyn Pollers>> {
    let shares = between.pollers as usize;
    match between.driver {
        FrameDriver::Packet | FrameDriver::Tc | FrameDriver::XdpFast => {
            let opened = |interface: &Interface| {
                let mtu = interface.mtu() as usize;
                let config = PacketConfig {
                    max_frame: (mtu + HEADERS).clamp(LEAST_FRAME, LONGEST_FRAME),
                    // A router's frames are addressed to it.
                    promiscuous: between.routed.is_none(),
                    ..PacketConfig::default()
                };
                match shares {
                    1 => PacketDevice::open(interface, &config).map(|device| vec![device]),
                    _ => PacketDevice::sharded(interface, &config, shares),
                }
            };
            let devices = opened(&between.interfaces[0])?.into_iter().zip(opened(&between.interfaces[1])?);
            let devices: Vec<_> = devices.map(|(a, b)| [a, b]).collect();
            if let Some(route) = &mut route {
                devices
                    .iter()
                    .flatten()
                    .try_for_each(|device| route.filter(device))
                    .map_err(io::Error::other)?;
            }
            set_up(plan, controls, between, devices, route)
        }
        FrameDriver::Xdp => {
            let devices = XdpDevice::sharded(&between.interfaces, XdpDevice::ENTRIES, shares)?.into_iter();
            let devices = devices.filter_map(|share| share.try_into().ok()).collect();
            set_up(plan, controls, between, devices, None)
        }
    }
}

/// All pollers: the first one's engine, and what the others need to build theirs.
struct Shares<D: Wire> {
    first: Engine<Carrier<D>>,
    others: Vec<[D; 2]>,
    setting: Arc<Setting>,
    interrupt: Interrupt,
    /// Follows the interfaces until it is dropped.
    watch: LinkWatch,
    /// Forwards in the kernel.
    route: Option<FastWorker>,
}

/// The settings that all threads begin with.
struct Setting {
    plan: Plan,
    between: InterfacePair,
    links: Arc<Links>,
    loops: Loops,
    /// Tells the programs in the kernel that a poller has had a turn.
    turns: Option<FastTurns>,
}

fn set_up<D: Wire + Send + 'static>(
    plan: &Plan,
    controls: Controls,
    between: InterfacePair,
    devices: Vec<[D; 2]>,
    mut route: Option<FastRoute>,
) -> io::Result<Box<dyn Pollers>> {
    let turns = route.as_mut().map(FastRoute::turns).transpose().map_err(io::Error::other)?;
    let room = devices.first().and_then(|[a, _]| a.room());
    let watch = LinkWatch::open(&between.interfaces, room, plan.notify)?;
    let links = Arc::clone(watch.links());
    let interrupt = controls.interrupt.share()?;
    let route = route.map(|route| FastWorker::new(route, plan, &links, interrupt.share()?));
    let route = route.transpose()?;
    let setting = Arc::new(Setting { plan: plan.clone(), between, links, loops: Loops::new(), turns });
    let mut others = devices;
    if others.is_empty() {
        return Err(io::Error::other("no devices to forward between"));
    }
    let own = others.remove(0);
    let first = setting.engine(EngineParts::first(plan, controls)?, own, Carrier::first)?;
    Ok(Box::new(Shares { first, others, setting, interrupt, watch, route }))
}

/// One thread for each pair of devices; this one has the first.
impl<D: Wire + Send + 'static> Pollers for Shares<D> {
    fn run(mut self: Box<Self>, stats: &SharedStats) -> Result<(), Failure> {
        self.watch.begin().map_err(|error| Failure::broke_off("following the interfaces", &error))?;
        let clash = |error| Failure::broke_off("listening for signals", &error);
        let mut workers = Workers::ended_by(self.interrupt.stop_handle().map_err(clash)?);
        for devices in self.others.drain(..) {
            let (setting, interrupt) = (Arc::clone(&self.setting), self.interrupt.share().map_err(clash)?);
            let mut account = stats.account();
            workers.start(interrupt.stop_handle().map_err(clash)?, move || {
                let parts = EngineParts::another(&setting.plan, interrupt);
                let engine = parts.and_then(|parts| setting.engine(parts, devices, |carrier| carrier));
                let mut engine =
                    engine.map_err(|error| Failure::broke_off("setting up the forwarder", &error))?;
                engine.run(&mut account)
            })?;
        }
        if let Some(route) = self.route.take() {
            let mut account = stats.account();
            let stop = self.interrupt.stop_handle().map_err(clash)?;
            workers.start(stop, move || route.run(&mut account))?;
        }
        let carried = self.first.run(&mut stats.account());
        carried.and(workers.end())
    }
}

impl Setting {
    fn engine<D: Wire>(
        &self,
        mut parts: EngineParts,
        [a, b]: [D; 2],
        place: impl FnOnce(Carrier<D>) -> Carrier<D>,
    ) -> io::Result<Engine<Carrier<D>>> {
        let Setting { plan, between, links, loops, turns } = self;
        let InterfacePair { interfaces, routed, .. } = between;
        let mut forwarder = Forwarder::new([0, 1].map(|side| interfaces[side].mtu()));
        forwarder.rules = parts.filter.take();
        forwarder.router = routed.as_ref().map(|legs| {
            Router::new([0, 1].map(|side| Leg {
                mac: interfaces[side].hardware_address(),
                next_hop: legs[side].next_hop,
                mtu: interfaces[side].mtu(),
                addresses: legs[side].addresses.clone(),
                machine: Vec::new(),
            }))
        });
        let turns = || turns.as_ref().map(FastTurns::another).transpose().map_err(io::Error::other);
        let ports =
            [Port::new(a, parts.until.clone(), turns()?), Port::new(b, parts.until.uncounted(), turns()?)];
        let names = interfaces.each_ref().map(|interface| interface.name().to_owned());
        let carrier =
            Carrier::new(forwarder, names, &ports, loops.clone(), Links::follow(links), plan.notify);
        Engine::new(plan, parts, place(carrier), ports)
    }
}

/// The shortest frames that a ring's slots can be sized for.
const LEAST_FRAME: usize = 64;
const LONGEST_FRAME: usize = 65_536;

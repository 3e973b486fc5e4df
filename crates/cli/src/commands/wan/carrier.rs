//! The ends of the path: [`Ends`], and the [`Carrier`] that joins them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use softtimers::{LoopStats, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_net::packet::ClaimError;
use softtimers_wan::interfaces::{Bridge, BridgeConfig, Claimed, Problem};
use softtimers_wan::tcp::{self, StreamConfig, StreamLimits};
use softtimers_wan::toxic::Dose;
use softtimers_wan::udp::{self, RelayConfig};
use softtimers_wan::{Backlog, Counters, Ended, Measured, PathConfig, PathError, Scenario, WanBuilder, Way};

use super::show::{ClientsReport, InterfacesReport, Kind, WanConfig};
use crate::address::bind_failure;
use crate::args::ClientArgs;
use crate::run::output::say;
use crate::withheld;

/// The ends of the path.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    /// Datagrams of many clients, and an upstream.
    Udp(RelayConfig),
    /// Streams of many clients, and an upstream.
    Tcp(StreamConfig),
    /// The path lies between two interfaces.
    Interfaces(BridgeConfig),
}

impl Ends {
    /// Checks that a path can lie between them.
    ///
    /// # Errors
    /// [`PathError`], which names the conflict.
    pub(crate) fn check(&self, path: &PathConfig) -> Result<(), PathError> {
        if let Ends::Tcp(_) = self { path.check_stream() } else { path.check() }
    }
}

/// Returns the settings of a relay of streams.
pub(super) fn streams(listen: SocketAddr, upstream: SocketAddr, clients: &ClientArgs) -> StreamConfig {
    let &ClientArgs { clients: most, client_timeout: idle, .. } = clients;
    let limits = StreamLimits { most, idle, ..StreamLimits::default() };
    let on_first_wait = Some(no_descriptors as fn());
    StreamConfig { listen, limits, on_first_wait, ..StreamConfig::to(upstream) }
}

/// Returns the settings of a relay of datagrams.
pub(super) fn datagrams(listen: SocketAddr, upstream: SocketAddr, clients: &ClientArgs) -> RelayConfig {
    let on_first_withheld = Some(withheld::tell as fn(_));
    let clients = clients.limits();
    RelayConfig { listen, clients, on_first_withheld, ..RelayConfig::to(upstream) }
}

/// Returns the header bytes of a packet beyond those offered: for TCP with time stamps, as most of it has.
pub(super) fn overhead(tcp: bool, upstream: SocketAddr) -> u32 {
    let network = if upstream.is_ipv4() { 20 } else { 40 };
    network + if tcp { 32 } else { 8 }
}

/// Reported once a run, since the clients that wait see neither a refusal nor an answer.
fn no_descriptors() {
    say(format_args!(
        "softtimers: no descriptor for another client, which waits until one ends; each takes two (ulimit -n)"
    ));
}

/// Carries packets, bytes or frames over a path.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// It carries datagrams.
    Udp(Box<udp::Relay>),
    /// It carries streams.
    Tcp(Box<tcp::Relay>),
    /// It carries frames.
    Interfaces(Box<Bridge>),
}

/// Calls the same method of any carrier.
macro_rules! each {
    ($carrier:expr, $it:ident => $what:expr) => {
        match $carrier {
            Carrier::Udp($it) => $what,
            Carrier::Tcp($it) => $what,
            Carrier::Interfaces($it) => $what,
        }
    };
}

impl Carrier {
    /// Opens both ends.
    ///
    /// # Errors
    /// A usage failure for an address or an interface that cannot be used, not-possible without the privilege.
    pub(crate) fn start(ends: &Ends, path: WanBuilder) -> Result<Self, Failure> {
        Ok(match ends {
            Ends::Udp(config) => Carrier::Udp(Box::new(
                udp::Relay::bind(config.clone(), path)
                    .map_err(|error| bind_failure(config.listen, &error))?,
            )),
            Ends::Tcp(config) => Carrier::Tcp(Box::new(
                tcp::Relay::bind(*config, path).map_err(|error| bind_failure(config.listen, &error))?,
            )),
            Ends::Interfaces(config) => Carrier::Interfaces(Box::new(
                Bridge::new(config, path).map_err(|problem| failure("--ifaces", &problem))?,
            )),
        })
    }

    /// Opens a bridge between interfaces claimed before, on behalf of the flag `what`.
    ///
    /// # Errors
    /// A usage failure if they are also joined elsewhere.
    pub(crate) fn between(claimed: Claimed, path: WanBuilder, what: &str) -> Result<Self, Failure> {
        let bridge = Bridge::between(claimed, path).map_err(|problem| failure(what, &problem))?;
        Ok(Carrier::Interfaces(Box::new(bridge)))
    }

    /// Makes [`run`](Self::run) return when a descriptor is readable.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn watch(&mut self, source: &impl AsFd, number: u32) -> io::Result<()> {
        each!(self, it => it.watch(source, number))
    }

    /// Stops watching it.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn unwatch(&mut self, source: &impl AsFd) -> io::Result<()> {
        each!(self, it => it.unwatch(source))
    }

    /// Carries until this time, or until a watched descriptor is readable.
    ///
    /// # Errors
    /// If it breaks off.
    pub(crate) fn run(&mut self, until: Option<Timestamp>) -> Result<Ended, Failure> {
        let broke_off = |error: io::Error| Failure::broke_off("relaying", &error);
        match self {
            Carrier::Udp(relay) => relay.run(until).map_err(broke_off),
            Carrier::Tcp(relay) => relay.run(until).map_err(broke_off),
            Carrier::Interfaces(bridge) => bridge.run(until).map_err(|problem| Failure::check(&problem)),
        }
    }

    /// Changes the path in one direction.
    ///
    /// # Errors
    /// [`PathError`]; then nothing changes.
    pub(crate) fn set(&mut self, way: Way, path: PathConfig) -> Result<(), PathError> {
        each!(self, it => it.set(way, path))
    }

    /// Starts a scenario now.
    ///
    /// # Errors
    /// [`PathError`]; then nothing changes.
    pub(crate) fn play(&mut self, scenario: &Scenario) -> Result<(), PathError> {
        each!(self, it => it.play(scenario))
    }

    /// Sets the toxics of one direction, if it carries streams.
    pub(crate) fn set_toxics(&mut self, way: Way, doses: Vec<Dose>) {
        if let Carrier::Tcp(relay) = self {
            relay.set_toxics(way, doses);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        each!(self, it => it.now())
    }

    /// Returns the current settings of a direction.
    pub(crate) fn path(&self, way: Way) -> PathConfig {
        each!(self, it => it.path(way))
    }

    /// Returns the counts of the packets offered.
    pub(crate) fn counters(&self, way: Way) -> Counters {
        each!(self, it => it.counters(way))
    }

    /// Returns the measurements of the packets that came out.
    pub(crate) fn measured(&self, way: Way) -> &Measured {
        each!(self, it => it.measured(way))
    }

    /// Returns the packets that wait for the link of a direction.
    pub(crate) fn backlog(&self, way: Way) -> Backlog {
        each!(self, it => it.backlog(way))
    }

    /// Returns the counters of the loop.
    pub(crate) fn loop_stats(&self) -> LoopStats {
        each!(self, it => it.loop_stats())
    }

    /// Returns the counts of clients; empty for interfaces.
    pub(crate) fn clients(&self) -> ClientsReport {
        match self {
            Carrier::Udp(relay) => relay.stats().into(),
            Carrier::Tcp(relay) => relay.stats().into(),
            Carrier::Interfaces(_) => ClientsReport::default(),
        }
    }

    /// Returns the counts of the interfaces, if it joins interfaces.
    pub(crate) fn interfaces(&self) -> Option<InterfacesReport> {
        if let Carrier::Interfaces(bridge) = self { Some(bridge.stats().into()) } else { None }
    }

    /// Returns the ends in use.
    pub(crate) fn config(&self, ends: &Ends) -> WanConfig {
        let (kind, listen, to, clients, timeout) = match (self, ends) {
            (Carrier::Udp(relay), Ends::Udp(config)) => {
                let (limits, to) = (&config.clients, config.upstream);
                (Kind::Udp, relay.local_addr().to_string(), to.to_string(), limits.most, Some(limits.idle))
            }
            (Carrier::Tcp(relay), Ends::Tcp(config)) => {
                let (limits, to) = (config.limits, config.upstream);
                (Kind::Tcp, relay.local_addr().to_string(), to.to_string(), limits.most, Some(limits.idle))
            }
            (_, Ends::Interfaces(config)) => {
                let [a, b] = config.interfaces.clone();
                (Kind::Interfaces, a, b, 0, None)
            }
            _ => return WanConfig::default(),
        };
        let believed = if let Ends::Udp(config) = ends { Some(&config.clients) } else { None };
        WanConfig {
            kind,
            listen,
            to,
            clients,
            client_timeout_s: timeout.map(|timeout| timeout.as_secs_f64()),
            trust: believed.iter().flat_map(|limits| &limits.trust).map(ToString::to_string).collect(),
            answers_per_prefix_pps: believed.map(|limits| limits.answers_per_prefix.packets_per_second()),
            scenario: None,
            duration_s: None,
        }
    }
}

/// Converts a problem with the interfaces of the flag `what` to a failure.
pub(crate) fn failure(what: &str, problem: &Problem) -> Failure {
    match problem {
        Problem::Privilege(_) => Failure::not_possible(format_args!("{what}: {problem}")),
        Problem::Interface(ClaimError::InUse { .. }) => Failure::usage(format_args!(
            "{what}: {problem}, so this machine uses it itself; --take allows that"
        )),
        Problem::Interface(ClaimError::Forwarded { .. }) => {
            Failure::usage(format_args!("{what}: {problem}, and two would duplicate every packet"))
        }
        Problem::Interface(_) => {
            Failure::usage(format_args!("{what}: {problem}; two Ethernet interfaces that are up are needed"))
        }
        Problem::Loop | Problem::Path(_) => Failure::usage(format_args!("{what}: {problem}")),
        _ => Failure::check(format_args!("{what}: {problem}")),
    }
}

//! The ends of the path: [`Ends`], and what a run does and reports differently between them.

use std::net::SocketAddr;

use softtimers::{Slice, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_net::packet::ClaimError;
use softtimers_wan::interfaces::{BridgeConfig, Problem};
use softtimers_wan::tcp::StreamConfig;
use softtimers_wan::udp::RelayConfig;
use softtimers_wan::{EdgeStats, Ended, PathConfig, PathError, Relay, WanBuilder};

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

    /// Opens both ends.
    ///
    /// # Errors
    /// A usage failure for an address or an interface that cannot be used, not-possible without the privilege.
    pub(crate) fn open(&self, path: WanBuilder) -> Result<Relay, Failure> {
        match self {
            Ends::Udp(config) => {
                Relay::udp(config.clone(), path).map_err(|error| bind_failure(config.listen, &error))
            }
            Ends::Tcp(config) => {
                Relay::tcp(*config, path).map_err(|error| bind_failure(config.listen, &error))
            }
            Ends::Interfaces(config) => {
                Relay::bridge(config, path).map_err(|problem| failure("--ifaces", &problem))
            }
        }
    }

    /// Returns the ends in use, once they are open.
    pub(crate) fn config(&self, relay: &Relay) -> WanConfig {
        let (kind, to, clients, idle) = match self {
            Ends::Udp(config) => (Kind::Udp, config.upstream, config.clients.most, config.clients.idle),
            Ends::Tcp(config) => (Kind::Tcp, config.upstream, config.most, config.idle),
            Ends::Interfaces(config) => {
                let [listen, to] = config.interfaces.clone();
                let coalesce_ns = u64::try_from(config.coalesce.as_nanos()).ok();
                let only = config.only.as_ref().map(ToString::to_string);
                return WanConfig {
                    kind: Kind::Interfaces,
                    listen,
                    to,
                    coalesce_ns,
                    only,
                    ..WanConfig::default()
                };
            }
        };
        let believed = if let Ends::Udp(config) = self { Some(&config.clients) } else { None };
        WanConfig {
            kind,
            listen: relay.local_addr().map(|address| address.to_string()).unwrap_or_default(),
            to: to.to_string(),
            clients,
            client_timeout_s: Some(idle.as_secs_f64()),
            trust: believed.iter().flat_map(|limits| &limits.trust).map(ToString::to_string).collect(),
            answers_per_prefix_pps: believed.map(|limits| limits.answers_per_prefix.packets_per_second()),
            ..WanConfig::default()
        }
    }
}

/// Returns the settings of a relay of streams.
pub(super) fn streams(listen: SocketAddr, upstream: SocketAddr, clients: &ClientArgs) -> StreamConfig {
    let &ClientArgs { clients: most, client_timeout: idle, .. } = clients;
    let on_first_wait = Some(no_descriptors as fn());
    StreamConfig { listen, most, idle, on_first_wait, ..StreamConfig::to(upstream) }
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

/// Asks the scheduler for the shortest slices as long as the result lives, so that a wake-up does not wait for the slice of
/// a program that computes. What is started meanwhile inherits them: the command must run before.
pub(crate) fn short_slices() -> Option<Slice> {
    // Where the scheduler has no such slices, wake-ups come when they come.
    Slice::hold(*Slice::ALLOWED.start()).ok()
}

/// Returns the counts of clients, and those of the interfaces.
pub(crate) fn reports(relay: &Relay) -> (ClientsReport, Option<InterfacesReport>) {
    match relay.stats() {
        EdgeStats::Udp(stats) => (stats.into(), None),
        EdgeStats::Tcp(stats) => (stats.into(), None),
        EdgeStats::Interfaces(stats) => (ClientsReport::default(), Some(stats.into())),
    }
}

/// Carries until this time, or until a watched descriptor is readable.
///
/// # Errors
/// If it breaks off.
pub(crate) fn carry(relay: &mut Relay, until: Option<Timestamp>) -> Result<Ended, Failure> {
    relay.run(until).map_err(|error| match Problem::from(error) {
        Problem::System(error) => Failure::broke_off("relaying", &error),
        problem => Failure::check(&problem),
    })
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

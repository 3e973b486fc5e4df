//! What the arguments of `wan` mean: [`WanPlan`], in which everything is looked up and checked.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use softtimers_measure::failure::Failure;
use softtimers_wan::inside;
use softtimers_wan::interfaces::BridgeConfig;
use softtimers_wan::tcp::StreamConfig;
use softtimers_wan::udp::RelayConfig;
use softtimers_wan::{Aqm, Bottleneck, Change, PathConfig, Queue, Way};

use super::args::WanArgs;
use super::ends::{Ends, datagrams, overhead, streams};
use super::profile::Profile;
use super::scenario::ScenarioFile;
use crate::address;
use crate::args::any_seed;
use crate::run::output::{Output, say};

/// A run of `wan`.
#[derive(Clone, Debug)]
pub(crate) struct WanPlan {
    /// The ends of the path, and the limits.
    pub(crate) ends: Ends,
    /// The path to the upstream, which is valid.
    pub(crate) up: PathConfig,
    /// The path back.
    pub(crate) down: PathConfig,
    /// Scheduled changes of the settings.
    pub(crate) scenario: Option<ScenarioFile>,
    /// The seed of everything random.
    pub(crate) seed: u64,
    /// The socket for changes.
    pub(crate) control: Option<PathBuf>,
    /// The longest time that the run lasts.
    pub(crate) duration: Option<Duration>,
    /// The command that runs behind the path.
    pub(crate) inside: Option<InsidePlan>,
    /// Whether a run whose own emulation was too late fails.
    pub(crate) strict: bool,
    /// The file for the object.
    pub(crate) summary: Option<PathBuf>,
    /// The file for the page.
    pub(crate) report: Option<PathBuf>,
    /// Whether these files may exist already.
    pub(crate) force: bool,
    pub(crate) output: Output,
}

impl WanPlan {
    /// Interprets the arguments of `wan`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &WanArgs) -> Result<Self, Failure> {
        check_stray(&args.stray)?;
        let (ends, overhead) = ends(args)?;
        let [up, down] = [Way::Up, Way::Down].map(|way| path(args, way, &ends, overhead));
        let (up, down) = (up?, down?);
        let scenario = args.scenario.as_ref().or(args.delays.as_ref());
        if let Some(file) = scenario {
            for (way, path) in [(Way::Up, &up), (Way::Down, &down)] {
                file.check(way, path, |path| ends.check(path)).map_err(Failure::usage)?;
            }
        }
        Ok(WanPlan {
            up,
            down,
            ends,
            scenario: scenario.cloned(),
            seed: args.seed.unwrap_or_else(any_seed),
            control: args.control.clone(),
            duration: args.duration,
            inside: (!args.command.is_empty()).then(|| InsidePlan {
                words: args.command.clone(),
                peer: args.peer.clone(),
                host_loopback: args.host_loopback,
            }),
            strict: args.strict,
            summary: args.summary.clone(),
            report: args.report.clone(),
            force: args.force,
            output: Output { stream: args.json_stream, ..Output::from(&args.output) },
        })
    }
}

/// Refuses words that belong behind a flag or behind `--`.
fn check_stray(words: &[String]) -> Result<(), Failure> {
    let Some(word) = words.first() else { return Ok(()) };
    let all = words.join(" ");
    Err(Failure::usage(match Profile::named(word) {
        Ok(_) => format!("{all}: --profile {word} sets that network"),
        Err(_) => format!("{all}: a command follows '--', as in: softtimers wan --rtt 80ms -- {all}"),
    }))
}

/// Returns the ends of the path, and the header bytes of a packet beyond those offered.
fn ends(args: &WanArgs) -> Result<(Ends, u32), Failure> {
    if !args.command.is_empty() {
        return Ok((Ends::Interfaces(bridge(args, inside::ENDS.map(str::to_owned), true)), 0));
    }
    if let Some(names) = &args.ifaces {
        let Ok(interfaces) = <[String; 2]>::try_from(names.clone()) else {
            let given = names.join(",");
            return Err(Failure::usage(format_args!("--ifaces {given}: two interfaces, such as eth1,eth2")));
        };
        return Ok((Ends::Interfaces(bridge(args, interfaces, false)), 0));
    }
    if let (None, _) | (_, None) = (&args.listen, &args.to) {
        let missing = match (&args.listen, &args.to) {
            (Some(_), None) => "--to is missing beside --listen",
            (None, Some(_)) => "--listen is missing beside --to",
            _ => "a path between what?",
        };
        return Err(Failure::usage(format_args!(
            "wan: {missing}; '-- CMD' runs a command behind the path, '--listen ADDR --to ADDR' relays between addresses, \
             '--ifaces A,B' joins interfaces, '--api ADDR' takes requests"
        )));
    }
    let given = |flag, address: &Option<String>| {
        address::resolve(address.as_deref().unwrap_or_default()).map_err(|refused| refused.about(flag))
    };
    let (listen, upstream) = (given("--listen", &args.listen)?, given("--to", &args.to)?);
    address::check_local(listen).map_err(|refused| refused.about("--listen"))?;
    if !args.public && !address::is_local(listen) {
        let message = format!("--listen {listen}: other machines could use it; --public allows that");
        return Err(Failure::usage(message));
    }
    address::check_destination(upstream).map_err(|refused| refused.about("--to"))?;
    address::check_route(upstream).map_err(|refused| refused.about("--to"))?;
    let on_first_refused = Some(nobody_listens as fn(_));
    let ends = if args.tcp {
        Ends::Tcp(StreamConfig { on_first_refused, ..streams(listen, upstream, &args.clients) })
    } else {
        Ends::Udp(RelayConfig { on_first_refused, ..datagrams(listen, upstream, &args.clients) })
    };
    Ok((ends, overhead(args.tcp, upstream)))
}

fn bridge(args: &WanArgs, interfaces: [String; 2], own: bool) -> BridgeConfig {
    let (take, coalesce, only) = (args.take, args.coalesce, args.only.clone());
    BridgeConfig { interfaces, take, own, coalesce, only }
}

/// Reported once a run, since a path without a server looks like one that loses everything.
fn nobody_listens(upstream: SocketAddr) {
    say(format_args!("softtimers: --to {upstream}: nobody listens there (the summary counts refusals)"));
}

fn path(args: &WanArgs, way: Way, ends: &Ends, overhead: u32) -> Result<PathConfig, Failure> {
    let path = path_of_settings(args, way, overhead);
    ends.check(&path).map_err(|error| Failure::usage(format_args!("the path {way}: {error}")))?;
    check_queue(args, way, &path)?;
    Ok(path)
}

/// Returns the initial path of each of several proxies; its headers depend on the proxy's ends.
pub(super) fn path_without_ends(args: &WanArgs, way: Way) -> Result<PathConfig, Failure> {
    let path = path_of_settings(args, way, 0);
    path.check().map_err(|error| Failure::usage(format_args!("the path {way}: {error}")))?;
    check_queue(args, way, &path)?;
    Ok(path)
}

/// Returns the `--overhead` of the command line.
pub(super) fn overhead_given(args: &WanArgs, way: Way) -> Option<u32> {
    let overhead = |(whose, change): &(Option<Way>, Change)| match change {
        Change::Overhead(bytes) if whose.is_none_or(|whose| whose == way) => Some(*bytes),
        _ => None,
    };
    args.path.changes.iter().rev().find_map(overhead)
}

fn path_of_settings(args: &WanArgs, way: Way, overhead: u32) -> PathConfig {
    let mut path = PathConfig::default().overhead(overhead);
    if let Some(profile) = args.profile {
        profile.apply(way, &mut path);
    }
    if let Some(rtt) = args.rtt {
        // Losing half a nanosecond is irrelevant.
        path.delay = rtt / 2;
    }
    for (whose, change) in &args.path.changes {
        if whose.is_none_or(|whose| whose == way) {
            change.apply(&mut path);
        }
    }
    path
}

fn check_queue(args: &WanArgs, way: Way, path: &PathConfig) -> Result<(), Failure> {
    // It may get a rate while it runs.
    if args.control.is_none()
        && args.scenario.is_none()
        && path.bottleneck == Bottleneck::NONE
        && (path.queue != Queue::default() || path.aqm != Aqm::DropTail || path.burst > 0)
    {
        return Err(Failure::usage(format_args!(
            "the path {way}: --queue, --aqm, --mark and --burst are about a bottleneck; --rate or --trace makes one"
        )));
    }
    Ok(())
}

/// The plan of a run with a command behind the path.
#[derive(Clone, Debug)]
pub(crate) struct InsidePlan {
    /// The command and its arguments; at least one word.
    pub(crate) words: Vec<OsString>,
    /// The shell command at the other end; without it the outside network is there.
    pub(crate) peer: Option<OsString>,
    /// Whether this machine's loopback is reachable under the name `host`.
    pub(crate) host_loopback: bool,
}

//! A forwarder, from its file of rules to its stats.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::CapabilitySet;

use crate::forwarder::stats::{PollingStats, RuleStats, SharedStats, Stats};
use crate::forwarder::{Controls, FastRoute, Forward, FrameDriver, InterfacePair, Plan, Purpose, asks};
use softtimers_measure::failure::Failure;
use softtimers_net::napi::Queue;
use softtimers_net::packet::{Interface, claim};
use softtimers_net::relay::is_same_socket;
use softtimers_net::udp::UdpSocket;
use softtimers_wan::interfaces::Problem;

use super::args::{Ends, ForwardPlan, InterfacesPlan, RelayPlan};
use super::exposition::exposition;
use super::metrics::Metrics;
use super::rule_file::RuleWatch;
use super::show::{ForwardConfig, header};

use crate::address::bind_failure;
use crate::commands::wan::ends::failure;
use crate::run::output::{Output, say};
use crate::run::privileges::paths::{Opens, directory_of};
use crate::run::privileges::user::as_caller;
use crate::run::privileges::{Confined, Needs, Rights};
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for ForwardPlan {
    type Config = ForwardConfig;
    type Report = Stats;
    // Both ends are most often programs on this machine.
    const DISTURBED_BY: Disturbance = Disturbance::Host;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> ForwardConfig {
        ForwardConfig::from_plan(self)
    }

    fn header(&self) -> String {
        header(&ForwardConfig::from_plan(self))
    }

    fn example(&self) -> Stats {
        let polling = PollingStats { polls: 1, ..PollingStats::default() };
        Stats { polling, span: Duration::from_secs(1), ..self.blank() }
    }

    /// Forwards until the plan's end or a signal.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<Stats>, Failure> {
        let interrupt = run.own_interrupt()?;
        let claimed = match &self.ends {
            Ends::Addresses(_) => None,
            Ends::Interfaces(between) => Some(claimed(between)?),
        };
        let mut rules = self.open_rules()?;
        let metrics = self.metrics.map(|address| {
            let problem = |error: io::Error| Failure::usage(format_args!("--metrics {address}: {error}"));
            Metrics::bind(address).map_err(problem)
        });
        let metrics = metrics.transpose()?;
        self.metrics = metrics.as_ref().map(Metrics::address);
        let broke_off = |error: io::Error| Failure::broke_off("setting up the forwarder", &error);
        let (asker, asks) = metrics.as_ref().map(|_| asks()).transpose().map_err(broke_off)?.unzip();
        let book = rules.as_ref().map(|rules| Arc::clone(rules.book()));
        let plan = Plan { rules: book, ..self.how.clone() };
        let controls = Controls { interrupt, asks };
        let (forward, doing, words) = match (&mut self.ends, claimed) {
            (Ends::Interfaces(between), Some(interfaces)) => {
                let forward = open(&plan, controls, between, interfaces)?;
                let doing = if between.routed.is_some() { "routing" } else { "forwarding" };
                (
                    forward,
                    "forwarding",
                    format!("{doing} between {} and {}", between.names[0], between.names[1]),
                )
            }
            (Ends::Addresses(relay), _) => {
                let forward = listen(&plan, controls, relay)?;
                (
                    forward,
                    "relaying",
                    format!("listening on {}, relaying to {}", relay.config.listen, relay.config.upstream),
                )
            }
            (Ends::Interfaces(_), None) => return Err(Failure::check("no interfaces")),
        };

        run.drop_privileges(self.needs())?;
        run.announce(&self.header());
        let stats = SharedStats::new(run.counter(self.blank())?, run.streams());
        rules.as_mut().map_or(Ok(()), RuleWatch::begin)?;
        say(format_args!("{words}"));
        if let Some((metrics, asker)) = metrics.zip(asker) {
            let (address, stats) = (metrics.address(), stats.clone());
            let serving = metrics.serve(move |reply| {
                let stats = stats.clone();
                asker.ask(move || {
                    let total = stats.total();
                    // The one who asked may have stopped waiting.
                    let _ = reply.send(Box::new(move || exposition(&total)));
                });
            });
            serving.map_err(broke_off)?;
            say(format_args!("metrics on http://{address}/metrics"));
        }
        let progress = run.begin(self, doing, self.how.duration);
        let carried = forward.run(&stats);
        drop(progress);
        Ok(Outcome { broke_off: carried.err(), ..Outcome::of(stats.total()) })
    }
}

impl ForwardPlan {
    /// Returns zero counts of everything that will be counted.
    fn blank(&self) -> Stats {
        let rules = self.rules.is_some().then(RuleStats::default);
        let stats = match &self.ends {
            Ends::Addresses(_) => Stats::of_relay(),
            Ends::Interfaces(between) => Stats::of_interfaces(&between.names),
        };
        Stats { rules, ..stats }
    }

    /// Says that it changes the maps of BPF programs while it runs.
    fn uses_bpf(&self) -> bool {
        matches!(&self.ends, Ends::Interfaces(between) if between.driver.is_fast())
    }

    /// Returns its needs while it runs: a queue's interrupts are deferred, and come back, again and again.
    fn needs(&self) -> Needs {
        let opens =
            Opens { reads: self.rules.as_deref().map_or_else(Vec::new, read_again), ..Opens::default() };
        let kept = if self.how.napi { CapabilitySet::NET_ADMIN } else { CapabilitySet::empty() };
        let confined = Confined { opens, uses_bpf: self.uses_bpf() };
        Needs { kept, ..Needs::confined(confined) }
    }

    fn open_rules(&self) -> Result<Option<RuleWatch>, Failure> {
        let purpose = match &self.ends {
            Ends::Interfaces(between) => Purpose { pollers: between.pollers, frames: true },
            Ends::Addresses(relay) => Purpose { pollers: relay.pollers, frames: false },
        };
        let rules = self.rules.as_deref().map(|path| RuleWatch::open(path, purpose)).transpose();
        rules.map_err(|problem| Failure::usage(format_args!("--rules {problem}")))
    }
}

/// Returns the directories in which rules are read again: that of their path, and that of the link's current target.
fn read_again(rules: &Path) -> Vec<PathBuf> {
    let real = as_caller(|| fs::canonicalize(rules)).ok();
    [Some(rules), real.as_deref()].into_iter().flatten().map(|path| directory_of(path).to_owned()).collect()
}

/// Listens for clients, and sets the relay's address to the one in use.
fn listen(plan: &Plan, controls: Controls, relay: &mut RelayPlan) -> Result<Forward, Failure> {
    let broke_off = |error: io::Error| Failure::broke_off("setting up the relay", &error);
    let RelayPlan { config, pollers } = relay;
    if plan.napi {
        Queue::any().map_err(|why| Failure::not_possible(format_args!("--driver napi: {why}")))?;
    }
    let sockets = UdpSocket::bind_group(config.listen, *pollers as usize)
        .map_err(|error| bind_failure(config.listen, &error))?;
    let first = sockets.first().map(UdpSocket::local_addr).transpose().map_err(broke_off)?;
    config.listen = first.unwrap_or(config.listen);
    if is_same_socket(config.upstream, config.listen) {
        return Err(Failure::usage(format_args!("--to {}: is the relay itself", config.upstream)));
    }
    Forward::relay(plan, controls, sockets, config.clone()).map_err(broke_off)
}

/// Claims both interfaces, if nothing else uses them.
fn claimed(between: &InterfacesPlan) -> Result<[Interface; 2], Failure> {
    let [a, b] = &between.names;
    let what = format!("forward {a} {b}");
    if a == b {
        return Err(Failure::usage(format_args!("{what}: twice the same interface")));
    }
    let claimed = |name: &str| claim(name, between.take).map_err(|error| failure(&what, &error.into()));
    Ok([claimed(a)?, claimed(b)?])
}

fn open(
    plan: &Plan,
    controls: Controls,
    between: &mut InterfacesPlan,
    interfaces: [Interface; 2],
) -> Result<Forward, Failure> {
    let what = format!("forward {} {}", between.names[0], between.names[1]);
    let InterfacesPlan { driver, pollers, ref routed, .. } = *between;
    let mut wanted = InterfacePair { interfaces, driver, pollers, routed: routed.clone() };
    let route = driver.is_fast().then(|| FastRoute::attach(plan, &wanted));
    let route = match route {
        Some(Err(why)) if between.auto => {
            say(format_args!("driver packet: {why}"));
            (between.driver, wanted.driver) = (FrameDriver::Packet, FrameDriver::Packet);
            None
        }
        Some(Err(why)) => {
            let words = format_args!("{what}: --driver {}: {why}", driver.name());
            return Err(match why.kind() {
                ErrorKind::ResourceBusy => Failure::usage(words),
                _ => Failure::not_possible(words),
            });
        }
        Some(Ok(route)) => {
            if between.auto {
                say(format_args!(
                    "driver tc: programs in the kernel forward packets that need no user-space work"
                ));
            }
            Some(route)
        }
        None => None,
    };
    let driver = wanted.driver;
    let forward = match route {
        Some(route) => Forward::by_route(plan, controls, wanted, route),
        None => Forward::between(plan, controls, wanted),
    };
    forward.map_err(|error| match driver {
        FrameDriver::Packet | FrameDriver::Tc | FrameDriver::XdpFast => failure(&what, &Problem::from(error)),
        // In the driver's own words, since it needs another driver, a privilege, or another kernel.
        FrameDriver::Xdp => {
            let words = format_args!("{what}: --driver xdp: {error}");
            match error.kind() {
                ErrorKind::InvalidInput | ErrorKind::ResourceBusy => Failure::usage(words),
                _ => Failure::not_possible(words),
            }
        }
    })
}

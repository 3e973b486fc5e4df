//! What carries the datagrams of `send`: a socket, or a program in the kernel.

use std::net::{SocketAddr, SocketAddrV4};

use clap::{Args, ValueEnum};
use softtimers_load::engines::Timer;
use softtimers_load::generate::{GenerateConfig, GeneratePlan, MacAddress};
use softtimers_load::pattern::SendPattern;
use softtimers_load::send::SendReport;
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;

use super::args::SendArgs;
use super::engine::{Busy, ClockName};
use crate::address;
use crate::run::output::Output;
use crate::run::{Command, Disturbance, Outcome, Run};

/// A driver, and what only the second one needs.
#[derive(Args, Debug, Clone)]
pub(crate) struct DriverArgs {
    /// What carries the datagrams: a socket, or a program in the kernel, out of one end of a virtual cable
    ///
    /// xdp reaches millions a second, to load a forwarder beyond its capacity. It takes one processor whole, needs
    /// --iface and --to-mac, CAP_BPF and CAP_NET_ADMIN, and at the cable's other end an XDP program or
    /// `ethtool -K PEER gro on`. No `softtimers recv` is asked.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) driver: Driver,

    /// The end of a virtual cable (veth) that the datagrams leave by (--driver xdp only)
    #[arg(long, value_name = "NAME")]
    pub(crate) iface: Option<String>,

    /// The Ethernet address that they go to: 02:00:00:00:00:01 (--driver xdp only)
    #[arg(long, value_name = "MAC")]
    pub(crate) to_mac: Option<MacAddress>,

    /// The Ethernet address that they come from (--driver xdp only) [default: that of --iface]
    #[arg(long, value_name = "MAC")]
    pub(crate) from_mac: Option<MacAddress>,

    /// The address that they come from (--driver xdp only) [default: that of --iface, or 198.18.0.1; port 9]
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) from: Option<SocketAddrV4>,
}

/// What carries the datagrams.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Driver {
    /// A UDP socket of this process
    #[default]
    Socket,
    /// An XDP program, run over live frames
    Xdp,
}

/// A run of `send --driver xdp`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Generate {
    plan: GeneratePlan,
    /// How to print the report.
    output: Output,
}

impl Generate {
    /// Understands the arguments of `send`, if they ask for this.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn of(args: &SendArgs) -> Result<Option<Self>, Failure> {
        let given = &args.driver;
        if given.driver == Driver::Socket {
            let flags = [
                ("--iface", given.iface.is_some()),
                ("--to-mac", given.to_mac.is_some()),
                ("--from-mac", given.from_mac.is_some()),
                ("--from", given.from.is_some()),
            ];
            return match flags.into_iter().find(|&(_, given)| given) {
                Some((flag, _)) => {
                    Err(Failure::usage(format_args!("{flag}: allowed with --driver xdp only")))
                }
                None => Ok(None),
            };
        }
        check_flags(args)?;
        for (flag, mac) in [("--to-mac", given.to_mac), ("--from-mac", given.from_mac)] {
            if let Some(mac) = mac.filter(|mac| !mac.is_one_station()) {
                return Err(Failure::usage(format_args!("{flag} {mac}: not the address of one station")));
            }
        }
        let missing = |flag| Failure::usage(format_args!("--driver xdp: {flag} is required with it"));
        let address = address::resolve(&args.address)?;
        address::check_destination(address)?;
        let SocketAddr::V4(address) = address else {
            return Err(Failure::usage(format_args!("{address}: --driver xdp sends over IPv4 only")));
        };
        let rate = args.rate()?;
        let plan = GeneratePlan {
            interface: given.iface.clone().ok_or_else(|| missing("--iface NAME"))?,
            destination: (address, given.to_mac.ok_or_else(|| missing("--to-mac MAC"))?),
            source: (given.from, given.from_mac),
            rate,
            quantum: args.quantum.at(rate),
            size: args.size as usize,
            catch_up: args.engine.catch_up,
            end: args.end(),
            cpu: args.engine.cpu.map(Processor::new).transpose()?,
        };
        Ok(Some(Generate { plan, output: Output::from(&args.output) }))
    }
}

impl Command for Generate {
    type Config = GenerateConfig;
    type Report = SendReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> GenerateConfig {
        self.plan.config()
    }

    fn example(&self) -> SendReport {
        SendReport::default()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<SendReport>, Failure> {
        let prepared = self.plan.prepare()?;
        let interrupt = run.interrupt()?;
        run.watch();
        let _progress = run.progress("sending", self.plan.end.duration);
        let sent = prepared.send(interrupt)?;
        Ok(Outcome { fallbacks: sent.fallbacks, broke_off: sent.broke_off, ..Outcome::of(sent.report) })
    }
}

/// Refuses what the program would silently ignore.
fn check_flags(args: &SendArgs) -> Result<(), Failure> {
    let engine = &args.engine;
    let flags = [
        ("--pattern", args.pattern != SendPattern::Constant),
        ("--seed", args.seed.is_some()),
        ("--burst-interval", args.burst_interval.is_some()),
        ("--flows", args.flows != 1),
        ("--phase", args.phase.is_some()),
        ("--train", args.train.is_some()),
        ("--no-gso", args.no_gso),
        ("--timer", engine.timer != Timer::default()),
        ("--clock", engine.clock != ClockName::Monotonic),
        ("--slack", engine.slack.is_some()),
        ("--idle", engine.idle.is_some()),
        ("--cpu-budget", engine.cpu_budget.is_some()),
        ("--sched-slice", engine.sched_slice.is_some()),
        ("--busy", engine.busy != Busy::None),
        ("--echo-batch", engine.echo_batch.is_some()),
        ("--disable-source", engine.disable_source.is_some()),
        ("--no-handshake", engine.no_handshake),
        ("--json-stream", args.output.json_stream),
    ];
    match flags.into_iter().find(|&(_, given)| given) {
        Some((flag, _)) => Err(Failure::usage(format_args!("{flag}: allowed with --driver socket only"))),
        None => Ok(()),
    }
}

//! `send --driver xdp`: a program in the kernel that sends. Deprecated: it says so once, and `--help` does not name it.

use std::net::SocketAddr;

use softtimers_load::generate::{GenerateConfig, GeneratePlan};
use softtimers_load::send::SendReport;
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;

use super::args::{Send, SendArgs};
use super::driver::{Driver, DriverArgs};
use softtimers_run::field::Field;

use crate::address;
use crate::run::output::{Output, Report, say};
use crate::run::privileges::{Needs, Rights};
use crate::run::quantity::{bits, end, packets};
use crate::run::table::Table;
use crate::run::{Command, Disturbance, Outcome, Run};

/// A run of `send --driver xdp`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Generate {
    plan: GeneratePlan,
    output: Output,
}

impl Generate {
    /// Interprets the arguments of `send`, if they ask for this.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn from_args(args: &SendArgs) -> Result<Option<Self>, Failure> {
        let DriverArgs { driver, iface, to_mac, from_mac, from } = &args.driver;
        if *driver != Driver::Xdp {
            let flags = [
                ("--iface", iface.is_some()),
                ("--to-mac", to_mac.is_some()),
                ("--from-mac", from_mac.is_some()),
                ("--from", from.is_some()),
            ];
            return match flags.into_iter().find(|&(_, given)| given) {
                Some((flag, _)) => {
                    Err(Failure::usage(format_args!("{flag}: allowed with --driver xdp only")))
                }
                None => Ok(None),
            };
        }
        check_flags(args)?;
        for (flag, mac) in [("--to-mac", *to_mac), ("--from-mac", *from_mac)] {
            if let Some(mac) = mac.filter(|mac| !mac.is_one_station()) {
                return Err(Failure::usage(format_args!("{flag} {mac}: not the address of one station")));
            }
        }
        let address = address::resolve(&args.address)?;
        address::check_destination(address)?;
        let SocketAddr::V4(address) = address else {
            return Err(Failure::usage(format_args!("{address}: --driver xdp sends over IPv4 only")));
        };
        let rate = args.rate()?;
        let plan = GeneratePlan {
            interface: iface
                .clone()
                .ok_or_else(|| Failure::usage("--driver xdp: --iface NAME is required with it"))?,
            destination: (address, *to_mac),
            source: (*from, *from_mac),
            rate,
            quantum: args.quantum.at(rate),
            size: args.size as usize,
            catch_up: args.engine.catch_up,
            end: args.end(),
            cpu: args.engine.cpu.map(Processor::new).transpose()?,
            dscp: args.engine.dscp,
        };
        Ok(Some(Generate { plan, output: Output::from(&args.engine.output) }))
    }
}

/// As that of the other drivers.
impl Report<Generate> for SendReport {
    const SCHEMA: &'static str = <SendReport as Report<Send>>::SCHEMA;

    fn table(&self) -> Table {
        Report::<Send>::table(self)
    }
}

impl Command for Generate {
    type Config = GenerateConfig;
    type Report = SendReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static [&'static [Field]] = super::fields::FIELDS;
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> GenerateConfig {
        self.plan.config()
    }

    fn header(&self) -> String {
        let GenerateConfig { interface, address, target_pps, size_bytes, .. } = self.plan.config();
        let (rate, sent) = (bits(target_pps * size_bytes as f64 * 8.0), packets(target_pps));
        let end = end(self.plan.config().duration_s, self.plan.config().count, "datagram");
        format!("send to {address}: {sent} of {size_bytes} B ({rate}){end}, driver xdp on {interface}")
    }

    fn example(&self) -> SendReport {
        SendReport::default()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<SendReport>, Failure> {
        self.plan.resolve()?;
        let prepared = self.plan.prepare()?;
        run.drop_privileges(Needs::with_bpf())?;
        let interrupt = run.interrupt()?;
        run.watch();
        let _progress = run.begin(self, "sending", self.plan.end.duration);
        let sent = prepared.send(interrupt)?;
        // Of a run that fails, the reason is the only line.
        say(format_args!("softtimers: {DEPRECATED}"));
        Ok(Outcome { fallbacks: sent.fallbacks, broke_off: sent.broke_off, ..Outcome::of(sent.report) })
    }
}

/// Refuses flags that the program would silently ignore.
fn check_flags(args: &SendArgs) -> Result<(), Failure> {
    let mut flags = args.socket_flags().into_iter().chain(args.engine.loop_flags());
    match flags.find(|&(_, given)| given) {
        Some((flag, _)) => Err(Failure::usage(format_args!("{flag}: not with --driver xdp"))),
        None => Ok(()),
    }
}

const DEPRECATED: &str =
    "--driver xdp is deprecated, and will leave `send`; the kernel's pktgen sends as fast";

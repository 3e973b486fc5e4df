//! `send --driver xdp`: the same report of a program in the kernel that sends.
//!
//! Gaps, bursts and trigger states are the loop's, and there is none: those keys are `null` or empty. What a cable
//! had no room for is `socket.no_buffers`, and lost.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use softtimers_net::packet::{Generated, Generator, Interface};

use super::report::{SendReport, SocketReport};
use crate::args::MacAddress;
use crate::distribution::Distribution;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Neighbours};
use crate::output::Run;
use crate::plan::GeneratePlan;
use crate::processor::Processor;
use crate::progress::Progress;
use crate::usage::Usage;

/// Carries it out and prints its report.
///
/// # Errors
/// A usage failure for an interface that it must not use, not-possible without the privileges, a failed assertion, or
/// what broke the run off.
pub fn run(plan: &GeneratePlan) -> Result<(), Failure> {
    let (machine, config) = (Machine::read(), plan.config());
    let blank = SendReport::default();
    let example = Run {
        machine: &machine,
        seed: None,
        config: &config,
        fallbacks: &[],
        inconclusive: None,
        report: &blank,
    };
    plan.output.check_keys(&example)?;
    let mut generator = generator(plan)?;
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let _kept = plan.cpu.map(Processor::keep).transpose();
    let _kept = _kept.map_err(|error| Failure::broke_off("keeping the loop on its processor", &error))?;
    let neighbours = Neighbours::watch();
    let progress = Progress::start("sending", plan.end.duration);
    let before = Usage::now();
    while !generator.is_done() && !interrupt.arrived() {
        generator.run().map_err(|error| failure(plan, &error))?;
    }
    let usage = Usage::now().since(&before);
    drop(progress);
    let generated = generator.generated().map_err(|error| failure(plan, &error))?;
    let interference = neighbours.so_far();
    let lost = (generated.refused > 0).then(|| {
        format!("the other end of {} had no room for {} datagrams", plan.interface, generated.refused)
    });
    plan.output.finish(&Run {
        machine: &machine.during(interference),
        fallbacks: &lost.into_iter().collect::<Vec<_>>(),
        inconclusive: interference.inconclusive(),
        report: &report(plan, &generated, &usage),
        seed: None,
        config: &config,
    })
}

fn generator(plan: &GeneratePlan) -> Result<Generator, Failure> {
    let named = Interface::named(&plan.interface);
    let interface = named.map_err(|error| failure(plan, &error))?;
    let most = (interface.mtu() as usize).saturating_sub(28).min(LONGEST);
    if plan.size > most {
        return Err(Failure::usage(format_args!(
            "--size {}: {} carries datagrams of at most {most} bytes",
            plan.size, plan.interface
        )));
    }
    let own = || {
        let all = interface.addresses().ok()?;
        let first = all.into_iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })?;
        Some(SocketAddrV4::new(first, DISCARD))
    };
    let (from, from_mac) = plan.source;
    let from = from.or_else(own).unwrap_or(SocketAddrV4::new(FOR_BENCHMARKS, DISCARD));
    let from_mac = from_mac.unwrap_or(MacAddress(interface.hardware_address()));
    Generator::new(interface, plan.generator(from, from_mac)).map_err(|error| failure(plan, &error))
}

fn failure(plan: &GeneratePlan, error: &std::io::Error) -> Failure {
    let what = format_args!("--iface {}: {error}", plan.interface);
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::NotFound => Failure::usage(what),
        ErrorKind::PermissionDenied | ErrorKind::Unsupported => {
            Failure::not_possible(format_args!("--driver xdp: {error}"))
        }
        _ => Failure::check(what),
    }
}

fn report(plan: &GeneratePlan, generated: &Generated, usage: &Usage) -> SendReport {
    let Generated { sent, refused, forfeited, span, bursts, late, latest } = *generated;
    let seconds = usage.wall.as_secs_f64().max(f64::MIN_POSITIVE);
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // All but the last burst left in the time from the first to the last.
    let achieved = (bursts > 1 && !span.is_zero())
        .then(|| sent as f64 * (bursts - 1) as f64 / bursts as f64 / span.as_secs_f64());
    SendReport {
        target_pps: plan.rate.packets_per_second(),
        achieved_pps: achieved,
        sent,
        forfeited,
        late_ns: Distribution {
            count: bursts,
            max: (bursts > 0).then(|| nanos(latest)),
            mean: (bursts > 0).then(|| late.as_nanos() as f64 / bursts as f64),
            ..Distribution::default()
        },
        packets_per_turn: (bursts > 0).then(|| (sent + refused) as f64 / bursts as f64),
        cpu_share: usage.cpu.as_secs_f64() / seconds,
        cpu_ns_per_packet: (sent > 0).then(|| usage.cpu.as_nanos() as f64 / sent as f64),
        wakeups: usage.wakeups,
        socket: SocketReport { no_buffers: refused, ..SocketReport::default() },
        ..SendReport::default()
    }
}

/// What the kernel runs programs over, less the headers.
const LONGEST: usize = 3_300;
/// Nobody answers there.
const DISCARD: u16 = 9;
/// Of the network that is set aside for this (RFC 2544).
const FOR_BENCHMARKS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

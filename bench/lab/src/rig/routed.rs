//! `routed`: a router on one core, ours by each driver compared with the kernel's `ip_forward` and programs of twelve
//! lines: packets delivered of those offered, and the CPU cost of a packet. `routed-streams`: TCP, with the interfaces'
//! defaults. `routed-delays`: how long packets are under way, and the first ones of bursts.
//!
//! All of them route IPv4 packets from `r0` to `out`; a contender begins when the one before has ended. `--next-hop-b`
//! gives ours what the kernel's table gives the others.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use softtimers_measure::failure::Failure;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Paired, Round};
use softtimers_trials::result::Table;

use super::core::{Computation, FAR, FAR_STATION, Hook, NEAR_STATION, NOBODY, OneCore, Traffic, rate};
use super::trial::{DESTINATION, DESTINATION_PORT, Offer, Rig};
use crate::bench::Done;
use crate::figures::{self, Figure};
use softtimers_trials::command::{announced, output, pause, signal, start, works};

/// A router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Router {
    Kernel,
    /// A program of twelve lines.
    Program(Hook),
    /// `softtimers forward --driver`.
    Ours(&'static str),
}

const KERNEL: &str = "kernel, ip_forward";
const TC: &str = "forward, tc";
const XDP_FAST: &str = "forward, xdp-fast";
const ROUTERS: [(&str, Router); 7] = [
    (KERNEL, Router::Kernel),
    ("XDP, twelve lines", Router::Program(Hook::Xdp)),
    ("tc, twelve lines", Router::Program(Hook::Tc)),
    (TC, Router::Ours("tc")),
    (XDP_FAST, Router::Ours("xdp-fast")),
    ("forward, packet", Router::Ours("packet")),
    ("forward, xdp", Router::Ours("xdp")),
];

/// Our drivers with bars.
const FAST: [(&str, &str); 2] = [("tc", TC), ("xdp-fast", XDP_FAST)];

/// Offered packets a second; the last is more than the generator can send.
const OFFERS: [f64; 5] = [100e3, 200e3, 400e3, 800e3, 4e6];
const BELOW: usize = 1;
const FLOOD: usize = OFFERS.len() - 1;

/// Measures delivered rates and the CPU cost of a packet, at each offered rate.
pub(super) fn routed(rig: &Rig) -> Done<Vec<Table>> {
    let stage = Stage::new(rig)?;
    let computation = Computation::start()?;
    let offers = rig.either(&OFFERS[..], &OFFERS[..=BELOW]);
    let measured = stage.contest(7, Traffic::Packets, NOBODY, |name, round| {
        for (at, &offered) in offers.iter().enumerate() {
            stage.load(&computation, offered, &row(name, at), round)?;
        }
        let peak =
            (0..offers.len()).filter_map(|at| round.figure(&row(name, at), DELIVERED)).fold(0.0, f64::max);
        let flooded = |figure| round.figure(&row(name, FLOOD), figure);
        let (kept, multiple) =
            (flooded(DELIVERED).map(|left| left / peak), flooded(OFFERED).map(|came| came / peak));
        round.put(name, KEPT, kept);
        round.put(name, MULTIPLE, multiple);
        Ok(())
    })?;
    let names = stage.names();
    let rows = names.iter().flat_map(|name| (0..offers.len()).map(move |at| row(name, at)));
    let mut rates =
        Table::of("routed", &measured, rows, &[(OFFERED, 0), (DELIVERED, 0), (CPU, 1), (COST, 0)]);
    rates.note("one core; 60-byte frames; CPU is what a computation of idle priority loses there");
    let mut peaks = Table::of("routed, of the peak", &measured, &names, &[(KEPT, 2), (MULTIPLE, 1)]);
    if offers.len() == OFFERS.len() {
        bars(&measured, &mut rates, &mut peaks);
    }
    Ok(vec![rates, peaks])
}

fn bars(measured: &Measured, rates: &mut Table, peaks: &mut Table) {
    for (driver, name) in FAST {
        let ratio = |figure, at| measured.ratio(figure, &row(name, at), &row(KERNEL, at));
        let flood = ratio(DELIVERED, FLOOD);
        rates.bar(Bar::at_least(format!("{driver}, flooded: delivered, of ip_forward's"), 1.5, flood));
        let what = format!("{driver}, {:.0} kpps: CPU a packet, of ip_forward's", OFFERS[BELOW] / 1e3);
        rates.bar(Bar::at_most(what, 0.67, ratio(COST, BELOW)));
        // A flood of less than about five times the peak shows nothing.
        let reached = measured.median(name, MULTIPLE).is_some_and(|multiple| multiple >= 4.5);
        let kept = measured.estimate(name, KEPT).filter(|_| reached);
        let what = format!("{driver}, at five times its peak: delivered, of the peak");
        peaks.bar(Bar::at_least(what, 0.95, kept));
    }
}

/// Measures bulk TCP over IPv4 with the interfaces' defaults.
pub(super) fn streams(rig: &Rig) -> Done<Vec<Table>> {
    if !works(Command::new("iperf3").arg("--version")) {
        return Err(Failure::not_possible("streams need `iperf3`").into());
    }
    let stage = Stage::new(rig)?;
    let seconds = rig.either(2, 1);
    let measured = stage.contest(5, Traffic::Streams, FAR_STATION, |name, round| {
        round.put(name, STREAM, stage.stream(seconds)?);
        Ok(())
    })?;
    let mut table = Table::of("routed-streams", &measured, stage.names(), &[(STREAM, 2)]);
    table.against("of ip_forward's", &measured, STREAM, KERNEL);
    for (driver, name) in FAST {
        let ratio = measured.ratio(STREAM, name, KERNEL);
        table.bar(Bar::at_least(format!("{driver}, bulk TCP: of ip_forward's"), 0.95, ratio));
    }
    table.note("a dash: nothing arrived");
    Ok(vec![table])
}

/// Measures how long packets are under way at 2,000/s, and the first ones of bursts.
pub(super) fn delays(rig: &Rig) -> Done<Vec<Table>> {
    let stage = Stage::new(rig)?;
    let sizes: &[u32] = rig.either(&[1, 16, 64], &[16]);
    let burst_row = |name: &str, burst: u32| format!("{name}, bursts of {burst}");
    let measured = stage.contest(7, Traffic::Sparse, NOBODY, |name, round| {
        for &burst in sizes {
            let found = stage.delay(burst)?;
            figures::put(round, &burst_row(name, burst), &found, &DELAYS);
        }
        Ok(())
    })?;
    let names = stage.names();
    let rows = names.iter().flat_map(|name| sizes.iter().map(move |&burst| burst_row(name, burst)));
    let mut table = figures::table("routed-delays", &measured, rows, &DELAYS);
    if sizes.contains(&1) {
        for (driver, name) in FAST {
            let later = measured.over(|round| {
                let p50 = |name| round.figure(&burst_row(name, 1), P50);
                Some(p50(name)? - p50(KERNEL)?)
            });
            table.bar(Bar::at_most(format!("{driver}, 2,000/s: p50 behind ip_forward's, µs"), 10.0, later));
        }
    }
    table.note("from when a packet was due at the sender; 2,000 packets/s, in bursts");
    Ok(vec![table])
}

/// The layout, and the routers that are available in it.
struct Stage<'a> {
    rig: &'a Rig,
    layout: OneCore<'a>,
    /// The programs of twelve lines, if they could be compiled.
    object: Option<Object>,
}

impl<'a> Stage<'a> {
    fn new(rig: &'a Rig) -> Result<Self> {
        let object = Object::compile();
        if let Err(error) = &object {
            eprintln!("skipped: programs of twelve lines: {error:#}");
        }
        Ok(Stage { rig, layout: OneCore::lay(&rig.hosts)?, object: object.ok() })
    }

    fn routers(&self) -> Vec<(&'static str, Router)> {
        let has = |router: &Router| self.object.is_some() || !matches!(router, Router::Program(_));
        ROUTERS.into_iter().filter(|(_, router)| has(router)).collect()
    }

    fn names(&self) -> Vec<&'static str> {
        self.routers().into_iter().map(|(name, _)| name).collect()
    }

    /// Runs each of the routers in turn, for `rounds` rounds.
    fn contest(
        &self,
        rounds: u32,
        traffic: Traffic,
        next_hop: &str,
        mut trial: impl FnMut(&str, &mut Round) -> Result<()>,
    ) -> Result<Measured> {
        let paired = Paired::new(self.rig.rounds(rounds)).beside_others();
        paired.contest(&[()], &mut self.routers(), |(), (name, router), round| {
            self.layout.take(traffic)?;
            let done = self.with(*router, next_hop, || trial(name, round));
            done.map_err(|error| anyhow::anyhow!("{name}: {error:#}"))
        })
    }

    /// Runs `body` while the router routes.
    fn with<T>(&self, router: Router, next_hop: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        match router {
            Router::Kernel => self.layout.with_table(body),
            Router::Program(hook) => {
                let object = self.object.as_ref().context("no object")?.0.to_string_lossy();
                self.layout.with_table(|| self.layout.with_program(hook, &object, body))
            }
            Router::Ours(driver) => {
                let words = self.rig.softtimers(&format!(
                    "forward r0 out --json --duration 60s --routed --driver {driver} \
                     --next-hop-a {NEAR_STATION} --next-hop-b {next_hop}"
                ));
                let forwarder = self.rig.started(&words, "routing between")?;
                self.layout.pin()?;
                let done = body()?;
                forwarder.ended()?;
                Ok(done)
            }
        }
    }

    /// Offers packets, and records what arrives and its cost.
    fn load(&self, computation: &Computation, offered: f64, row: &str, round: &mut Round) -> Result<()> {
        let before = computation.rate(ALONE);
        let mut generator =
            self.rig.generator(0, &Offer { burst: 16, ..Offer::steady(offered, OFFERED_FOR) })?;
        let first = self.layout.arrived()?.1;
        while generator.runs()? && self.layout.arrived()?.1 < first + 1_000 {
            pause(Duration::from_millis(2));
        }
        // Until the queues have filled.
        pause(Duration::from_millis(50));
        let (came, done) = (self.layout.arrived()?, computation.so_far());
        pause(WINDOW);
        let (arrived, used) = (rate(came, self.layout.arrived()?), rate(done, computation.so_far()));
        if !generator.runs()? {
            // On a machine that is too busy it ends before the window does.
            round.set_aside(format!("{row}: the generator ended early"));
            return Ok(());
        }
        let offered = super::trial::finish(generator)?.pps;
        let alone = f64::midpoint(before, computation.rate(ALONE));
        let share = 1.0 - used / alone;
        round.put(row, OFFERED, offered / 1e3);
        round.put(row, DELIVERED, arrived / 1e3);
        round.put(row, CPU, 100.0 * share);
        round.put(row, COST, 1e9 * share / arrived);
        eprintln!("{:7.1} s  {row}: {:.0} kpps ▸ {:.0}", super::trial::now(), offered / 1e3, arrived / 1e3);
        Ok(())
    }

    /// Returns the Gbit/s of a stream; `None` if no data arrived.
    fn stream(&self, seconds: u32) -> Result<Option<f64>> {
        let words = ["taskset", "-c", "0", "iperf3", "--server", "--one-off"];
        let server = start(&mut self.rig.hosts.command("far", &words))?;
        pause(Duration::from_millis(300));
        let time = seconds.to_string();
        let words =
            ["taskset", "-c", "0", "timeout", "8", "iperf3", "--client", FAR, "--time", &time, "--json"];
        let report = output(&mut self.rig.hosts.command("near", &words));
        // A server without a client still waits.
        let _ = signal(server.id(), "TERM");
        let report: Value = report.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(figures::at(&report, "end.sum_received.bits_per_second")
            .map(|rate| rate / 1e9)
            .filter(|&rate| rate > 0.0))
    }

    /// Returns the far host's delays of bursts, 2,000 packets a second.
    fn delay(&self, burst: u32) -> Result<Value> {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let burst_text = burst.to_string();
        let words = [&*program, "receive", "delays", "s0", "--cpu", "0", "--burst", &burst_text];
        let (receiver, _) = announced(&mut self.rig.hosts.command("far", &words), "ready")?;
        // The generator in the kernel is later than the differences to measure here.
        let bursts =
            if burst > 1 { format!("--quantum {burst} --send-via sendmmsg ") } else { String::new() };
        let words = self.rig.softtimers(&format!(
            "send {DESTINATION}:{DESTINATION_PORT} --no-handshake --timer spin --rate {RATE}pps {bursts}--size 32 --cpu 0 \
             --duration {DELAYED_FOR}ms --json"
        ));
        let words: Vec<&str> = words.split(' ').collect();
        start(&mut self.rig.hosts.command("near", &words))?.output()?;
        receiver.object()
    }
}

/// The compiled programs, until it is dropped.
struct Object(PathBuf);

impl Object {
    fn compile() -> Result<Self> {
        let place = std::env::temp_dir().join(format!("softtimers-rig-{}", std::process::id()));
        let (source, object) = (place.with_extension("bpf.c"), place.with_extension("bpf.o"));
        std::fs::write(&source, PROGRAMS)?;
        let mut clang = Command::new("clang");
        clang.args(["-O2", "-g", "-target", "bpf"]);
        // Debian's directory for an architecture's headers.
        clang.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
        let done = output(clang.arg("-c").arg(&source).arg("-o").arg(&object));
        let _ = std::fs::remove_file(&source);
        done.map(|_| Object(object))
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn row(name: &str, at: usize) -> String {
    match at {
        FLOOD => format!("{name}, flooded"),
        _ => format!("{name}, {:.0} kpps", OFFERS[at] / 1e3),
    }
}

const PROGRAMS: &str = include_str!("routed/fib.bpf.c");
const OFFERED: &str = "offered kpps";
const DELIVERED: &str = "delivered kpps";
const CPU: &str = "CPU %";
const COST: &str = "ns of CPU a packet";
const KEPT: &str = "flooded, of the peak";
const MULTIPLE: &str = "flood, x peak";
const STREAM: &str = "Gbit/s";
const P50: &str = "p50 µs";
const DELAYS: [Figure; 4] = [
    (P50, 1, "latency_ns.p50", 1e-3),
    ("p99 µs", 1, "latency_ns.p99", 1e-3),
    ("first of a burst, p50 µs", 1, "first_ns.p50", 1e-3),
    ("p99 µs of those", 1, "first_ns.p99", 1e-3),
];
/// Packets a second when delays are measured.
const RATE: f64 = 2_000.0;
const DELAYED_FOR: u64 = 600;
const ALONE: Duration = Duration::from_millis(80);
const WINDOW: Duration = Duration::from_millis(250);
/// Longer than the window, in milliseconds, including the start.
const OFFERED_FOR: u64 = 500;

//! `capture`: what a monitor loses beside a computation on its processor, tcpdump beside it, and what a packet costs by its
//! length (livelock §9: headers of 68 bytes, a filter on a UDP port).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::trial::{Computation, DESTINATION_PORT, Offer, Rig, now};
use super::{Effort, Found};
use crate::measure::figures::Bar;
use crate::measure::trials::{median, pause};

pub(super) fn capture(rig: &Rig, effort: Effort) -> Result<Found> {
    let trace = Trace::new()?;
    let mut found = beside(rig, effort, &trace)?;
    let sizes = sizes(rig, effort, &trace)?;
    found.bars.extend(sizes.bars);
    Ok(Found { bars: found.bars, figures: json!({ "beside": found.figures, "sizes": sizes.figures }) })
}

/// Who captures: `--max-delay`, or flags of tcpdump.
#[derive(Clone, Copy, Debug)]
enum Monitor {
    Ours(&'static str),
    Tcpdump(&'static str),
}

const MONITORS: [Monitor; 4] = [
    Monitor::Ours("1ms"),
    Monitor::Ours("100us"),
    Monitor::Tcpdump(""),
    Monitor::Tcpdump("--immediate-mode"),
];

/// What one of them made of a load.
#[derive(Clone, Debug)]
struct Caught {
    offered: f64,
    lost: f64,
    cpu: f64,
    beside: f64,
    report: Value,
}

fn beside(rig: &Rig, effort: Effort, trace: &Trace) -> Result<Found> {
    let (rounds, millis) = if effort.quick { (1, 500) } else { (5, 2_000) };
    let monitors: Vec<Monitor> =
        MONITORS.into_iter().filter(|monitor| monitor.ours() || rig.has("tcpdump")).collect();
    let mut caught: Vec<Vec<Caught>> = vec![Vec::new(); monitors.len()];
    for round in 0..rounds {
        for turn in 0..monitors.len() {
            let at = (turn + round) % monitors.len();
            caught[at].push(monitors[at].trial(rig, &Offer::steady(RATE, millis), true, trace)?);
        }
    }
    println!(
        "### Capturing beside a computation, {RATE} packets/s\n\n| by | offered kpps | lost | delay p50 / p99 / worst µs | processor | the computation's |\n|---|---|---|---|---|---|"
    );
    let (mut bars, mut figures) = (Vec::new(), Vec::new());
    for (monitor, caught) in monitors.iter().zip(&caught) {
        let of = |figure: fn(&Caught) -> f64| median(caught, |one| Some(figure(one))).unwrap_or(f64::NAN);
        let delay = |key: &'static str| {
            let nanos = median(caught, |one| one.report["delay_ns"][key].as_f64());
            nanos.map_or("–".to_owned(), |nanos| format!("{:.0}", nanos / 1e3))
        };
        let (offered, lost) = (of(|one| one.offered), of(|one| one.lost));
        println!(
            "| {} | {:.1} | {:.2}% | {} / {} / {} | {:.1}% | {:.1}% |",
            monitor.name(),
            offered / 1e3,
            100.0 * lost,
            delay("p50"),
            delay("p99"),
            delay("max"),
            100.0 * of(|one| one.cpu),
            100.0 * of(|one| one.beside)
        );
        if matches!(monitor, Monitor::Ours("1ms")) {
            // A generator that was much too slow has shown nothing.
            let measured = (offered >= 0.9 * RATE).then_some(lost);
            bars.push(Bar::at_most(
                "capture beside a computation, 400,000/s: lost".to_owned(),
                0.01,
                measured,
            ));
        }
        figures.push(json!({
            "by": monitor.name(), "offered_pps": offered, "lost": lost,
            "trials": caught.iter().map(|one| one.report.clone()).collect::<Vec<_>>(),
        }));
    }
    println!("\nA dash: tcpdump does not say; by default its buffer is handed over after up to a second.\n");
    Ok(Found { bars, figures: json!(figures) })
}

/// What a packet costs the process, by its length, where 68 bytes of each are kept.
fn sizes(rig: &Rig, effort: Effort, trace: &Trace) -> Result<Found> {
    let (rounds, millis) = if effort.quick { (1, 300) } else { (7, 1_000) };
    let mut costs = vec![Vec::new(); FRAMES.len()];
    for round in 0..rounds {
        for turn in 0..FRAMES.len() {
            let at = (turn + round) % FRAMES.len();
            let offer = Offer { payload: FRAMES[at] - HEADERS, ..Offer::steady(100_000.0, millis) };
            let one = Monitor::Ours("1ms").trial(rig, &offer, false, trace)?;
            // By the program's own account, which is of all its time, and finer than the kernel's ticks.
            let figure = |key: &str| one.report[key].as_f64().filter(|&figure| figure > 0.0);
            if let (Some(captured), Some(span), Some(cpu)) =
                (figure("captured"), figure("span_s"), figure("cpu_share"))
            {
                costs[at].push(1e9 * cpu * span / captured);
            }
        }
    }
    let costs: Vec<f64> =
        costs.iter().map(|costs| median(costs, |&cost: &f64| Some(cost)).unwrap_or(f64::NAN)).collect();
    println!(
        "### A packet's cost by its length, 68 bytes kept\n\n| bytes | ns of the processor |\n|---|---|"
    );
    FRAMES.iter().zip(&costs).for_each(|(bytes, cost)| println!("| {bytes} | {cost:.0} |"));
    let (first, last) = (costs[0], costs[FRAMES.len() - 1]);
    let slope = (last - first) / f64::from(FRAMES[FRAMES.len() - 1] - FRAMES[0]);
    println!("\n{slope:.3} ns for each further byte\n");
    let ratio = Some(last / first).filter(|ratio| ratio.is_finite());
    let bar = Bar::at_most(
        "capture, 68 bytes kept: cost of the longest packet, against the shortest".to_owned(),
        1.2,
        ratio,
    );
    let rows: Vec<Value> =
        FRAMES.iter().zip(&costs).map(|(bytes, cost)| json!({ "bytes": bytes, "ns": cost })).collect();
    Ok(Found { bars: vec![bar], figures: json!(rows) })
}

impl Monitor {
    fn ours(self) -> bool {
        matches!(self, Monitor::Ours(_))
    }

    fn name(self) -> String {
        match self {
            Monitor::Ours(delay) => format!("capture --max-delay {delay}"),
            Monitor::Tcpdump(flags) => format!("tcpdump {flags}").trim().to_owned(),
        }
    }

    /// How long the last packets may wait for being handed over: ours for its bound, tcpdump's in the kernel for a second.
    fn last(self) -> Duration {
        Duration::from_millis(if self.ours() { 100 } else { 1_200 })
    }

    /// Captures on the loaded interface until the load has gone.
    fn trial(self, rig: &Rig, offer: &Offer, beside: bool, trace: &Trace) -> Result<Caught> {
        let computation = beside.then(|| rig.computation()).transpose()?;
        let file = trace.file.display();
        let _ = std::fs::remove_file(&trace.file);
        let monitor = match self {
            Monitor::Ours(delay) => rig.capture(&format!(
                "r0 -w {file} --snaplen 68 --filter-code {} --user root --max-delay {delay} --json",
                trace.code.display()
            ))?,
            Monitor::Tcpdump(flags) => rig
                .tcpdump(&format!("-i r0 -w {file} -s 68 -Z root {flags} udp dst port {DESTINATION_PORT}"))?,
        };
        // All accounts are taken at the same two moments, whoever captures.
        let accounts = || -> Result<[f64; 3]> {
            Ok([now(), monitor.used()?, computation.as_ref().map_or(Ok(0.0), Computation::used)?])
        };
        let before = accounts()?;
        let offered = rig.offered(offer)?;
        let after = accounts()?;
        let [seconds, used, others] = [0, 1, 2].map(|at| after[at] - before[at]);
        pause(self.last());
        let report = monitor.ended()?;
        let captured = report["captured"].as_f64().context("captured")?;
        Ok(Caught {
            offered: offered.pps,
            lost: 1.0 - captured / (offered.sent as f64).max(1.0),
            cpu: used / seconds,
            beside: others / seconds,
            report,
        })
    }
}

/// The file that is captured to, and the filter, in a directory that goes with this.
#[derive(Debug)]
struct Trace {
    directory: PathBuf,
    file: PathBuf,
    code: PathBuf,
}

impl Trace {
    fn new() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("softtimers-rig-{}", std::process::id()));
        std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let (file, code) = (directory.join("trace.pcapng"), directory.join("udp.code"));
        let trace = Trace { directory, file, code };
        std::fs::write(&trace.code, UDP_PORT_9)?;
        Ok(trace)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let gone: &Path = &self.directory;
        let _ = std::fs::remove_dir_all(gone);
    }
}

const RATE: f64 = 400_000.0;
/// Of Ethernet's smallest (with the sequence number and time that ours carry) to its longest.
const FRAMES: [u32; 4] = [74, 256, 1_024, 1_514];
/// Of Ethernet, IPv4 and UDP.
const HEADERS: u32 = 42;
/// `udp dst port 9` in an Ethernet frame with IPv4, as `tcpdump -ddd` would write it.
const UDP_PORT_9: &str = "11\n40 0 0 12\n21 0 8 2048\n48 0 0 23\n21 0 6 17\n40 0 0 20\n69 4 0 8191\n177 0 0 14\n72 0 0 16\n21 0 1 9\n6 0 0 262144\n6 0 0 0\n";

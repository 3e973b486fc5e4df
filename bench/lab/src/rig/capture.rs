//! `capture`: the loss of a monitor next to a computation on its CPU, compared with tcpdump, and the cost of a packet
//! by its length (livelock §9: headers of 68 bytes, a filter on a UDP port).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

use super::trial::{DESTINATION_PORT, Offer, Rig, now, used};
use crate::bench::Done;
use crate::figures::{self, Figure};
use softtimers_trials::command::{pause, signal};

pub(super) fn capture(rig: &Rig) -> Done<Vec<Table>> {
    let trace = Trace::new()?;
    Ok(vec![beside(rig, &trace)?, sizes(rig, &trace)?])
}

/// The capturing program: `--max-delay`, or flags of tcpdump.
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

/// Measures loss next to a computation on the same CPU, at 400,000 packets/s.
fn beside(rig: &Rig, trace: &Trace) -> Result<Table> {
    let (rounds, millis) = (rig.rounds(5), rig.either(2_000, 500));
    let monitors = MONITORS.into_iter().filter(|monitor| monitor.ours() || rig.has("tcpdump"));
    let mut monitors: Vec<Monitor> = monitors.collect();
    // The computation is part of the experiment.
    let measured =
        Paired::new(rounds).beside_others().contest(&[()], &mut monitors, |(), monitor, round| {
            let caught = monitor.trial(rig, &Offer::steady(RATE, millis), true, trace)?;
            figures::put(round, &monitor.name(), &caught, &FIGURES);
            anyhow::Ok(())
        })?;
    let rows = monitors.iter().map(|monitor| monitor.name());
    let mut table = figures::table("capture", &measured, rows, &FIGURES);
    let ours = Monitor::Ours("1ms").name();
    // A generator that was much too slow shows nothing.
    let was_offered = measured.median(&ours, OFFERED).is_some_and(|offered| offered >= 0.9 * RATE / 1e3);
    let lost = measured.estimate(&ours, LOST).filter(|_| was_offered);
    table.bar(Bar::at_most("capture beside a computation, 400,000/s: lost, %", 1.0, lost));
    table.note("a dash: tcpdump does not say; by default its buffer is handed over after up to a second");
    Ok(table)
}

/// Measures the cost of a packet to the process, by its length, where 68 bytes of each are kept.
fn sizes(rig: &Rig, trace: &Trace) -> Result<Table> {
    let (rounds, millis) = (rig.rounds(7), rig.either(1_000, 300));
    let measured = Paired::new(rounds).contest(&[()], &mut FRAMES.clone(), |(), bytes, round| {
        let offer = Offer { payload: *bytes - HEADERS, ..Offer::steady(100_000.0, millis) };
        let one = Monitor::Ours("1ms").trial(rig, &offer, false, trace)?;
        // By the program's own figures, which cover all of its time, and are finer than the kernel's ticks.
        let figure = |key| figures::at(&one, key).filter(|&figure| figure > 0.0);
        if let (Some(captured), Some(span), Some(cpu)) =
            (figure("captured"), figure("span_s"), figure("cpu_share"))
        {
            round.put(&bytes.to_string(), COST, 1e9 * cpu * span / captured);
        }
        anyhow::Ok(())
    })?;
    let mut table = Table::of("cost by length, 68 bytes kept", &measured, FRAMES, &[(COST, 0)]);
    let (first, last) = (FRAMES[0], FRAMES[FRAMES.len() - 1]);
    let cost = |bytes: u32| measured.median(&bytes.to_string(), COST);
    if let (Some(low), Some(high)) = (cost(first), cost(last)) {
        table.note(format!("{:.3} ns for each further byte", (high - low) / f64::from(last - first)));
    }
    let ratio = measured.ratio(COST, &last.to_string(), &first.to_string());
    table.bar(Bar::at_most(
        "capture, 68 bytes kept: cost of the longest packet, against the shortest",
        1.2,
        ratio,
    ));
    Ok(table)
}

const OFFERED: &str = "offered kpps";
const LOST: &str = "lost %";
const COST: &str = "ns of CPU";
const FIGURES: [Figure; 7] = [
    (OFFERED, 1, "offered_pps", 1e-3),
    (LOST, 2, "lost_share", 100.0),
    ("delay p50 µs", 0, "delay_ns.p50", 1e-3),
    ("delay p99 µs", 0, "delay_ns.p99", 1e-3),
    ("worst delay µs", 0, "delay_ns.max", 1e-3),
    ("CPU %", 1, "used_share", 100.0),
    ("the computation's %", 1, "beside_share", 100.0),
];

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

    /// The longest wait of the last packets: ours by its bound, tcpdump's in the kernel for a second.
    fn last(self) -> Duration {
        Duration::from_millis(if self.ours() { 100 } else { 1_200 })
    }

    /// Captures on the loaded interface until the load has ended; returns the monitor's report, and both ends'
    /// findings.
    fn trial(self, rig: &Rig, offer: &Offer, beside: bool, trace: &Trace) -> Result<Value> {
        let computation = beside.then(|| rig.computation()).transpose()?;
        let file = trace.file.display();
        let _ = std::fs::remove_file(&trace.file);
        let monitor = match self {
            Monitor::Ours(delay) => {
                let words = rig.softtimers(&format!(
                    "capture --duration 60s r0 -w {file} --snaplen 68 --filter-code {} --user root --max-delay {delay} --json",
                    trace.code.display()
                ));
                rig.started(&words, "capturing on")?
            }
            Monitor::Tcpdump(flags) => rig.started(
                &format!("tcpdump -i r0 -w {file} -s 68 -Z root {flags} udp dst port {DESTINATION_PORT}"),
                "listening on",
            )?,
        };
        // All counters are read at the same two moments, for any monitor.
        let accounts = || -> Result<[f64; 3]> {
            Ok([now(), used(&monitor)?, computation.as_ref().map_or(Ok(0.0), used)?])
        };
        let before = accounts()?;
        let offered = rig.offered(offer)?;
        let after = accounts()?;
        let [seconds, used, others] = [0, 1, 2].map(|at| after[at] - before[at]);
        pause(self.last());
        let mut report = match self {
            Monitor::Ours(_) => monitor.ended()?,
            // It reports in words.
            Monitor::Tcpdump(_) => {
                signal(monitor.id(), "TERM")?;
                let (_, talk) = monitor.output()?;
                let number =
                    |line: &str| line.trim().strip_suffix("packets captured")?.trim().parse::<u64>().ok();
                json!({ "captured": talk.lines().find_map(number) })
            }
        };
        let captured = report["captured"].as_f64().context("captured")?;
        report["offered_pps"] = offered.pps.into();
        report["lost_share"] = (1.0 - captured / (offered.sent as f64).max(1.0)).into();
        report["used_share"] = (used / seconds).into();
        report["beside_share"] = (others / seconds).into();
        Ok(report)
    }
}

/// The capture file and the filter, in a directory that is removed when this is dropped.
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
/// The lengths of frames, from Ethernet's shortest (with our sequence number and time) to its longest.
const FRAMES: [u32; 4] = [74, 256, 1_024, 1_514];
/// The headers of Ethernet, IPv4 and UDP, in bytes.
const HEADERS: u32 = 42;
/// `udp dst port 9` in an Ethernet frame with IPv4, as `tcpdump -ddd` would write it.
const UDP_PORT_9: &str = "11\n40 0 0 12\n21 0 8 2048\n48 0 0 23\n21 0 6 17\n40 0 0 20\n69 4 0 8191\n177 0 0 14\n72 0 0 16\n21 0 1 9\n6 0 0 262144\n6 0 0 0\n";

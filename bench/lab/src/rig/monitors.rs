//! `monitors`: capture and tcpdump at the same delay and with the same memory, whole frames, no filter: the cost of a
//! packet, and the loss when the monitor stands still for 0.3 s. Only ours reports how late frames reach the file.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Paired, Round};
use softtimers_trials::result::Table;

use super::trial::{Offer, Rig, busy, finish, now};
use crate::bench::Done;
use crate::figures::{self, Figure};
use softtimers_trials::command::{pause, signal};

/// A capturing program: its name, its allowed delay, and its flags.
#[derive(Clone, Copy, Debug)]
struct Monitor {
    name: &'static str,
    ours: bool,
    flags: &'static str,
}

const SECOND: Monitor = Monitor { name: "capture --max-delay 1s", ours: true, flags: "--max-delay 1s" };
const MILLISECOND: Monitor =
    Monitor { name: "capture --max-delay 1ms", ours: true, flags: "--max-delay 1ms" };
const BUFFERED: Monitor = Monitor { name: "tcpdump", ours: false, flags: "" };
const AT_ONCE: Monitor =
    Monitor { name: "tcpdump -U --immediate-mode", ours: false, flags: "-U --immediate-mode" };

pub(super) fn monitors(rig: &Rig) -> Done<Vec<Table>> {
    let file = File::new()?;
    let all = [SECOND, MILLISECOND, BUFFERED, AT_ONCE].into_iter();
    let all: Vec<Monitor> = all.filter(|monitor| monitor.ours || rig.has("tcpdump")).collect();
    Ok(vec![cost(rig, &file, all.clone())?, stall(rig, &file, all)?])
}

/// Measures a steady stream.
fn cost(rig: &Rig, file: &File, mut all: Vec<Monitor>) -> Result<Table> {
    let millis = rig.either(4_000, 500);
    let measured =
        Paired::new(rig.rounds(5)).repeating(3).contest(&[()], &mut all, |(), monitor, round| {
            monitor.trial(rig, file, &Offer::steady(RATE, millis), false, round)
        })?;
    let rows = all.iter().map(|monitor| monitor.name);
    let columns = [(OFFERED, 1), (LOST, 3), (COST, 0), (DELAY, 1), (WORST, 1)];
    let mut table = Table::of("monitors", &measured, rows, &columns);
    for (ours, theirs, most) in [(SECOND, BUFFERED, 1.1), (MILLISECOND, AT_ONCE, 0.3)] {
        let figure = format!("{}: CPU a packet, against {}, in pairs", ours.name, theirs.name);
        table.bar(Bar::at_most(figure, most, measured.ratio(COST, ours.name, theirs.name)));
    }
    Ok(table)
}

/// Measures what is lost when the monitor stands still for 0.3 s.
fn stall(rig: &Rig, file: &File, mut all: Vec<Monitor>) -> Result<Table> {
    let measured =
        Paired::new(rig.rounds(5)).repeating(3).contest(&[()], &mut all, |(), monitor, round| {
            monitor.trial(rig, file, &Offer::steady(RATE, 1_000), true, round)
        })?;
    let rows = all.iter().map(|monitor| monitor.name);
    let columns = [(OFFERED, 1), (LOST, 3), (WORST, 1)];
    let mut table = Table::of("monitors in a stall of 0.3 s", &measured, rows, &columns);
    let lost = measured.estimate(SECOND.name, LOST);
    table.bar(Bar::at_most(format!("{}, 16 MiB, a stall of 0.3 s: lost, %", SECOND.name), 0.0, lost));
    Ok(table)
}

impl Monitor {
    fn trial(self, rig: &Rig, file: &File, offer: &Offer, stalls: bool, round: &mut Round) -> Result<()> {
        let _ = std::fs::remove_file(&file.0);
        let (path, flags) = (file.0.display(), self.flags);
        let monitor = if self.ours {
            let words =
                format!("capture r0 -w {path} --duration 60s --ring 16MiB --user root --json {flags}");
            rig.started(&rig.softtimers(&words), "capturing on")?
        } else {
            rig.started(&format!("tcpdump -i r0 -w {path} -B 16384 -Z root {flags}"), "listening on")?
        };
        let before = busy(monitor.id())?;
        let generator = rig.generator(0, offer)?;
        if stalls {
            pause(offer.length() / 3);
            signal(monitor.id(), "STOP")?;
            pause(STALL);
            signal(monitor.id(), "CONT")?;
        }
        let offered = finish(generator)?;
        // By then the last packets have been handed over.
        pause(LAST);
        let used = busy(monitor.id())? - before;
        let captured = if self.ours {
            let report = monitor.ended()?;
            figures::put(round, self.name, &report, &DELAYS);
            figures::at(&report, "captured").context("captured")?
        } else {
            signal(monitor.id(), "TERM")?;
            let (_, talk) = monitor.output()?;
            let number =
                |line: &str| line.trim().strip_suffix("packets captured")?.trim().parse::<u64>().ok();
            talk.lines().find_map(number).context("packets captured")? as f64
        };
        let sent = offered.sent as f64;
        round.put(self.name, OFFERED, offered.pps / 1e3);
        round.put(self.name, LOST, 100.0 * (1.0 - captured / sent).max(0.0));
        round.put(self.name, COST, (captured > 0.0).then(|| 1e9 * used / captured));
        eprintln!("{:7.1} s  {}: {captured} of {sent}, {:.0} ms of CPU", now(), self.name, 1e3 * used);
        Ok(())
    }
}

/// The capture file; removed when this is dropped.
#[derive(Debug)]
struct File(PathBuf);

impl File {
    fn new() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("softtimers-monitors-{}", std::process::id()));
        std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        Ok(File(directory.join("trace.pcapng")))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = self.0.parent().map(std::fs::remove_dir_all);
    }
}

const RATE: f64 = 100_000.0;
const STALL: Duration = Duration::from_millis(300);
/// Both hand over after a second at the latest.
const LAST: Duration = Duration::from_millis(1_200);
const OFFERED: &str = "offered kpps";
const LOST: &str = "lost %";
const COST: &str = "ns of CPU";
const DELAY: &str = "delay p99 ms";
const WORST: &str = "worst delay ms";
const DELAYS: [Figure; 2] = [(DELAY, 1, "delay_ns.p99", 1e-6), (WORST, 1, "delay_ns.max", 1e-6)];

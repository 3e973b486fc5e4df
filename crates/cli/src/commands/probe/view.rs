//! The live view of `probe`: a line for each CPU on stderr, refreshed each second, on a terminal only.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use softtimers::Timestamp;
use softtimers_bpf::Intervals;
use softtimers_measure::stats::Stats;
use softtimers_measure::units::show_duration;

use super::args::KernelProbe;
use super::stats::{CpuSecond, ProbeStats};

/// The view, until it is dropped.
#[derive(Debug)]
pub(super) struct View {
    shown: bool,
    lines: usize,
    at: Option<Timestamp>,
    before: Intervals,
}

impl View {
    /// Creates an empty view, which stays empty unless `wanted` and stderr is a terminal.
    pub(super) fn new(wanted: bool) -> Self {
        View { shown: wanted && io::stderr().is_terminal(), lines: 0, at: None, before: Intervals::default() }
    }

    /// Shows the counts since the last refresh, if that was a second ago.
    pub(super) fn look(&mut self, now: Timestamp, counted: &Intervals, plan: &KernelProbe) {
        let Some(at) = self.at.filter(|_| self.shown) else {
            (self.at, self.before) = (Some(now), counted.clone());
            return;
        };
        let passed = now.saturating_duration_since(at);
        if passed < SECOND {
            return;
        }
        let mut stats = ProbeStats::new(plan.probe.processors.as_deref());
        stats.count(&counted.since(&self.before));
        let cpus = stats.figures(passed).cpus;
        let mut text = self.erased();
        cpus.iter().for_each(|cpu| text += &line(cpu, passed));
        self.lines = cpus.len();
        let _ = io::stderr().lock().write_all(text.as_bytes());
        (self.at, self.before) = (Some(now), counted.clone());
    }

    fn erased(&self) -> String {
        if self.lines == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.lines) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = io::stderr().lock().write_all(self.erased().as_bytes());
    }
}

fn line(cpu: &CpuSecond, passed: Duration) -> String {
    let rate = cpu.interval_ns.count as f64 / passed.as_secs_f64();
    let mut line = format!("cpu {:<3} {rate:>9.0}/s", cpu.cpu);
    if let (Some(mean), Some(median)) = (cpu.interval_ns.mean, cpu.interval_ns.p50) {
        let show = |nanos: u64| show_duration(Duration::from_nanos(nanos));
        let _ = write!(line, "  mean {}  median {}", show(mean as u64), show(median));
    }
    let percent = |share: Option<f64>| share.unwrap_or(0.0) * 100.0;
    let _ =
        write!(line, "  over 100us {:.2}%  idle {:.0}%", percent(cpu.over_100us), percent(cpu.idle_share));
    line + "\n"
}

const SECOND: Duration = Duration::from_secs(1);

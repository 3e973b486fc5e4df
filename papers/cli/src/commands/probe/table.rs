//! The report of `probe` as a table.

use softtimers_measure::distribution::Distribution;

use super::args::KernelProbe;
use super::companion::Ended;
use super::show::{CpuReport, MissReport, Overhead, ProbeConfig, ProbeReport};
use super::stats::{CpuSecond, ProbeStats, SecondReport};
use softtimers_run::grid::Grid;
use softtimers_run::output::Report;
use softtimers_run::quantity::{self, end, or_dash, time};
use softtimers_run::screen::Tone;
use softtimers_run::stream::Seconds;
use softtimers_run::table::{TIMES, Table};

impl Report<KernelProbe> for ProbeReport {
    const SCHEMA: &'static str = "softtimers.probe/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        if let Some(Ended { name, exit_code, signal, .. }) = &self.command {
            let how = match (exit_code, signal) {
                (Some(code), _) => format!("exit status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or(0)),
            };
            let failed = *exit_code != Some(0);
            table.toned("command", format!("{name}: {how}"), Tone::bad_if(failed));
        }
        if let Some(overhead) = self.overhead.words() {
            table.row("overhead", overhead);
        }
        table.heading("Intervals between trigger states");
        table.grid(self.intervals());
        table.heading("Medians of windows of the run");
        table.grid(self.windows());
        table.heading("What ended intervals, and intervals as they would be without it");
        table.grid(self.sources());
        table.grid(self.misses());
        table
    }
}

/// Names the sources of trigger states, the CPUs, and the command.
pub(super) fn header(config: &ProbeConfig) -> String {
    let cpus = config.cpus.as_ref().map_or_else(
        || "all CPUs".to_owned(),
        |cpus| format!("CPU {}", cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    );
    let command = match config.command.first() {
        Some(program) => format!(", while {program} runs"),
        None => String::new(),
    };
    let end = end(config.duration_s, None, "interval");
    format!("probe of the kernel's trigger states on {cpus}{end}{command}: {}", config.sources.join(", "))
}

impl Seconds<KernelProbe> for ProbeStats {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("intervals", 10), ("mean", 8), ("max", 8), ("over 100 µs", 11), ("over 150 µs", 11), ("idle", 6)];

    fn cells(figures: &SecondReport) -> Vec<String> {
        let cpus = &figures.cpus;
        let counts = || cpus.iter().map(|cpu| cpu.interval_ns.count as f64);
        // The mean over CPUs, weighted by their intervals.
        let mean = |of: fn(&CpuSecond) -> Option<f64>| {
            let sum: f64 = cpus.iter().zip(counts()).filter_map(|(cpu, count)| Some(of(cpu)? * count)).sum();
            Some(sum / counts().sum::<f64>()).filter(|mean| mean.is_finite())
        };
        let idle: f64 = cpus.iter().filter_map(|cpu| cpu.idle_share).sum();
        vec![
            figures.intervals.to_string(),
            or_dash(mean(|cpu| cpu.interval_ns.mean), time),
            or_dash(cpus.iter().filter_map(|cpu| cpu.interval_ns.max).max(), time),
            or_dash(mean(|cpu| cpu.over_100us), quantity::share),
            or_dash(mean(|cpu| cpu.over_150us), quantity::share),
            quantity::share(idle / cpus.len().max(1) as f64),
        ]
    }
}

impl Overhead {
    fn words(&self) -> Option<String> {
        let (cost, low, high) = (self.per_trigger_ns?, self.per_trigger_low_ns?, self.per_trigger_high_ns?);
        let most = quantity::share(self.share.unwrap_or(0.0));
        Some(if low > 0.0 {
            format!("{cost:.0} ns ({low:.0} to {high:.0} ns) for a system call  {most} of the time at most")
        } else {
            format!("not distinguishable from 0 ({low:.0} to {high:.0} ns for a system call)")
        })
    }
}

impl ProbeReport {
    fn intervals(&self) -> Grid {
        let names =
            ["CPU", "intervals", "idle", "mean", "p50", "stddev", "max", "over 100 µs", "over 150 µs"];
        let mut grid = Grid::new(names).numbered();
        for cpu in &self.cpus {
            let (number, count) = (cpu.cpu.to_string(), cpu.interval_ns.count.to_string());
            let shares = [cpu.over_100us, cpu.over_150us].map(|over| or_dash(over, quantity::share));
            let idle = or_dash(cpu.idle.share, quantity::share);
            grid.row([number, count, idle].into_iter().chain(summary(&cpu.interval_ns)).chain(shares));
        }
        grid
    }

    fn windows(&self) -> Grid {
        let mut grid = Grid::new(["CPU", "window"].into_iter().chain(TIMES)).numbered().keys(2);
        for cpu in self.cpus.iter().filter(|cpu| cpu.interval_ns.count > 0) {
            for (window, Distribution { min, p50, p99, p999, max, .. }) in
                [("1 ms", cpu.median_1ms_ns), ("10 ms", cpu.median_10ms_ns)]
            {
                let times = [min, p50, p99, p999, max].map(|nanos| or_dash(nanos, time));
                grid.row([cpu.cpu.to_string(), window.to_owned()].into_iter().chain(times));
            }
        }
        grid
    }

    fn sources(&self) -> Grid {
        let names =
            ["CPU", "source", "share", "without mean", "without p50", "without stddev", "without max"];
        let mut grid = Grid::new(names).numbered().words(1).keys(2);
        for cpu in &self.cpus {
            for source in cpu.sources.iter().filter(|source| source.interval_ns.count > 0) {
                let name =
                    [cpu.cpu.to_string(), source.name.to_owned(), or_dash(source.share, quantity::share)];
                grid.row(name.into_iter().chain(summary(&source.without_ns)));
            }
        }
        grid
    }

    fn misses(&self) -> Grid {
        let mut grid = Grid::new(["CPU", "l1d misses", "l1i misses", "itlb misses"]).numbered();
        for CpuReport { cpu, misses: MissReport { l1d, l1i, itlb, .. }, .. } in &self.cpus {
            if l1d.or(*l1i).or(*itlb).is_some() {
                let misses = [l1d, l1i, itlb].map(|misses| or_dash(*misses, |misses| misses.to_string()));
                grid.row([cpu.to_string()].into_iter().chain(misses));
            }
        }
        grid
    }
}

/// Returns the columns of the paper's tables.
fn summary(intervals: &Distribution) -> [String; 4] {
    let whole = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64);
    let Distribution { mean, p50, stddev, max, .. } = *intervals;
    [mean, whole(p50), stddev, whole(max)].map(|nanos| or_dash(nanos, time))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::show::{IdleReport, SourceReport};
    use super::*;
    use softtimers_run::snapshot::{self, Live, times};
    use softtimers_run::stream::columns;

    #[test]
    fn snapshot() {
        let source =
            |name| SourceReport { name, share: Some(0.42), interval_ns: times(), without_ns: times() };
        let cpu = |cpu| CpuReport {
            cpu,
            interval_ns: times(),
            over_100us: Some(0.001),
            over_150us: Some(0.000_4),
            idle: IdleReport { share: Some(0.72), interval_ns: times() },
            sources: vec![source("syscall"), source("softirq")],
            samples: 65_536,
            median_1ms_ns: times(),
            median_10ms_ns: times(),
            misses: MissReport { l1d: Some(1_234_567), itlb: Some(89), ..MissReport::default() },
            ..CpuReport::default()
        };
        let report = ProbeReport {
            elapsed_s: 10.0,
            intervals: 99_946,
            overhead: Overhead {
                per_trigger_ns: Some(71.2),
                per_trigger_low_ns: Some(65.0),
                per_trigger_high_ns: Some(78.0),
                share: Some(0.012),
            },
            command: Some(Ended { name: "make".to_owned(), exit_code: Some(0), ..Ended::default() }),
            cpus: vec![cpu(0), cpu(1)],
            ..ProbeReport::default()
        };
        let config = ProbeConfig {
            duration_s: Some(10.0),
            cpus: None,
            sources: vec!["syscall", "softirq", "irq"],
            samples: 65_536,
            command: vec!["make".to_owned(), "-j2".to_owned()],
        };
        let second = CpuSecond {
            cpu: 0,
            interval_ns: times(),
            over_100us: Some(0.001),
            over_150us: Some(0.000_4),
            idle_share: Some(0.72),
            sources: vec![],
        };
        let seconds = SecondReport { intervals: 49_973, cpus: vec![second] };
        let live = Live::new(ProbeStats::COLUMNS, move |screen| {
            columns::<_, ProbeStats>(0, Duration::from_secs(1), &seconds, screen)
        });
        snapshot::check("probe", &header(&config), &live, &report);
    }
}

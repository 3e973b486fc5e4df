//! What something costs a web server: windows with it beside windows without.
//!
//! ```text
//!   without │ A │ B │ without │ C │ D │ without │ …      every second round backwards
//!        └─ A ─┘   └─ B ─┘
//! ```
//!
//! Each window is compared with the one without that it touches, so the machine's drift favours nobody; the median of these
//! ratios is told.

use softtimers_linux::misses::{Cache, MissCounter};
use softtimers_bpf::{Events, Facility, FacilityStats, Probe, ProbeConfig, Source, TimerStats, Timers};
use softtimers_lab::bench::Done;
use softtimers_measure::estimate::Estimate;

use crate::Bench;
use crate::server::Server;

/// Seconds of a window: wrk's shortest.
const WINDOW: u32 = 1;

/// What goes on beside the server.
#[derive(Clone, Debug)]
pub(crate) enum Beside {
    /// The meter, with these sources.
    Meter(Vec<Source>),
    /// Events, by the facility of this place.
    Events(usize, Events),
    /// The same by a `bpf_timer` that has nothing of the facility.
    Timer(Events),
}

/// The programs that are loaded, once for all windows.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) facilities: [Facility; 2],
    pub(crate) timers: Timers,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Came {
    kept: Vec<f64>,
    events: u64,
    by_backup: u64,
    backups: u64,
    expired: u64,
    late_ns: u64,
    requests: f64,
    missed: Option<[u64; 3]>,
}

impl Came {
    /// The share of the requests without.
    pub(crate) fn kept(&self) -> Option<Estimate> {
        Estimate::of(self.kept.iter().copied())
    }

    pub(crate) fn windows(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn events_per_second(&self) -> f64 {
        self.events as f64 / (self.kept.len() as f64 * f64::from(WINDOW))
    }

    /// The share of events that the backup fired; `None` of none.
    pub(crate) fn by_backup(&self) -> Option<f64> {
        (self.events > 0).then(|| self.by_backup as f64 / self.events as f64)
    }

    /// The share of events that fired at their deadline or later; `None` of none.
    pub(crate) fn expired(&self) -> Option<f64> {
        (self.events > 0).then(|| self.expired as f64 / self.events as f64)
    }

    pub(crate) fn backups_per_second(&self) -> f64 {
        self.backups as f64 / (self.kept.len() as f64 * f64::from(WINDOW))
    }

    /// In microseconds; `None` of none.
    pub(crate) fn late_mean(&self) -> Option<f64> {
        (self.events > 0).then(|| self.late_ns as f64 / self.events as f64 / 1e3)
    }

    /// What the server lost, in microseconds for each event; `None` of none.
    pub(crate) fn cost(&self) -> Option<f64> {
        let kept = self.kept().filter(|_| self.events > 0)?;
        Some((1.0 - kept.median) * 1e6 / self.events_per_second())
    }

    fn add(&mut self, window: Window, without: Window) {
        self.kept.push(window.requests / without.requests);
        self.events += window.stats.total();
        self.by_backup += window.stats.by_backup();
        self.backups += window.stats.backups;
        self.expired += window.stats.expired;
        self.late_ns += window.stats.late_sum_ns;
        self.requests += window.requests * f64::from(WINDOW);
        if let Some(missed) = window.missed {
            let all = self.missed.get_or_insert_default();
            all.iter_mut().zip(missed).for_each(|(all, missed)| *all += missed);
        }
    }

    /// Misses of the caches for each request, in the order of [`Cache::ALL`]; `None` where they are not counted.
    pub(crate) fn missed(&self) -> Option<[f64; 3]> {
        self.missed.map(|missed| missed.map(|missed| missed as f64 / self.requests))
    }
}

/// What came of one window.
#[derive(Clone, Copy, Debug)]
struct Window {
    requests: f64,
    stats: FacilityStats,
    missed: Option<[u64; 3]>,
}

impl Window {
    /// Whatever goes on beside the server has begun, and is told by `stats`, before and after.
    fn with(bench: &Bench, server: &Server, stats: impl Fn() -> Done<FacilityStats>) -> Done<Window> {
        let before = stats()?;
        let counters = counters(bench.server.number() as u32);
        let requests = server.rate(WINDOW)?;
        let missed = counters.and_then(|[one, two, three]| Ok([count(&one)?, count(&two)?, count(&three)?]));
        Ok(Window { requests, stats: stats()?.since(&before), missed: missed.ok() })
    }
}

/// All of them, in so many rounds, and the server alone.
pub(crate) fn contest(
    bench: &Bench,
    server: &Server,
    programs: &mut Programs,
    rounds: usize,
    contenders: &[&Beside],
) -> Done<(Vec<Came>, Came)> {
    let nothing = || Window::with(bench, server, || Ok(FacilityStats::default()));
    let mut alone = Came::default();
    let mut all: Vec<Came> = contenders.iter().map(|_| Came::default()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut without = nothing()?;
        alone.add(without, without);
        for pair in order.chunks(2) {
            let mut windows = vec![];
            for &which in pair {
                windows.push((which, window(bench, server, programs, contenders[which])?));
            }
            let next = nothing()?;
            alone.add(next, next);
            for (at, (which, window)) in windows.into_iter().enumerate() {
                all[which].add(window, if at == 0 { without } else { next });
            }
            without = next;
        }
    }
    Ok((all, alone))
}

fn window(bench: &Bench, server: &Server, programs: &mut Programs, beside: &Beside) -> Done<Window> {
    let cpu = bench.server.number() as u32;
    match beside {
        Beside::Meter(sources) => {
            let config = ProbeConfig { sources: sources.clone(), ..ProbeConfig::default() };
            let _probe = Probe::start(&config)?;
            Window::with(bench, server, || Ok(FacilityStats::default()))
        }
        Beside::Events(which, events) => {
            let run = programs.facilities[*which].run(events)?;
            Window::with(bench, server, || Ok(run.stats(cpu)?))
        }
        Beside::Timer(events) => {
            let run = programs.timers.run(events)?;
            Window::with(bench, server, || Ok(by_timer(run.stats(cpu)?)))
        }
    }
}

/// A timer has no slack, so all is at its deadline, and an interrupt.
fn by_timer(TimerStats { fired, late_sum_ns, late_max_ns }: TimerStats) -> FacilityStats {
    let mut stats = FacilityStats {
        backups: fired,
        expired: fired,
        late_sum_ns,
        late_max_ns,
        ..FacilityStats::default()
    };
    stats.fired[15] = fired;
    stats
}

fn count(counter: &MissCounter) -> Result<u64, String> {
    counter.count().map_err(|why| why.to_string())
}

/// Those of all caches, or why one of them is not counted.
pub(crate) fn counters(cpu: u32) -> Result<[MissCounter; 3], String> {
    let counter = |cache| MissCounter::of(cpu, cache).map_err(|why| why.to_string());
    Ok([counter(Cache::L1Data)?, counter(Cache::L1Instructions)?, counter(Cache::InstructionTlb)?])
}

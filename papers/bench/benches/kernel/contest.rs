//! Measures what an activity costs a web server: windows with it next to windows without.
//!
//! ```text
//!   without │ A │ B │ without │ C │ D │ without │ …      every second round backwards
//!        └─ A ─┘   └─ B ─┘
//! ```
//!
//! Each window is compared with the adjacent one without, so the machine's drift favours none.

use softtimers_bpf::{Events, Facility, Probe, ProbeConfig, Source, Timers};
use softtimers_linux::misses::{Cache, MissCounter};
use softtimers_papers_bench::bench::Done;
use softtimers_trials::paired::{Measured, Paired, Round};

use crate::Bench;
use crate::server::Server;

/// The length of a window in seconds: wrk's minimum.
const WINDOW: u32 = 1;

/// The activity next to the server.
#[derive(Clone, Debug)]
pub(crate) enum Beside {
    Nothing,
    /// The meter, with these sources.
    Meter(&'static [Source]),
    /// Events, by the facility with this index.
    Events(usize, Events),
    /// The same by a plain `bpf_timer`.
    Timer(Events),
}

/// The name of the activity, and the activity.
pub(crate) type Row = (String, Beside);

/// The programs, loaded once for all windows.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) facilities: [Facility; 2],
    pub(crate) timers: Timers,
}

pub(crate) const KEPT: &str = "requests kept";
pub(crate) const COST: &str = "µs an event costs";
pub(crate) const PAST: &str = "past the deadline %";
pub(crate) const BY_BACKUP: &str = "by the backup %";
/// The figures of a window.
pub(crate) const COLUMNS: [(&str, usize); 10] = [
    (KEPT, 3),
    ("events/s", 0),
    (COST, 2),
    (PAST, 3),
    (BY_BACKUP, 3),
    ("backups/s", 0),
    ("mean lateness µs", 1),
    ("misses a request: l1d", 1),
    ("l1i", 1),
    ("itlb", 1),
];
pub(crate) const ALONE: &str = "nothing";

/// Measures all of them, in `rounds` rounds, and the server alone.
pub(crate) fn contest(
    bench: &Bench,
    server: &Server,
    programs: &mut Programs,
    rounds: usize,
    rows: &[Row],
) -> Done<Measured> {
    // Other programs are the experiment.
    Paired::new(rounds).beside_others().as_a_whole().rounds(|number, round| {
        let mut order: Vec<&Row> = rows.iter().collect();
        if number % 2 == 1 {
            order.reverse();
        }
        let mut without = Window::timed(bench, server, programs, &Beside::Nothing)?;
        for pair in order.chunks(2) {
            let windows = pair.iter().map(|(_, beside)| Window::timed(bench, server, programs, beside));
            let windows = windows.collect::<Done<Vec<_>>>()?;
            let next = Window::timed(bench, server, programs, &Beside::Nothing)?;
            for (((name, _), window), beside) in pair.iter().zip(&windows).zip([&without, &next]) {
                window.put(round, name, beside);
            }
            without = next;
        }
        without.put(round, ALONE, &without);
        Ok(())
    })
}

/// Events fired, by the backup, and past their deadline; interrupts of the backup; the sum of their lateness in ns.
type Counts = [u64; 5];

/// The result of one window.
#[derive(Debug)]
struct Window {
    requests: f64,
    counts: Counts,
    missed: Option<[u64; 3]>,
}

impl Window {
    fn timed(bench: &Bench, server: &Server, programs: &mut Programs, beside: &Beside) -> Done<Window> {
        let cpu = bench.server.number() as u32;
        match beside {
            Beside::Nothing => Window::with(cpu, server, || Ok([0; 5])),
            Beside::Meter(sources) => {
                let config = ProbeConfig { sources: sources.to_vec(), ..ProbeConfig::default() };
                let _probe = Probe::start(&config)?;
                Window::with(cpu, server, || Ok([0; 5]))
            }
            Beside::Events(which, events) => {
                let run = programs.facilities[*which].run(events)?;
                Window::with(cpu, server, || {
                    let now = run.stats(cpu)?;
                    Ok([now.total(), now.by_backup(), now.expired, now.backups, now.late_sum_ns])
                })
            }
            Beside::Timer(events) => {
                let run = programs.timers.run(events)?;
                Window::with(cpu, server, || {
                    let now = run.stats(cpu)?;
                    // A timer has no slack, so each event comes at its deadline, with an interrupt.
                    Ok([now.fired, now.fired, now.fired, now.fired, now.late_sum_ns])
                })
            }
        }
    }

    /// Measures a window while an activity runs, with its `counts` before and after.
    fn with(cpu: u32, server: &Server, counts: impl Fn() -> Done<Counts>) -> Done<Window> {
        let (before, counters) = (counts()?, counters(cpu));
        let requests = server.rate(WINDOW)?;
        let missed = counters.and_then(|[one, two, three]| Ok([one.count()?, two.count()?, three.count()?]));
        let after = counts()?;
        let counts = std::array::from_fn(|at| after[at].saturating_sub(before[at]));
        Ok(Window { requests, counts, missed: missed.ok() })
    }

    fn put(&self, round: &mut Round, row: &str, without: &Window) {
        let seconds = f64::from(WINDOW);
        let [fired, by_backup, expired, backups, late_ns] = self.counts.map(|count| count as f64);
        let (kept, rate) = (self.requests / without.requests, fired / seconds);
        let missed = |cache: usize| Some(self.missed?[cache] as f64 / (self.requests * seconds));
        // Undefined figures are left out, such as shares of no events.
        let figures = [
            Some(kept),
            Some(rate),
            Some((1.0 - kept) * 1e6 / rate),
            Some(100.0 * expired / fired),
            Some(100.0 * by_backup / fired),
            Some(backups / seconds),
            Some(late_ns / fired / 1e3),
            missed(0),
            missed(1),
            missed(2),
        ];
        COLUMNS.iter().zip(figures).for_each(|((name, _), figure)| round.put(row, name, figure));
    }
}

/// Returns the counters of all caches, or why one of them is not counted.
pub(crate) fn counters(cpu: u32) -> std::io::Result<[MissCounter; 3]> {
    let counter = |cache| MissCounter::open(cpu, cache);
    Ok([counter(Cache::L1Data)?, counter(Cache::L1Instructions)?, counter(Cache::InstructionTlb)?])
}

//! Many tasks that tick, from ten thousand to a million ticks a second: [`grid`], and what slack saves: [`slack`].
//!
//! ```text
//!   {100, 1,000, 10,000 tasks} × {100 µs, 1 ms, 10 ms, 1 s}   at most a million ticks a second
//!     × {current_thread, 2 workers} × {idle, busy, wrapped}     beside two tasks a worker of 5 µs a poll
//!     × {tokio, default slack, slack 1 ms; the floor}           the floor: a loop on a timerfd and an epoll, without tasks
//! ```
//!
//! The tasks' first ticks are spread evenly over the period. A tick is late by the time from its place to its task's next line.

use std::future::Future;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Backup, Clock, Monotonic};
use softtimers_lab::bench::Done;
use softtimers_lab::cpu::of_process;
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::{Paired, Round};
use softtimers_measure::result::Table;
use softtimers_tokio::{Driver, Slack, wrap};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// How long each cell runs; one of seconds needs some of its ticks.
const TIME: Duration = Duration::from_millis(300);
const MOST: f64 = 1_000_000.0;
const TASKS: [u32; 3] = [100, 1_000, 10_000];
const PERIODS: [(&str, Duration); 4] = [
    ("100 µs", Duration::from_micros(100)),
    ("1 ms", Duration::from_millis(1)),
    ("10 ms", Duration::from_millis(10)),
    ("1 s", Duration::from_secs(1)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Idle,
    Busy,
    Wrapped,
}

/// One cell of the grid.
struct Cell {
    name: String,
    tasks: u32,
    period: Duration,
    workers: usize,
    beside: Beside,
}

impl Cell {
    fn rate(&self) -> f64 {
        f64::from(self.tasks) / self.period.as_secs_f64()
    }

    fn row(&self, contender: &str) -> String {
        format!("{}: {contender}", self.name)
    }

    fn runtime(&self) -> Done<Runtime> {
        let mut builder =
            if self.workers == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        if self.workers > 1 {
            builder.worker_threads(self.workers);
        }
        Ok(builder.enable_all().build()?)
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (workers, runtime) in [(1, "current_thread"), (2, "2 workers")] {
        for (beside, load) in [(Beside::Idle, "idle"), (Beside::Busy, "busy"), (Beside::Wrapped, "wrapped")] {
            for tasks in TASKS {
                for (period_name, period) in PERIODS {
                    let name = format!("{runtime}, {load}, {tasks} × {period_name}");
                    cells.push(Cell { name, tasks, period, workers, beside });
                }
            }
        }
    }
    cells.retain(|cell| cell.rate() <= MOST);
    cells
}

/// Whose timers.
#[derive(Clone, Copy)]
enum Whose {
    Tokio,
    Soft(Slack),
    Floor,
}

const DEFAULT: &str = "default slack";
const TOKIO: &str = "tokio";
const MILLI: &str = "slack 1 ms";
const FLOOR: &str = "floor";

const RATE: &str = "rate";
const P50: &str = "p50 µs";
const P99: &str = "p99 µs";
const P999: &str = "p99.9 µs";
const CPU: &str = "CPU µs a tick";
const SETTIMES: &str = "settimes a tick";
const WAKE_UPS: &str = "wake-ups a tick";
const SLEEPS: &str = "sleeps a tick";
const FIGURES: [(&str, usize); 8] =
    [(RATE, 3), (P50, 0), (P99, 0), (P999, 0), (CPU, 2), (SETTIMES, 3), (WAKE_UPS, 3), (SLEEPS, 3)];

pub(crate) fn grid(rounds: &usize) -> Done<Vec<Table>> {
    let contenders = [
        (TOKIO, Whose::Tokio),
        (DEFAULT, Whose::Soft(Slack::DEFAULT)),
        (MILLI, Whose::Soft(Slack::millis(1))),
        (FLOOR, Whose::Floor),
    ];
    let cells = cells();
    let measured = Paired::new(*rounds).as_a_whole().contest(
        &cells,
        &mut contenders.clone(),
        |cell, (name, whose), round| measure(cell, name, *whose, round),
    )?;
    let rows = cells.iter().flat_map(|cell| contenders.map(|(name, _)| cell.row(name)));
    // A floor needs no tasks, so there is one for the cells without others.
    let rows = rows.filter(|row| measured.median(row, RATE).is_some());
    let mut table = Table::of("grid", &measured, rows, &FIGURES);
    for cell in cells.iter().filter(|cell| cell.workers == 2 && cell.beside == Beside::Idle) {
        let of = |name: &str, figure: &str| measured.estimate(&cell.row(name), figure);
        let said = |what: &str| format!("{}: {what}", cell.name);
        table.bar(Bar::at_least(said("rate, default slack"), 0.99, of(DEFAULT, RATE)));
        let most = if cell.rate() >= MOST { 1_000.0 } else { 150.0 };
        table.bar(Bar::at_most(said("p99 µs, default slack"), most, of(DEFAULT, P99)));
        table.bar(Bar::at_most(said("p99 µs, slack 1 ms"), 1_200.0, of(MILLI, P99)));
        let ratio = |of: &str, to: &str| measured.ratio(CPU, &cell.row(of), &cell.row(to));
        let most = if cell.rate() <= 10_000.0 { 1.1 } else { 1.5 };
        table.bar(Bar::at_most(said("CPU, slack 1 ms against tokio's"), most, ratio(MILLI, TOKIO)));
        table.bar(Bar::at_most(said("CPU, default slack against the floor"), 2.0, ratio(DEFAULT, FLOOR)));
    }
    Ok(vec![table])
}

/// What a longer slack saves at each density: the CPU time of a tick, and of the floor.
pub(crate) fn slack(rounds: &usize) -> Done<Vec<Table>> {
    let mut contenders: Vec<(String, Whose)> = [0, 10, 50, 100, 200, 500, 1_000, 2_000]
        .map(|micros| (format!("slack {micros} µs"), Whose::Soft(Slack::micros(micros))))
        .into();
    contenders.push((TOKIO.to_owned(), Whose::Tokio));
    contenders.push((FLOOR.to_owned(), Whose::Floor));
    let mut cells = cells();
    cells.retain(|cell| {
        cell.workers == 2 && cell.beside == Beside::Idle && cell.period == Duration::from_millis(10)
    });
    let names: Vec<String> = contenders.iter().map(|(name, _)| name.clone()).collect();
    let measured = Paired::new(*rounds).as_a_whole().contest(
        &cells,
        &mut contenders,
        |cell, (name, whose), round| measure(cell, name, *whose, round),
    )?;
    let rows = cells.iter().flat_map(|cell| names.iter().map(|name| cell.row(name)));
    Ok(vec![Table::of("slack", &measured, rows, &FIGURES)])
}

/// What ticked in a cell.
#[derive(Default)]
struct Ticked {
    /// In nanoseconds.
    late: Vec<u32>,
    took: Duration,
    cpu: Duration,
    sleeps: u64,
    settimes: Option<u64>,
    wake_ups: Option<u64>,
}

fn measure(cell: &Cell, name: &str, whose: Whose, round: &mut Round) -> Done {
    let mut ticked = match whose {
        Whose::Floor if cell.beside == Beside::Idle => floor(cell)?,
        Whose::Floor => return Ok(()),
        _ => cell.runtime()?.block_on(tasks(cell, whose)),
    };
    ticked.late.sort_unstable();
    let ticks = ticked.late.len().max(1);
    let row = cell.row(name);
    let late =
        |share: f64| f64::from(ticked.late.get((ticks as f64 * share) as usize).copied().unwrap_or(0)) / 1e3;
    let each = |count: u64| count as f64 / ticks as f64;
    round.put(&row, RATE, ticked.late.len() as f64 / (cell.rate() * ticked.took.as_secs_f64()));
    round.put(&row, P50, late(0.5));
    round.put(&row, P99, late(0.99));
    round.put(&row, P999, late(0.999));
    if cell.beside == Beside::Idle {
        round.put(&row, CPU, ticked.cpu.as_secs_f64() * 1e6 / ticks as f64);
        round.put(&row, SLEEPS, each(ticked.sleeps));
    }
    round.put(&row, SETTIMES, ticked.settimes.map(each));
    round.put(&row, WAKE_UPS, ticked.wake_ups.map(each));
    Ok(())
}

async fn tasks(cell: &Cell, whose: Whose) -> Ticked {
    let stop = Arc::new(AtomicBool::new(false));
    if cell.beside != Beside::Idle {
        for _ in 0..2 * cell.workers {
            match cell.beside {
                Beside::Wrapped => tokio::spawn(wrap(work(stop.clone()))),
                _ => tokio::spawn(work(stop.clone())),
            };
        }
    }
    let start = Instant::now() + SET_UP;
    let end = start + TIME.max(cell.period.min(Duration::from_secs(1)));
    let tasks: Vec<_> = (0..cell.tasks)
        .map(|number| {
            let first = start + cell.period * number / cell.tasks;
            tokio::spawn(tick(whose, first, cell.period, end))
        })
        .collect();
    softtimers_tokio::sleep_until(start).await;
    let (cpu, sleeps) = (of_process(), sleeps());
    let before = Driver::current().stats();
    softtimers_tokio::sleep_until(end).await;
    let after = Driver::current().stats();
    let soft = matches!(whose, Whose::Soft(_));
    let mut ticked = Ticked {
        late: Vec::new(),
        took: start.elapsed(),
        cpu: of_process() - cpu,
        sleeps: self::sleeps() - sleeps,
        settimes: soft.then(|| after.set - before.set),
        wake_ups: soft.then(|| after.wake_ups - before.wake_ups),
    };
    for task in tasks {
        ticked.late.extend(task.await.expect("a task that only ticks"));
    }
    ticked.took = end.duration_since(start);
    stop.store(true, Ordering::Relaxed);
    ticked
}

/// The lateness of each tick before the end.
fn tick(
    whose: Whose,
    first: Instant,
    period: Duration,
    end: Instant,
) -> impl Future<Output = Vec<u32>> + Send {
    let most = end.saturating_duration_since(first).div_duration_f64(period) as usize + 2;
    let late = |place: Instant| u32::try_from(place.elapsed().as_nanos()).unwrap_or(u32::MAX);
    async move {
        let mut all = Vec::with_capacity(most);
        match whose {
            Whose::Soft(slack) => {
                let mut ticks = softtimers_tokio::interval_at(first, period).with_slack(slack);
                while Instant::now() < end {
                    let place = ticks.tick().await;
                    all.push(late(place));
                }
            }
            _ => {
                let mut ticks = tokio::time::interval_at(first, period);
                while Instant::now() < end {
                    let place = ticks.tick().await;
                    all.push(late(place));
                }
            }
        }
        // The last one was after the end.
        all.pop();
        all
    }
}

/// 5 µs a poll.
async fn work(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(5) {
            std::hint::spin_loop();
        }
        tokio::task::yield_now().await;
    }
}

/// One thread, a timerfd in an epoll, and arithmetic: what the same wake-ups cost without tasks. It may be as late as the
/// default slack allows.
fn floor(cell: &Cell) -> Done<Ticked> {
    let mut backup = Backup::deadline()?;
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    epoll.add(backup.as_fd(), 0, EventFlags::IN)?;
    let mut events = Events::with_capacity(1);
    let slack = (cell.period / 10).min(Duration::from_micros(50));
    let gap = cell.period.as_nanos() as u64 / u64::from(cell.tasks);
    let (start, cpu, sleeps) = (Monotonic.now(), of_process(), sleeps());
    let time = TIME.max(cell.period.min(Duration::from_secs(1)));
    let mut ticked = Ticked { took: time, ..Ticked::default() };
    let mut next = start + Duration::from_nanos(gap);
    loop {
        let now = Monotonic.now();
        while next <= now {
            ticked.late.push(now.saturating_duration_since(next).as_nanos() as u32);
            next += Duration::from_nanos(gap);
        }
        if now >= start + time {
            break;
        }
        backup.arm(now, Some(next + slack))?;
        epoll.wait(&mut events, None)?;
        backup.expired()?;
    }
    (ticked.cpu, ticked.sleeps) = (of_process() - cpu, self::sleeps() - sleeps);
    Ok(ticked)
}

/// How often the threads of this process have gone to sleep: in the kernel's wait for events, or for a lock (a futex).
fn sleeps() -> u64 {
    let status = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    status.filter_map(of).sum()
}

/// To spawn ten thousand tasks takes some milliseconds.
const SET_UP: Duration = Duration::from_millis(60);

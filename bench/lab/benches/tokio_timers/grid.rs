//! Many ticking tasks, from a hundred to a million ticks a second: [`grid`], and the savings by slack: [`slack`].
//!
//! ```text
//!   {100, 1,000, 10,000 tasks} × {1 ms, 10 ms, 100 ms, 1 s}   at most a million ticks a second
//!     × {current_thread, 2 workers} × {idle, busy, wrapped}     beside two tasks a worker of 5 µs a poll
//!     × {tokio, default slack, slack 1 ms, tokio-timerfd; floor, sleeping thread}
//! ```
//!
//! The tasks' first ticks are spread evenly over the period. A tick's lateness is the time from its scheduled time to
//! its task's next line. The last two have no tasks and no runtime: a loop on one timerfd in an epoll, and a thread
//! that sleeps until each scheduled time.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Backup, Clock, Monotonic, Timestamp};
use softtimers_lab::bench::Done;
use softtimers_tokio::{Driver, Slack, wrap};
use softtimers_trials::bar::Bar;
use softtimers_trials::cpu::of_process;
use softtimers_trials::paired::{Measured, Paired, Round};
use softtimers_trials::result::Table;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::TOKIO;

/// The length of each cell. With a period of a second it sees the ticks of that fraction of the tasks.
const TIME: Duration = Duration::from_millis(300);
const MOST: f64 = 1_000_000.0;
const TASKS: [u32; 3] = [100, 1_000, 10_000];
const PERIODS: [(&str, Duration); 4] = [
    ("1 ms", Duration::from_millis(1)),
    ("10 ms", Duration::from_millis(10)),
    ("100 ms", Duration::from_millis(100)),
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

/// The timers of a cell.
#[derive(Clone, Copy)]
enum Whose {
    Tokio,
    Soft(Slack),
    /// tokio-timerfd's: one descriptor per task.
    TimerFd,
    Floor,
    Thread,
}

impl Whose {
    /// Says whether it is measured in this cell: some only when idle, and the thread, which has no runtime, only once.
    fn is_of(self, cell: &Cell) -> bool {
        match self {
            Whose::Tokio | Whose::Soft(_) => true,
            Whose::TimerFd | Whose::Floor => cell.beside == Beside::Idle,
            Whose::Thread => cell.beside == Beside::Idle && cell.workers == 2,
        }
    }
}

const DEFAULT: &str = "default slack";
const MILLI: &str = "slack 1 ms";
const TIMERFD: &str = "tokio-timerfd";
const FLOOR: &str = "floor";
const THREAD: &str = "sleeping thread";

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

const CONTENDERS: [(&str, Whose); 6] = [
    (TOKIO, Whose::Tokio),
    (DEFAULT, Whose::Soft(Slack::DEFAULT)),
    (MILLI, Whose::Soft(Slack::millis(1))),
    (TIMERFD, Whose::TimerFd),
    (FLOOR, Whose::Floor),
    (THREAD, Whose::Thread),
];

/// The cells of an idle runtime.
pub(crate) fn grid(rounds: &usize) -> Done<Vec<Table>> {
    cells_of("grid", *rounds, |beside| beside == Beside::Idle)
}

/// Those beside tasks that are always ready.
pub(crate) fn loaded(rounds: &usize) -> Done<Vec<Table>> {
    cells_of("loaded", *rounds, |beside| beside != Beside::Idle)
}

fn cells_of(key: &str, rounds: usize, is_of: impl Fn(Beside) -> bool) -> Done<Vec<Table>> {
    let cells: Vec<Cell> = cells().into_iter().filter(|cell| is_of(cell.beside)).collect();
    let mut contenders = CONTENDERS;
    let measured =
        Paired::new(rounds).as_a_whole().contest(&cells, &mut contenders, |cell, (name, whose), round| {
            measure(cell, name, *whose, round)
        })?;
    let rows = cells.iter().flat_map(|cell| CONTENDERS.map(|(name, whose)| (cell, name, whose)));
    let rows = rows.filter(|(cell, _, whose)| whose.is_of(cell)).map(|(cell, name, _)| cell.row(name));
    let mut table = Table::of(key, &measured, rows, &FIGURES);
    "cell".clone_into(&mut table.columns[0]);
    for cell in &cells {
        bars(&mut table, &measured, cell);
    }
    Ok(vec![table])
}

/// On time, never later than tokio, and cheap.
fn bars(table: &mut Table, measured: &Measured, cell: &Cell) {
    let of = |name: &str, figure: &str| measured.estimate(&cell.row(name), figure);
    let ratio = |figure: &str, of: &str, to: &str| measured.ratio(figure, &cell.row(of), &cell.row(to));
    let said = |what: &str| format!("{}: {what}", cell.name);
    table.bar(Bar::at_most(said("p99, default slack against tokio's"), 1.0, ratio(P99, DEFAULT, TOKIO)));
    if cell.beside != Beside::Idle {
        return;
    }
    table.bar(Bar::at_least(said("rate, default slack against tokio's"), 1.0, ratio(RATE, DEFAULT, TOKIO)));
    let most = if cell.rate() >= MOST { 1_000.0 } else { 150.0 };
    table.bar(Bar::at_most(said("p99 µs, default slack"), most, of(DEFAULT, P99)));
    table.bar(Bar::at_most(said("p99 µs, slack 1 ms"), 1_200.0, of(MILLI, P99)));
    table.bar(Bar::at_most(said("CPU, slack 1 ms against tokio's"), 1.1, ratio(CPU, MILLI, TOKIO)));
    table.bar(Bar::at_most(said("CPU, default slack against the floor"), 1.5, ratio(CPU, DEFAULT, FLOOR)));
}

/// The savings of a longer slack at each density: the CPU time of a tick, and of the floor.
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
    let mut table = Table::of("slack", &measured, rows, &FIGURES);
    "cell".clone_into(&mut table.columns[0]);
    Ok(vec![table])
}

/// The ticks of a cell.
#[derive(Default)]
struct Ticked {
    /// The lateness of each, in nanoseconds.
    late: Vec<u32>,
    took: Duration,
    cpu: Duration,
    sleeps: u64,
    settimes: Option<u64>,
    wake_ups: Option<u64>,
}

fn measure(cell: &Cell, name: &str, whose: Whose, round: &mut Round) -> Done {
    if !whose.is_of(cell) {
        return Ok(());
    }
    let mut ticked = match whose {
        Whose::Floor => floor(cell)?,
        Whose::Thread => thread(cell),
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
    let end = start + TIME;
    let tasks: Vec<_> = (0..cell.tasks)
        .map(|number| {
            let first = start + cell.period * number / cell.tasks;
            tokio::spawn(ticks(whose, first, cell.period, end))
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
        took: TIME,
        cpu: of_process() - cpu,
        sleeps: self::sleeps() - sleeps,
        settimes: soft.then(|| after.set - before.set),
        wake_ups: soft.then(|| after.wake_ups - before.wake_ups),
    };
    for task in tasks {
        ticked.late.extend(task.await.expect("a task that only ticks"));
    }
    stop.store(true, Ordering::Relaxed);
    ticked
}

/// Records the lateness of each tick before the end.
async fn ticks(whose: Whose, first: Instant, period: Duration, end: Instant) -> Vec<u32> {
    let most = end.saturating_duration_since(first).div_duration_f64(period) as usize + 2;
    let mut late = Vec::with_capacity(most);
    let places = std::iter::successors(Some(first), |place| Some(*place + period));
    let mut places = places.take_while(|place| *place < end);
    let mut note = |place: Instant| {
        let now = Instant::now();
        if now < end {
            late.push((now - place).as_nanos() as u32);
        }
        now < end
    };
    match whose {
        Whose::Soft(slack) => {
            let mut ticks = softtimers_tokio::interval_at(first, period).with_slack(slack);
            while places.next().is_some() && note(ticks.tick().await) {}
        }
        Whose::TimerFd => {
            let mut timer = tokio_timerfd::Delay::new(first.into_std()).expect("a descriptor for each task");
            for place in places {
                timer.reset(place.into_std());
                (&mut timer).await.expect("a timerfd");
                if !note(place) {
                    break;
                }
            }
        }
        _ => {
            let mut ticks = tokio::time::interval_at(first, period);
            while places.next().is_some() && note(ticks.tick().await) {}
        }
    }
    late
}

/// Works for 5 µs per poll.
async fn work(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(5) {
            std::hint::spin_loop();
        }
        tokio::task::yield_now().await;
    }
}

/// One thread, a timerfd in an epoll, and arithmetic: the cost of the same wake-ups without tasks. It may be late by
/// the default slack.
fn floor(cell: &Cell) -> Done<Ticked> {
    let mut backup = Backup::deadline()?;
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    epoll.add(backup.as_fd(), 0, EventFlags::IN)?;
    let mut events = Events::with_capacity(1);
    let slack = (cell.period / 10).min(Duration::from_micros(50));
    let mut error = None;
    let mut ticked = without_tasks(cell, |now, next| {
        let slept =
            backup.arm(now, Some(next + slack)).and_then(|()| epoll.wait(&mut events, None).map(drop));
        error = slept.and_then(|()| backup.expired().map(drop)).err();
        error.is_none()
    });
    ticked.settimes = Some(backup.stats().set);
    ticked.wake_ups = Some(backup.stats().expirations);
    error.map_or(Ok(ticked), |error| Err(error.into()))
}

/// One thread that sleeps until each scheduled time, with a thread's own 50 µs of slack.
#[expect(clippy::disallowed_methods, reason = "it is a contender")]
fn thread(cell: &Cell) -> Ticked {
    without_tasks(cell, |now, next| {
        std::thread::sleep(next.saturating_duration_since(now));
        true
    })
}

/// Ticks as often as all tasks of the cell together; `sleep` gets the time and the next scheduled time.
fn without_tasks(cell: &Cell, mut sleep: impl FnMut(Timestamp, Timestamp) -> bool) -> Ticked {
    let gap = cell.period / cell.tasks;
    let mut ticked = Ticked { took: TIME, ..Ticked::default() };
    ticked.late.reserve((TIME.as_nanos() / gap.as_nanos()) as usize + 1);
    let (start, cpu, sleeps) = (Monotonic.now(), of_process(), sleeps());
    let (mut now, mut next) = (start, start + gap);
    while now < start + TIME {
        while next <= now {
            ticked.late.push(now.saturating_duration_since(next).as_nanos() as u32);
            next += gap;
        }
        if !sleep(now, next) {
            break;
        }
        now = Monotonic.now();
    }
    (ticked.cpu, ticked.sleeps) = (of_process() - cpu, self::sleeps() - sleeps);
    ticked
}

/// Returns how often the threads of this process have gone to sleep: in the kernel's wait for events, or for a lock
/// (a futex).
fn sleeps() -> u64 {
    let status = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    status.filter_map(of).sum()
}

/// Spawning ten thousand tasks takes some milliseconds.
const SET_UP: Duration = Duration::from_millis(60);

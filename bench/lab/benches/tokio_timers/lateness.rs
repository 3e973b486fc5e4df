//! How late a task wakes up.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_measure::estimate::median;
use softtimers_tokio::wrap;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::Table;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::{BOTH, SOFT, Timers, run, table, take};

const DELAY: Duration = Duration::from_micros(100);
const PERIOD: Duration = Duration::from_micros(40);

/// Returns the median lateness of `sleeps` sleeps, in µs.
async fn median_lateness(timers: Timers, sleeps: usize) -> f64 {
    let mut late = Vec::with_capacity(sleeps);
    for _ in 0..sleeps {
        let deadline = Instant::now() + DELAY;
        timers.sleep_until(deadline).await;
        late.push(deadline.elapsed().as_nanos() as f64 / 1e3);
    }
    median(late).unwrap_or(f64::NAN)
}

const LATE: &str = "late, median µs";

pub(crate) fn idle(rounds: &usize) -> Done<Vec<Table>> {
    let measured = take(*rounds, &[()], |(), timers, round| {
        let late = run(median_lateness(timers, if timers == Timers::Soft { 400 } else { 30 }));
        round.put(timers.name(), LATE, late);
    })?;
    let mut table = table("idle", &measured, &[(LATE, 2)]);
    table.bar(Bar::at_most("idle: late, median µs", 40.0, measured.estimate(SOFT, LATE)));
    Ok(vec![table])
}

/// The work of the other tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Wrapped,
    Plain,
}

/// Two tasks of 5 µs per poll; returns the lateness next to them, and polls a second.
async fn beside(beside: Beside, timers: Timers) -> (f64, f64) {
    let polls = Rc::new(Cell::new(0u64));
    let work = |polls: Rc<Cell<u64>>| async move {
        loop {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(5) {
                std::hint::spin_loop();
            }
            polls.set(polls.get() + 1);
            tokio::task::yield_now().await;
        }
    };
    let tasks = LocalSet::new();
    for _ in 0..2 {
        match beside {
            Beside::Wrapped => tasks.spawn_local(wrap(work(polls.clone()))),
            Beside::Plain => tasks.spawn_local(work(polls.clone())),
        };
    }
    let begin = Instant::now();
    let late = tasks.run_until(median_lateness(timers, if timers == Timers::Soft { 300 } else { 30 })).await;
    (late, polls.get() as f64 / begin.elapsed().as_secs_f64())
}

pub(crate) fn busy(rounds: &usize) -> Done<Vec<Table>> {
    let tasks = [("wrapped tasks", Beside::Wrapped), ("plain tasks", Beside::Plain)];
    let row = |name: &str, timers: Timers| format!("{name}: {}", timers.name());
    let measured = take(*rounds, &tasks, |(name, tasks), timers, round| {
        let (late, rate) = run(beside(*tasks, timers));
        round.put(&row(name, timers), LATE, late);
        round.put(&row(name, timers), "polls/s", rate);
    })?;
    let rows = tasks.iter().flat_map(|(name, _)| BOTH.map(|timers| row(name, timers)));
    let mut table = Table::of("busy", &measured, rows, &[(LATE, 2), ("polls/s", 0)]);
    let soft = row("wrapped tasks", Timers::Soft);
    table.bar(Bar::at_most("busy, wrapped tasks: late, median µs", 15.0, measured.estimate(&soft, LATE)));
    table.bar(Bar::at_least("busy: polls/s", 50_000.0, measured.estimate(&soft, "polls/s")));
    Ok(vec![table])
}

/// Returns the ticks of half a second in percent of the expected ones, and the back-to-back ones in percent of them.
async fn ticks(timers: Timers) -> (f64, f64) {
    let time = Duration::from_millis(500);
    let start = Instant::now();
    let mut times = Vec::with_capacity(20_000);
    let (mut soft, mut tokio) = (softtimers_tokio::interval(PERIOD), tokio::time::interval(PERIOD));
    while start.elapsed() < time {
        match timers {
            Timers::Soft => soft.tick().await,
            Timers::Tokio => tokio.tick().await,
        };
        times.push(Instant::now());
    }
    let asked = time.as_nanos() / PERIOD.as_nanos();
    let short = times.windows(2).filter(|pair| pair[1] - pair[0] < PERIOD / 2).count();
    (times.len() as f64 / asked as f64 * 100.0, short as f64 / times.len() as f64 * 100.0)
}

pub(crate) fn interval(rounds: &usize) -> Done<Vec<Table>> {
    let columns = [("ticks kept %", 2), ("back to back %", 2)];
    let measured = take(*rounds, &[()], |(), timers, round| {
        let (kept, back_to_back) = run(ticks(timers));
        round.put(timers.name(), columns[0].0, kept);
        round.put(timers.name(), columns[1].0, back_to_back);
    })?;
    let mut table = table("interval", &measured, &columns);
    let soft = |column: usize| measured.estimate(SOFT, columns[column].0);
    table.bar(Bar::at_least("interval of 40 µs: ticks kept, %", 99.0, soft(0)));
    table.bar(Bar::at_most("interval of 40 µs: back to back, %", 2.0, soft(1)));
    Ok(vec![table])
}

//! How late a task wakes up.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use softtimers_bench::turns::quartiles;
use softtimers_tokio::wrap;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::{Rounds, Timers, figure, run};

const DELAY: Duration = Duration::from_micros(100);
const PERIOD: Duration = Duration::from_micros(40);

/// The median lateness of so many sleeps, in µs.
async fn median_lateness(timers: Timers, sleeps: usize) -> f64 {
    let mut late = Vec::with_capacity(sleeps);
    for _ in 0..sleeps {
        let deadline = Instant::now() + DELAY;
        timers.sleep_until(deadline).await;
        late.push(deadline.elapsed().as_nanos() as f64 / 1e3);
    }
    quartiles(late.into_iter())[1]
}

pub(crate) fn idle(rounds: usize) {
    let idle = Rounds::take(rounds, |timers| {
        run(median_lateness(timers, if timers == Timers::Soft { 400 } else { 30 }))
    });
    idle.line("idle: late, median", "µs", "≤ 40 µs");
}

/// What the tasks beside it do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Wrapped,
    Plain,
}

/// Two tasks of 5 µs a poll; the lateness beside them, and polls a second.
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

pub(crate) fn busy(rounds: usize) {
    let mut rates = Vec::new();
    let tasks = [("wrapped", Beside::Wrapped, "≤ 15 µs"), ("plain", Beside::Plain, "reported")];
    for (name, tasks, asked) in tasks {
        let busy = Rounds::take(rounds, |timers| {
            let (late, rate) = run(beside(tasks, timers));
            rates.push(rate);
            late
        });
        busy.line(&format!("busy, {name} tasks: late, median"), "µs", asked);
    }
    println!("| busy: polls a second | {} | | ≥ 50,000 |", figure(&rates, ""));
}

/// Ticks of half a second in percent of those asked for, and in percent of them those back to back.
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

pub(crate) fn interval(rounds: usize) {
    let mut short = Rounds { soft: Vec::new(), tokio: Vec::new() };
    let kept = Rounds::take(rounds, |timers| {
        let (kept, back_to_back) = run(ticks(timers));
        match timers {
            Timers::Soft => short.soft.push(back_to_back),
            Timers::Tokio => short.tokio.push(back_to_back),
        }
        kept
    });
    kept.line("interval of 40 µs: ticks kept", "%", "≥ 99%");
    short.line("interval of 40 µs: back to back", "%", "≤ 2%");
}

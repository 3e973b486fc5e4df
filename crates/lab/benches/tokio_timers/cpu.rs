//! What timers cost a process that does nothing else: CPU time and wake-ups.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers_tokio::{Driver, Slack};
use tokio::time::Instant;

use crate::{Rounds, Timers, figure, run};

/// The CPU time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const PERIOD: Duration = Duration::from_millis(1);
const TICKS: u32 = 300;

/// CPU time in percent of one processor, and wake-ups of ours a second, of 50 intervals 20 µs apart.
async fn fifty(timers: Timers, slack: Slack) -> (f64, f64) {
    let (start, before) = (Instant::now(), cpu_time());
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let first = start + Duration::from_micros(20 * number);
            tokio::spawn(async move {
                let mut soft = softtimers_tokio::interval_at(first, PERIOD).with_slack(slack);
                let mut tokio = tokio::time::interval_at(first, PERIOD);
                for _ in 0..TICKS {
                    match timers {
                        Timers::Soft => soft.tick().await,
                        Timers::Tokio => tokio.tick().await,
                    };
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task that only sleeps");
    }
    let took = start.elapsed().as_secs_f64();
    let busy = (cpu_time() - before).as_secs_f64();
    (busy / took * 100.0, Driver::current().stats().wake_ups as f64 / took)
}

pub(crate) fn staggered(rounds: usize) {
    let slacks = [
        ("slack 500 µs", Slack::micros(500), "≤ 2", "≤ 2,000/s"),
        ("default slack", Slack::DEFAULT, "reported", "≤ 20,000/s"),
    ];
    for (name, slack, asked, most) in slacks {
        let mut wake_ups = Vec::new();
        let cpu = Rounds::take(rounds, |timers| {
            let (cpu, woken) = run(fifty(timers, slack));
            if timers == Timers::Soft {
                wake_ups.push(woken);
            }
            cpu
        });
        cpu.line(&format!("50 staggered, {name}: CPU"), "%", "");
        cpu.ratio(&format!("50 staggered, {name}: CPU, ratio"), asked);
        println!("| 50 staggered, {name}: expiries a second | {} | | {most} |", figure(&wake_ups, ""));
    }
}

pub(crate) fn pending(rounds: usize) {
    let time = Duration::from_millis(200);
    let cpu = |timers| {
        run(async move {
            let hour = Duration::from_secs(3_600);
            for number in 0..10_000 {
                let deadline = Instant::now() + hour + Duration::from_micros(number);
                tokio::spawn(timers_sleep(timers, deadline));
            }
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            let before = cpu_time();
            tokio::time::sleep(time).await;
            (cpu_time() - before).as_secs_f64() / time.as_secs_f64() * 100.0
        })
    };
    Rounds::take(rounds, cpu).line("10,000 pending sleeps: CPU", "%", "none");
}

async fn timers_sleep(timers: Timers, deadline: Instant) {
    timers.sleep_until(deadline).await;
}

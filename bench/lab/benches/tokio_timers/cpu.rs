//! The cost of timers to a process that does nothing else: CPU time and wake-ups.

use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_tokio::{Driver, Slack};
use softtimers_trials::bar::Bar;
use softtimers_trials::cpu::of_thread;
use softtimers_trials::result::Table;
use tokio::time::Instant;

use crate::{SOFT, Timers, run, table, take};

const PERIOD: Duration = Duration::from_millis(1);
const TICKS: u32 = 300;

/// CPU time in percent of one CPU, and our wake-ups a second, of 50 intervals 20 µs apart.
async fn fifty(timers: Timers, slack: Slack) -> (f64, f64) {
    let (start, before) = (Instant::now(), of_thread());
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
    let busy = (of_thread() - before).as_secs_f64();
    (busy / took * 100.0, Driver::current().stats().wake_ups as f64 / took)
}

const CPU: &str = "CPU %";
const WAKE_UPS: &str = "expiries/s";

pub(crate) fn staggered(rounds: &usize) -> Done<Vec<Table>> {
    let slacks = [
        ("slack 500 µs", Slack::micros(500), Some(2.0), 2_000.0),
        ("default slack", Slack::DEFAULT, None, 20_000.0),
    ];
    let tables = slacks.map(|(name, slack, ratio, most)| {
        let measured = take(*rounds, &[()], |(), timers, round| {
            let (cpu, woken) = run(fifty(timers, slack));
            round.put(timers.name(), CPU, cpu);
            round.put(timers.name(), WAKE_UPS, (timers == Timers::Soft).then_some(woken));
        })?;
        let mut table = table(&format!("staggered, {name}"), &measured, &[(CPU, 2), (WAKE_UPS, 0)]);
        let against = measured.ratio(CPU, SOFT, Timers::Tokio.name());
        if let Some(ratio) = ratio {
            table.bar(Bar::at_most(format!("50 staggered, {name}: CPU, against tokio's"), ratio, against));
        } else if let Some(against) = against {
            table.note(format!("CPU, against tokio's: {:.2}", against.median));
        }
        table.bar(Bar::at_most(
            format!("50 staggered, {name}: expiries/s"),
            most,
            measured.estimate(SOFT, WAKE_UPS),
        ));
        Ok(table)
    });
    tables.into_iter().collect()
}

pub(crate) fn pending(rounds: &usize) -> Done<Vec<Table>> {
    let time = Duration::from_millis(200);
    let cpu = |timers: Timers| {
        run(async move {
            let hour = Duration::from_secs(3_600);
            for number in 0..10_000 {
                let deadline = Instant::now() + hour + Duration::from_micros(number);
                tokio::spawn(timers.sleep_until(deadline));
            }
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            let before = of_thread();
            tokio::time::sleep(time).await;
            (of_thread() - before).as_secs_f64() / time.as_secs_f64() * 100.0
        })
    };
    let measured = take(*rounds, &[()], |(), timers, round| round.put(timers.name(), CPU, cpu(timers)))?;
    Ok(vec![table("10,000 pending sleeps", &measured, &[(CPU, 2)])])
}

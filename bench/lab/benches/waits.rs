//! The length of a wait of 100 µs, by each way to wait: `cargo bench --manifest-path bench/Cargo.toml --bench waits [-- --rounds 15
//! --quick
//! --json FILE]`. That is the section `waits`; `settimes` measures the kernel's cost to set a timer, and to wake a
//! thread for nothing, which decide when moving a timer that is armed too early pays.
//!
//! The table of docs/choose.md for this machine. The program does nothing else; each way has 200 waits in each round,
//! in rotating order, and each figure is the median over the quiet rounds. CPU is that of the whole process.
#![forbid(unsafe_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use softtimers::{Clock, Config, Idle, Monotonic, Slack, SoftTimers, TimerSlack, Timestamp, Waiter};
use softtimers_lab::bench::{self, Done, Section};
use softtimers_linux::timerfd::TimerFd;
use softtimers_linux::wait::wait_readable;
use softtimers_measure::estimate::quantile;
use softtimers_tokio::Driver;
use softtimers_trials::cpu;
use softtimers_trials::paired::{Paired, Round};
use softtimers_trials::result::Table;
use tokio::runtime::Builder;

const DELAY: Duration = Duration::from_micros(100);
const WAITS: usize = 200;

const SECTIONS: [Section<usize>; 2] = [("waits", waits), ("settimes", settimes)];

fn main() -> ExitCode {
    bench::main("waits", &SECTIONS, |asked| Ok(asked.rounds()))
}

fn waits(rounds: &usize) -> Done<Vec<Table>> {
    let measured = Paired::new(*rounds).contest(&[()], &mut WAYS.clone(), |(), (name, way), round| {
        put(round, name, *way);
        Done::Ok(())
    })?;
    let columns = [(LATE, 0), (WORST, 0), (CPU, 0)];
    Ok(vec![Table::of("waits", &measured, WAYS.map(|(name, _)| name), &columns)])
}

const LATE: &str = "late, median µs";
const WORST: &str = "late, p99 µs";
const CPU: &str = "CPU µs of a wait";

/// The times ahead to which an armed timer is moved.
const AHEAD: [(&str, Duration); 5] = [
    ("moved to 40 µs ahead", Duration::from_micros(40)),
    ("moved to 100 µs ahead", Duration::from_micros(100)),
    ("moved to 1 ms ahead", Duration::from_millis(1)),
    ("moved to 10 ms ahead", Duration::from_millis(10)),
    ("moved to 1 s ahead", Duration::from_secs(1)),
];
const WOKEN: &str = "set to 100 µs ahead, slept for and read";
const EACH: &str = "CPU µs";

fn settimes(rounds: &usize) -> Done<Vec<Table>> {
    let timer = TimerFd::new()?;
    let measured = Paired::new(*rounds).rounds(|_, round| {
        for (name, ahead) in AHEAD {
            round.put(name, EACH, cpu_of(|| timer.arm_at(Monotonic.now() + ahead))?);
        }
        let woken = cpu_of(|| {
            timer.arm_at(Monotonic.now() + DELAY)?;
            wait_readable(timer.as_fd(), None)?;
            timer.drain().map(drop)
        });
        round.put(WOKEN, EACH, woken?);
        Done::Ok(())
    })?;
    let rows = AHEAD.map(|(name, _)| name).into_iter().chain([WOKEN]);
    let mut table = Table::of("settimes", &measured, rows, &[(EACH, 2)]);
    "a kernel timer".clone_into(&mut table.columns[0]);
    Ok(vec![table])
}

/// Returns the CPU time of one, in microseconds.
fn cpu_of(mut one: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let before = cpu::of_process();
    for _ in 0..10 * WAITS {
        one()?;
    }
    Ok((cpu::of_process() - before).as_secs_f64() * 1e6 / (10 * WAITS) as f64)
}

/// Makes [`WAITS`] waits and returns how late each was.
type Way = fn() -> Vec<Duration>;

const WAYS: [(&str, Way); 8] = [
    ("`std::thread::sleep`", || std_sleeps(None)),
    ("the same, timer slack 1 ns", || std_sleeps(Some(Duration::from_nanos(1)))),
    ("`tokio::time::sleep`", || in_tokio(async |due| tokio::time::sleep_until(due).await, None)),
    ("`softtimers_tokio::sleep`", || in_tokio(async |due| softtimers_tokio::sleep_until(due).await, None)),
    ("the same, `Slack::EXACT`", || in_tokio(exact, None)),
    ("the same, `Idle::hybrid()`", || in_tokio(exact, Some(Idle::hybrid()))),
    ("`softtimers::Waiter`", waiter),
    ("a loop that reads the clock", spin),
];

async fn exact(due: tokio::time::Instant) {
    softtimers_tokio::sleep_until(due).with_slack(Slack::EXACT).await;
}

/// Records the waits of one round.
fn put(round: &mut Round, name: &str, way: Way) {
    let before = cpu::of_process();
    let mut late = way();
    let cpu = (cpu::of_process() - before).as_secs_f64() * 1e6 / WAITS as f64;
    late.sort();
    let micros = |share: f64| quantile(&late, share).map(|late| late.as_secs_f64() * 1e6);
    for (figure, micros) in [(LATE, micros(0.5)), (WORST, micros(0.99)), (CPU, Some(cpu))] {
        round.put(name, figure, micros);
    }
}

fn each(mut wait: impl FnMut(Timestamp)) -> Vec<Duration> {
    let one = |_| {
        let due = Monotonic.now() + DELAY;
        wait(due);
        Monotonic.now().saturating_duration_since(due)
    };
    (0..WAITS).map(one).collect()
}

#[expect(clippy::disallowed_methods, reason = "what others do is what is measured")]
fn std_sleeps(slack: Option<Duration>) -> Vec<Duration> {
    let _slack = slack.map(TimerSlack::hold);
    each(|due| std::thread::sleep(due.saturating_duration_since(Monotonic.now())))
}

fn in_tokio(wait: impl AsyncFn(tokio::time::Instant), idle: Option<Idle>) -> Vec<Duration> {
    let mut builder = Builder::new_current_thread();
    let runtime = softtimers_tokio::trigger_at_park(&mut builder).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if let Some(idle) = idle {
            Driver::builder().idle(idle).start().expect("the first driver of its runtime");
        }
        let mut late = Vec::with_capacity(WAITS);
        for _ in 0..WAITS {
            let due = tokio::time::Instant::now() + DELAY;
            wait(due).await;
            late.push(due.elapsed());
        }
        late
    })
}

fn waiter() -> Vec<Duration> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (mut timers, mut waiter) = (SoftTimers::new(Config::default()), Waiter::new());
    each(|due| {
        timers.schedule_at(Monotonic.now(), due, Slack::EXACT, ());
        while waiter.readable(&socket, &mut timers).expect("a poll").is_none() {}
    })
}

fn spin() -> Vec<Duration> {
    each(|due| while Monotonic.now() < due {})
}

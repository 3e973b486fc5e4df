//! What a wait of 100 µs comes to, by each way to wait: `cargo bench -p softtimers-bench --bench waits [-- --quick]`.
//!
//! The table of docs/which-wait.md for this machine. The program does nothing else; each way has 200 waits in each
//! round, the rounds take turns, and each figure is the median over them. CPU is that of the whole process.
#![forbid(unsafe_code)]

use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers::{Clock, Config, Idle, Monotonic, Slack, SoftTimers, TimerSlack, Timestamp, Waiter};
use softtimers_bench::arguments;
use softtimers_bench::turns::{machine, quartiles};
use softtimers_cli::machine::Neighbours;
use softtimers_tokio::Driver;
use tokio::runtime::Builder;

const DELAY: Duration = Duration::from_micros(100);
const WAITS: usize = 200;

fn main() -> ExitCode {
    let Some(arguments) = arguments::of("waits") else { return ExitCode::SUCCESS };
    let rounds = match arguments.first().map(String::as_str) {
        None => 15,
        Some("--quick") => 1,
        Some(other) => {
            eprintln!("error: {other:?}: the only argument is --quick");
            return ExitCode::from(2);
        }
    };
    let neighbours = Neighbours::watch();
    let mut figures: Vec<Vec<Figures>> = WAYS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((_, way), figures) in WAYS.iter().zip(&mut figures) {
            figures.push(Figures::of(*way));
        }
    }
    println!(
        "{}\n\n| wait of 100 µs | late, median | late, p99 | CPU of a wait |\n|---|---|---|---|",
        machine()
    );
    for ((name, _), figures) in WAYS.iter().zip(&figures) {
        let median = |of: fn(&Figures) -> f64| quartiles(figures.iter().map(of))[1];
        let [late, worst, cpu] = [median(|f| f.late), median(|f| f.worst), median(|f| f.cpu)];
        println!("| {name} | {late:.0} µs | {worst:.0} µs | {cpu:.0} µs |");
    }
    if let Some(reason) = neighbours.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    ExitCode::SUCCESS
}

/// Makes [`WAITS`] waits and says how late each was.
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

/// Of the waits of one round, in µs.
struct Figures {
    late: f64,
    worst: f64,
    cpu: f64,
}

impl Figures {
    fn of(way: Way) -> Figures {
        let before = cpu_time();
        let mut late = way();
        let cpu = (cpu_time() - before).as_secs_f64() * 1e6 / WAITS as f64;
        late.sort();
        let micros = |at: usize| late[at].as_secs_f64() * 1e6;
        Figures { late: micros(WAITS / 2), worst: micros(WAITS * 99 / 100), cpu }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
            Driver::start(idle).expect("the first driver of its runtime");
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

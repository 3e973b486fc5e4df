//! The price of the operations that a timer is made of.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use serde::Serialize;
use softtimers::{Backup, Clock, Config, Monotonic, Slack, SoftTimers, TimerSlack, Timestamp, TriggerState};

use crate::distribution::{Distribution, Recorder};
use crate::output::Table;

/// Prices in nanoseconds; each is the least of several rounds, because a neighbour only adds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Costs {
    /// Reading the clock.
    pub clock_read_ns: f64,
    /// A trigger state at which nothing is due, the clock read included.
    pub turn_ns: f64,
    /// A system call that does nothing.
    pub syscall_ns: f64,
    /// Arming the backup for another time.
    pub timer_arm_ns: f64,
    /// CPU time of this thread for one sleep and its wake-up.
    pub wakeup_cpu_ns: f64,
    /// By how much a sleep of 200 µs is late with the thread's timer slack as it was.
    pub wakeup_late_default_ns: Distribution,
    /// The same with a slack of 1 ns.
    pub wakeup_late_slack1_ns: Distribution,
}

impl Costs {
    pub(super) fn add_to(&self, table: &mut Table) {
        table.row("clock read", format!("{:.1} ns", self.clock_read_ns));
        table.row("empty turn", format!("{:.1} ns, the clock read included", self.turn_ns));
        table.row("system call", format!("{:.0} ns", self.syscall_ns));
        table.row("arming a timer", format!("{:.0} ns", self.timer_arm_ns));
        table.row("wake-up, CPU", format!("{:.0} ns", self.wakeup_cpu_ns));
        table.distribution("late, default slack", &self.wakeup_late_default_ns);
        table.distribution("late, slack 1 ns", &self.wakeup_late_slack1_ns);
    }
}

pub(super) fn measure() -> io::Result<Costs> {
    let (clock_read_ns, turn_ns) = turn();
    let far = Monotonic.now() + Duration::from_secs(3_600);
    let mut backup = Backup::deadline()?;
    let mut armed = 0;
    let timer_arm_ns = price(2_000, || {
        armed += 1;
        // Each time is earlier than the last, so that none of the calls is saved.
        let earlier = far.saturating_sub(Duration::from_millis(armed));
        black_box(backup.arm(far, Some(earlier)).is_ok());
    });
    let wakeup_late_default_ns = sleeps()?.0;
    let slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let (wakeup_late_slack1_ns, wakeup_cpu_ns) = sleeps()?;
    drop(slack);
    Ok(Costs {
        clock_read_ns,
        turn_ns,
        syscall_ns: price(20_000, || {
            black_box(rustix::process::getppid());
        }),
        timer_arm_ns,
        wakeup_cpu_ns,
        wakeup_late_default_ns,
        wakeup_late_slack1_ns,
    })
}

/// A clock read, and a trigger state with one event pending far ahead: interleaved, so that both see
/// the same machine.
fn turn() -> (f64, f64) {
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Monotonic.now(), Duration::from_secs(3_600), Slack::EXACT, ());
    let (mut read, mut turn) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        read = read.min(round(100_000, || {
            black_box(Monotonic.now());
        }));
        turn = turn.min(round(100_000, || {
            let turn = timers.trigger(TriggerState::SyscallExit, Monotonic.now());
            black_box(timers.next(&turn).is_some());
        }));
    }
    (read, turn)
}

/// Lateness of sleeps of 200 µs, and the thread's CPU time for each.
fn sleeps() -> io::Result<(Distribution, f64)> {
    use rustix::time::{ClockId, clock_gettime};
    let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let mut late = Recorder::new();
    let before = cpu();
    for _ in 0..SLEEPS {
        let due = Monotonic.now() + Duration::from_micros(200);
        sleep_until(due)?;
        late.record_duration(Monotonic.now().saturating_duration_since(due));
    }
    let used = cpu().saturating_sub(before);
    Ok((late.distribution(), used.as_nanos() as f64 / f64::from(SLEEPS)))
}

fn sleep_until(due: Timestamp) -> io::Result<()> {
    loop {
        let left = due.saturating_duration_since(Monotonic.now());
        if left.is_zero() {
            return Ok(());
        }
        let left = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        match rustix::event::poll(&mut [], Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The least mean of several rounds of `calls` calls.
fn price(calls: u32, mut operation: impl FnMut()) -> f64 {
    (0..ROUNDS).map(|_| round(calls, &mut operation)).fold(f64::MAX, f64::min)
}

fn round(calls: u32, mut operation: impl FnMut()) -> f64 {
    let start = Monotonic.now();
    for _ in 0..calls {
        operation();
    }
    Monotonic.now().saturating_duration_since(start).as_nanos() as f64 / f64::from(calls)
}

const ROUNDS: u32 = 7;
const SLEEPS: u32 = 500;

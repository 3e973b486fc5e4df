//! The cost of a timer's basic operations.

mod signal;
mod sleeps;
mod slice;

use std::hint::black_box;
use std::io;
use std::time::Duration;

use serde::Serialize;
use softtimers::{Backup, Clock, Config, Monotonic, Slack, Slice, SoftTimers, TimerSlack, TriggerState};
#[cfg(target_arch = "x86_64")]
use softtimers_linux::tsc::TimeStampCounter;
use softtimers_measure::distribution::Distribution;

use crate::run::quantity::{self, or_dash, time};
use crate::run::table::Table;

/// Costs in nanoseconds, each the minimum over several rounds: interference can only add time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Costs {
    /// The time to read the clock.
    pub(crate) clock_read_ns: f64,
    /// A bare read of the CPU's own counter; `null` where this thread may not, or there is none.
    pub(crate) tsc_read_ns: Option<f64>,
    /// A trigger state at which nothing is due, the clock read included.
    pub(crate) turn_ns: f64,
    /// A soft event: scheduled, found due at a trigger state and returned, the clock read included.
    pub(crate) soft_event_ns: f64,
    /// A system call that does nothing.
    pub(crate) syscall_ns: f64,
    /// Arming the backup timer for another time.
    pub(crate) timer_arm_ns: f64,
    /// CPU time of this thread for one sleep and its wake-up.
    pub(crate) wakeup_cpu_ns: f64,
    /// CPU time for one sleep on a timer descriptor, its arming and reading included, and its wake-up.
    pub(crate) timerfd_wakeup_cpu_ns: f64,
    /// CPU time that an expiry of a timer takes from a computing thread, which it interrupts by a signal, at 10,000
    /// expiries a second; `null` if the system refuses such a timer.
    pub(crate) timer_signal_cpu_ns: Option<f64>,
    /// The cost of a soft event as a share of that of a timer's signal.
    pub(crate) soft_event_of_signal: Option<f64>,
    /// How late a sleep of 200 µs ends, with the thread's original timer slack.
    pub(crate) wakeup_late_default_ns: Distribution,
    /// How late such a sleep ends with a timer slack of 1 ns.
    pub(crate) wakeup_late_slack1_ns: Distribution,
    /// How long a computing thread keeps the CPU from another one; `null` if it did not.
    pub(crate) sched_slice_ns: Option<f64>,
    /// The slice of a thread as the kernel states it; `null` before Linux 6.12. The tick may make it longer.
    pub(crate) sched_slice_stated_ns: Option<f64>,
}

impl Costs {
    pub(super) fn add_to(&self, verbose: bool, table: &mut Table) {
        let how = if self.clock_read_ns < self.syscall_ns { "without" } else { "by" };
        table.row("clock read", format!("{} {how} a system call", time(self.clock_read_ns)));
        let share_of_signal = |share: f64| format!("  {} of a timer signal", quantity::share(share));
        let of_signal = self.soft_event_of_signal.map_or_else(String::new, share_of_signal);
        table.row("soft event", time(self.soft_event_ns) + &of_signal);
        table.row("timer signal", or_dash(self.timer_signal_cpu_ns, time));
        let (by_timeout, by_timer) = (time(self.wakeup_cpu_ns), time(self.timerfd_wakeup_cpu_ns));
        table.row("wake-up", format!("{by_timeout} by a time-out  {by_timer} by a timer descriptor"));
        if verbose {
            table.row("TSC read", or_dash(self.tsc_read_ns, time));
            table.row("empty check", time(self.turn_ns));
            table.row("system call", time(self.syscall_ns));
            table.row("arming a timer", time(self.timer_arm_ns));
            let stated = self
                .sched_slice_stated_ns
                .map(|stated| format!("  {} as the kernel states it", time(stated)));
            table.row("scheduler slice", or_dash(self.sched_slice_ns, time) + &stated.unwrap_or_default());
        }
        table.times("late, usual slack", &self.wakeup_late_default_ns);
        table.times("late, slack 1 ns", &self.wakeup_late_slack1_ns);
    }
}

pub(super) fn measure() -> io::Result<Costs> {
    let Turns { clock_read_ns, turn_ns, soft_event_ns } = turns();
    let wakeup_late_default_ns = sleeps::by_timeout()?.0;
    let slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let (wakeup_late_slack1_ns, wakeup_cpu_ns) = sleeps::by_timeout()?;
    let (_, timerfd_wakeup_cpu_ns) = sleeps::by_timer()?;
    drop(slack);
    // A sandbox may forbid these two; the other costs are useful all the same.
    let timer_signal_cpu_ns = signal::cpu_taken().ok();
    let sched_slice_ns = slice::measured().ok().flatten();
    Ok(Costs {
        clock_read_ns,
        tsc_read_ns: tsc_read(),
        turn_ns,
        soft_event_ns,
        syscall_ns: price(20_000, || {
            black_box(rustix::process::getppid());
        }),
        timer_arm_ns: arming()?,
        wakeup_cpu_ns,
        timerfd_wakeup_cpu_ns,
        timer_signal_cpu_ns,
        soft_event_of_signal: share_of(soft_event_ns, timer_signal_cpu_ns),
        sched_slice_ns,
        sched_slice_stated_ns: Slice::current().ok().map(|slice| slice.as_nanos() as f64),
        wakeup_late_default_ns,
        wakeup_late_slack1_ns,
    })
}

/// Returns the cost of a soft event as a share of a timer's signal; `None` if the signal was too cheap to be measured.
fn share_of(soft_event_ns: f64, signal_ns: Option<f64>) -> Option<f64> {
    signal_ns.filter(|&cost| cost > 0.0).map(|cost| soft_event_ns / cost)
}

/// Measures a bare read of the CPU's own counter, where there is one that this thread may read.
#[cfg(target_arch = "x86_64")]
fn tsc_read() -> Option<f64> {
    let counter = TimeStampCounter::of_this_thread().ok()??;
    Some(price(100_000, || {
        black_box(counter.ticks());
    }))
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_read() -> Option<f64> {
    None
}

fn arming() -> io::Result<f64> {
    let far = Monotonic.now() + Duration::from_secs(3_600);
    let mut backup = Backup::deadline()?;
    let mut armed = 0;
    Ok(price(2_000, || {
        armed += 1;
        // Each time is earlier than the last, so that no call can be skipped.
        let earlier = far.saturating_sub(Duration::from_millis(armed));
        black_box(backup.arm(far, Some(earlier)).is_ok());
    }))
}

struct Turns {
    clock_read_ns: f64,
    turn_ns: f64,
    soft_event_ns: f64,
}

/// Measures a clock read; a trigger state with one event pending far ahead; and one that finds an event due. They are
/// interleaved, so that all see the same machine.
fn turns() -> Turns {
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Monotonic.now(), Duration::from_secs(3_600), Slack::EXACT, ());
    let mut least = Turns { clock_read_ns: f64::MAX, turn_ns: f64::MAX, soft_event_ns: f64::MAX };
    for _ in 0..ROUNDS {
        least.clock_read_ns = least.clock_read_ns.min(round(100_000, || {
            black_box(Monotonic.now());
        }));
        least.turn_ns = least.turn_ns.min(round(100_000, || {
            let turn = timers.trigger(TriggerState::SyscallExit, Monotonic.now());
            black_box(timers.next(&turn).is_some());
        }));
        let mut handed_out = 0;
        let events = 20_000;
        least.soft_event_ns = least.soft_event_ns.min(round(events, || {
            let now = Monotonic.now();
            timers.schedule(now, Duration::ZERO, Slack::EXACT, ());
            let turn = timers.trigger(TriggerState::SyscallExit, now);
            while timers.next(&turn).is_some() {
                handed_out += 1;
            }
        }));
        debug_assert_eq!(handed_out, events);
    }
    least
}

/// Returns the minimum of the means of several rounds of `calls` calls.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Soft timers §5.1: 4.45 µs for a timer's interrupt, and almost nothing for a soft event.
    #[test]
    fn a_soft_event_is_a_share_of_a_timers_signal() {
        assert_eq!(share_of(50.0, Some(4_000.0)), Some(0.0125));
        assert_eq!(share_of(50.0, Some(0.0)), None);
        assert_eq!(share_of(50.0, None), None);
    }
}

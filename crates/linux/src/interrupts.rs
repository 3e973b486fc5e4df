//! [`Interrupts`]: the interrupts that a thread's CPU time leaves out.
//!
//! A sleep with a time-out ends by a timer's interrupt, which takes its time from the running thread. It is
//! most expensive in virtual machines, because the host emulates the timer: 16 µs where a system call takes
//! 0.2. And a kernel that accounts for interrupts separately (`CONFIG_IRQ_TIME_ACCOUNTING`) charges no thread
//! with the softirqs that its own system calls raise.

use std::io;
use std::time::Duration;

use softtimers_core::{Clock, Timestamp};

use crate::clock::{Monotonic, cpu_time};
use crate::timerfd::TimerFd;

/// How this machine's interrupts appear in a thread's CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interrupts {
    /// The time that a timer's interrupt takes from the thread that it comes to.
    pub timer: Duration,
    /// Whether they are left out of the CPU time of the interrupted thread.
    pub left_out: bool,
}

impl Interrupts {
    /// Measures them: reads the clock while timers go off, for about 1 ms.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn measure() -> io::Result<Self> {
        let timer = TimerFd::new()?;
        let mut gaps = [(0, 0); ROUNDS];
        for gap in &mut gaps {
            timer.arm_at(Monotonic.now() + AHEAD)?;
            *gap = longest_gap(Monotonic.now() + AHEAD * 2);
        }
        Ok(Interrupts::from_gaps(gaps))
    }

    /// Computes it from the longest gap of each round, and the time of the round that its thread was not
    /// charged with; uses medians, to exclude interference.
    fn from_gaps(gaps: [(u64, u64); ROUNDS]) -> Self {
        let (mut gap, mut uncharged) = (gaps.map(|(gap, _)| gap), gaps.map(|(_, uncharged)| uncharged));
        gap.sort_unstable();
        uncharged.sort_unstable();
        let (gap, uncharged) = (gap[ROUNDS / 2].min(LONGEST_INTERRUPT_NS), uncharged[ROUNDS / 2]);
        Interrupts {
            timer: Duration::from_nanos(gap),
            left_out: uncharged > gap / 2 && gap > SHORTEST_INTERRUPT_NS,
        }
    }
}

/// The longest time between two readings of the clock until `end`, and the time that was no CPU time of this thread's.
fn longest_gap(end: Timestamp) -> (u64, u64) {
    let (before, began) = (cpu_time(), Monotonic.now());
    let (mut last, mut longest) = (began, 0);
    while last < end {
        let now = Monotonic.now();
        longest = longest.max(now.as_nanos() - last.as_nanos());
        last = now;
    }
    let charged = cpu_time().saturating_sub(before).as_nanos() as u64;
    (longest, (last.as_nanos() - began.as_nanos()).saturating_sub(charged))
}

/// Returns how often this thread gave up its CPU or was taken off it.
pub fn switches() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` there, or nothing.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all zero is a valid one.
    let usage = unsafe { usage.assume_init() };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// An odd number, so that the median is one of them.
const ROUNDS: usize = 15;
/// Longer than it takes to arm the timer.
const AHEAD: Duration = Duration::from_micros(30);
/// In nanoseconds; a longer gap was not a timer's interrupt.
const LONGEST_INTERRUPT_NS: u64 = 50_000;
/// A gap that may be the clock's own.
const SHORTEST_INTERRUPT_NS: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_decide() {
        let mut gaps = [(3_000, 100); ROUNDS];
        gaps[..5].fill((9_000_000, 9_000_000));
        assert_eq!(
            Interrupts::from_gaps(gaps),
            Interrupts { timer: Duration::from_micros(3), left_out: false }
        );
        assert!(Interrupts::from_gaps([(3_000, 2_900); ROUNDS]).left_out);
        assert_eq!(
            Interrupts::from_gaps([(u64::MAX, 0); ROUNDS]).timer.as_nanos() as u64,
            LONGEST_INTERRUPT_NS
        );
    }

    #[test]
    fn this_machine_can_be_measured() {
        let found = Interrupts::measure().unwrap();
        assert!(found.timer <= Duration::from_nanos(LONGEST_INTERRUPT_NS));
    }

    #[test]
    fn a_sleep_is_a_switch() {
        let before = switches();
        std::thread::park_timeout(Duration::from_millis(1));
        assert!(switches() > before);
    }
}

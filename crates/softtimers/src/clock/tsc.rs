//! [`Tsc`]: the CPU's own counter as a clock, for programs in which nanoseconds matter.
//!
//! The kernel's clock reads this counter too, with a fence and a lock around it; reading it bare takes
//! 10 ns instead of 23. The kernel's work in the other 13 ns has to be done here, only less often: check
//! whether the counter can be trusted at all, learn its rate, and keep comparing.
//!
//! ```text
//!   new()     refused here? ─▶ 10 ms between two sandwiches ─▶ rate, anchor
//!   now()     rdtsc, subtract, compare, multiply, shift, add        up to 100 µs from the anchor
//!               └ beyond it, or before it ─▶ check
//!   woke()    check: after every sleep of an EventLoop, for anything may have happened meanwhile
//!   check     a sandwich against the kernel's clock: moves the anchor, or ends the use of the counter
//! ```

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use softtimers_core::{Clock, Timestamp};
#[cfg(target_arch = "x86_64")]
use softtimers_linux::tsc::TimeStampCounter;

use super::anchored::{AnchorStats, Anchored, Counter};
use super::line::Disagreement;
use super::{LoopClock, Monotonic};

/// The time stamp counter of x86-64, converted to the time line of [`Monotonic`]: half its cost, under
/// conditions.
///
/// Use it if a program reads the clock millions of times a second and a profile shows that cost. Otherwise
/// use [`Monotonic`], which cannot go wrong.
///
/// # Accuracy
///
/// The counter is compared with the kernel's clock at the first reading 100 µs after the last comparison,
/// and whenever the loop has slept ([`LoopClock::woke`], which a loop of your own calls after each wait).
/// A reading differs from `CLOCK_MONOTONIC`
///
/// | | by at most | seen |
/// |---|---|---|
/// | at a comparison | 0.5 µs, the widest sandwich that is accepted at once | 50 ns |
/// | until the next one, while the rates differ by less than a thousandth | 0.1 µs more | 1 ns more |
/// | once the counter has jumped, until the next comparison | 100 µs ahead, or any time behind | – |
/// | after that | as much as it was ahead; it stands still for that time | – |
///
/// So an event runs early by at most 0.6 µs, and by 100 µs after a fault of the machine. Readings never go
/// back. The counter is rejected once a comparison misses by more than a thousandth of the time since the
/// last one, with 1 µs of credit: it went back, leapt, changed its rate, or the kernel's clock did. From then
/// on this clock is the kernel's, as [`disagreement`](Tsc::disagreement) reports, until
/// [`recalibrate`](Tsc::recalibrate).
///
/// Suspending a machine is such a fault, because the kernel's clock does not count it. Restoring or moving a
/// virtual machine is another, unless the kernel's clock leaps with the counter, which it reads too.
///
/// # Threads
///
/// Each thread makes its own, since the permission to read the counter is per thread. A thread that revokes
/// its own permission later (`PR_SET_TSC`) must not read this clock again: that would be a SIGSEGV. Clocks of
/// two threads agree as well as each does with the kernel's. A reading is not ordered with the memory
/// accesses around it: it can be some ten nanoseconds older than a load before it.
///
/// ```
/// use std::time::Duration;
/// use softtimers::{Config, EventLoop, Happening, LoopConfig, Slack, SoftTimers, Tsc};
///
/// let clock = match Tsc::new() {
///     Ok(clock) => clock,
///     Err(refusal) => return Ok(eprintln!("{refusal}; take Monotonic")),
/// };
/// let mut events = EventLoop::with_clock(LoopConfig::default(), clock)?;
/// let mut timers = SoftTimers::new(Config::default());
/// timers.schedule(events.now(), Duration::from_micros(40), Slack::EXACT, "tick");
/// assert!(matches!(events.next(&mut timers)?, Happening::Due(fired) if fired.event == "tick"));
/// assert_eq!(events.clock().disagreement(), None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Tsc {
    clock: Anchored<Monotonic, TimeStampCounter>,
}

impl Tsc {
    /// Checks whether the counter can be trusted, and measures its rate to 50 ppm.
    ///
    /// # Cost
    ///
    /// Sleeps for 10 ms; up to three times that where the measurement is disturbed.
    ///
    /// # Errors
    ///
    /// [`TscError`] says why this machine or this thread has to use [`Monotonic`]. No clock is read before
    /// the thread's permission is known.
    pub fn new() -> Result<Self, TscError> {
        let clock = Anchored::calibrated(Monotonic, trusted_counter()?, pause).ok_or(TscError::Unsteady)?;
        Ok(Tsc { clock })
    }

    /// Measures the rate again, after which the counter is used again. Readings still do not go back.
    ///
    /// # Cost
    ///
    /// That of [`new`](Tsc::new).
    ///
    /// # Errors
    ///
    /// As for [`new`](Tsc::new); then the clock is left as it was.
    pub fn recalibrate(&self) -> Result<(), TscError> {
        trusted_counter()?;
        if self.clock.recalibrate(pause) { Ok(()) } else { Err(TscError::Unsteady) }
    }

    /// Returns why the counter is no longer used; `None` while it is.
    pub fn disagreement(&self) -> Option<Disagreement> {
        self.clock.disagreement()
    }

    /// Returns the counter's measured ticks per second; zero after a disagreement.
    pub fn counter_hz(&self) -> u64 {
        self.clock.counter_hz()
    }

    /// Returns the comparisons with the kernel's clock since the beginning, and their results.
    pub fn stats(&self) -> AnchorStats {
        self.clock.stats()
    }
}

impl Clock for Tsc {
    /// # Cost
    ///
    /// About 10 ns, no system call. Every 100 µs one reading takes 85 ns.
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// At most that of [`Monotonic`]: times are whole nanoseconds, however fast the counter is.
    fn resolution_hz(&self) -> u64 {
        self.clock.resolution_hz()
    }
}

impl LoopClock for Tsc {
    /// Compares the counter with the kernel's clock and returns the latter's time.
    fn woke(&self) -> Timestamp {
        self.clock.check()
    }
}

/// Why there is no [`Tsc`].
#[derive(Debug)]
#[non_exhaustive]
pub enum TscError {
    /// The CPU is not x86-64. Counters of other CPUs are not used.
    Architecture,
    /// `PR_SET_TSC` makes reading the counter raise SIGSEGV in this thread.
    Forbidden,
    /// The counter's rate depends on the CPU's power states.
    NotInvariant,
    /// The kernel keeps time by another clock source, named here. It may have rejected the counter; the
    /// kernel's log then says so.
    ClockSource(String),
    /// The kernel did not answer one of these questions.
    Unknown {
        /// The question that the kernel did not answer.
        question: &'static str,
        /// The error that it returned instead.
        error: io::Error,
    },
    /// The rate could not be measured to 50 ppm: the counter is unsteady, or the machine is overloaded.
    Unsteady,
}

impl fmt::Display for TscError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TscError::Architecture => {
                write!(f, "only x86-64 has a time stamp counter; this is {}", std::env::consts::ARCH)
            }
            TscError::Forbidden => f.write_str("PR_SET_TSC forbids this thread the time stamp counter"),
            TscError::NotInvariant => {
                f.write_str("this CPU's time stamp counter changes its rate with power states")
            }
            TscError::ClockSource(name) => {
                write!(f, "the kernel keeps time by {name}, not by the time stamp counter (clock source tsc)")
            }
            TscError::Unknown { question, error } => {
                write!(f, "{question} cannot be told: {error}")
            }
            TscError::Unsteady => {
                f.write_str("the time stamp counter's rate could not be measured to 50 ppm in three attempts")
            }
        }
    }
}

impl std::error::Error for TscError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TscError::Unknown { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Becomes an error of the kind `Unsupported`.
impl From<TscError> for io::Error {
    fn from(error: TscError) -> Self {
        io::Error::new(io::ErrorKind::Unsupported, error)
    }
}

/// Returns the counter, if CPU, kernel and thread all permit it. Checks the thread first, because where the
/// counter is forbidden, reading the kernel's clock, which reads it too, is a SIGSEGV as well.
#[cfg(target_arch = "x86_64")]
fn trusted_counter() -> Result<TimeStampCounter, TscError> {
    let unknown = |question| move |error| TscError::Unknown { question, error };
    let counter = TimeStampCounter::of_this_thread()
        .map_err(unknown("whether this thread may read the time stamp counter"))?
        .ok_or(TscError::Forbidden)?;
    if !softtimers_linux::tsc::is_invariant() {
        return Err(TscError::NotInvariant);
    }
    let source = std::fs::read_to_string(CLOCK_SOURCE).map_err(unknown("the kernel's clock source"))?;
    match source.trim() {
        "tsc" => Ok(counter),
        other => Err(TscError::ClockSource(other.to_owned())),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn trusted_counter() -> Result<TimeStampCounter, TscError> {
    Err(TscError::Architecture)
}

/// There is no counter on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug)]
enum TimeStampCounter {}

#[cfg(not(target_arch = "x86_64"))]
impl TimeStampCounter {
    fn ticks(&self) -> u64 {
        match *self {}
    }

    fn ticks_in_order(&self) -> u64 {
        match *self {}
    }
}

impl Counter for TimeStampCounter {
    #[inline]
    fn read(&self) -> u64 {
        self.ticks()
    }

    #[inline]
    fn read_in_order(&self) -> u64 {
        self.ticks_in_order()
    }
}

/// Sleeps. A signal that cuts it short costs accuracy, which is checked.
fn pause(time: Duration) {
    let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) }));
}

#[cfg(target_arch = "x86_64")]
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

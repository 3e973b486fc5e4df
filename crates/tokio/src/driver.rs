//! [`Driver`]: the soft timers of one runtime, and the task that serves them.
//!
//! ```text
//!    worker ─ poll of a wrapped task ─┐ trigger: the clock and one load      ┌──────────────┐
//!    worker ─ poll of a timer ────────┤ while nothing is due ──────────────▶ │  timers      │
//!    worker ─ thread parks, unparks ──┘ else: wakers, called unlocked ◀───── │  (one lock)  │
//!                                                                            └──────┬───────┘
//!    the runtime's epoll ── its event at the earliest deadline ───────────────────────┘ one timerfd
//! ```
//!
//! A runtime gets its driver with its first timer, and keeps it until it shuts down. However many timers there are,
//! the runtime's epoll watches one descriptor, and one task polls or serves many at once; both do nothing as long as the
//! program's trigger states fire the timers in time.
//!
//! # Wakers
//!
//! Due timers are woken by the thread that finds them, never under a lock. If a waker panics, the panic is
//! caught and counted ([`DriverStats::waker_panics`]), and all others are still woken.
//!
//! # No descriptor, shutdown, paused clock, other systems
//!
//! | when | then |
//! |---|---|
//! | the kernel refuses a descriptor | a timer that begins to wait is tokio's, and the next one tries again; counted ([`DriverStats::fallen_back`]) and said once on standard error |
//! | the runtime shuts down | pending timers are woken; polling one elsewhere panics, as with tokio's |
//! | tokio's clock was paused before the runtime's first timer | its timers are tokio's, and obey the paused clock |
//! | it is paused later | the timers panic when next polled, with that reason |
//! | a timer or [`Driver`] outlives a runtime of several workers | it keeps the runtime's `Handle`: memory, descriptors, no thread |
//! | not on Linux | all timers are tokio's |

#[cfg(not(target_os = "linux"))]
#[path = "driver/elsewhere.rs"]
mod timers;
#[cfg(not(target_os = "linux"))]
use timers as registry;
#[cfg(target_os = "linux")]
#[path = "driver/linux.rs"]
mod timers;

#[cfg(target_os = "linux")]
mod registry;
#[cfg(target_os = "linux")]
mod runtimes;
#[cfg(target_os = "linux")]
mod task;
#[cfg(all(target_os = "linux", feature = "test-util"))]
mod virtual_time;

use std::io;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use softtimers_core::{Idle, Timestamp, TriggerState};

pub(crate) use timers::{Registration, Timers};

/// The timers of one runtime.
///
/// Not needed for sleeping: use it to call [`trigger`](Self::trigger) at your own trigger states, or to read
/// the counters.
///
/// ```
/// use std::time::Duration;
/// use softtimers_tokio::{Driver, TriggerState, sleep};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let driver = Driver::current();
/// sleep(Duration::from_micros(100)).await;
/// // In a long computation, from time to time:
/// driver.trigger(TriggerState::ProtocolTimer);
/// assert_eq!(driver.stats().pending, 0);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Driver {
    /// `None`: tokio's own timers serve this runtime.
    timers: Option<Arc<Timers>>,
}

/// The settings of a runtime's [`Driver`], made by [`Driver::builder`].
///
/// ```
/// use std::time::Duration;
/// use softtimers_tokio::{Driver, Idle};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// Driver::builder().idle(Idle::hybrid()).start()?;
/// softtimers_tokio::sleep(Duration::from_micros(40)).await;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing changes before `start`"]
pub struct DriverBuilder {
    pub(crate) idle: Idle,
    pub(crate) coalesce: Duration,
}

impl DriverBuilder {
    const fn new() -> Self {
        DriverBuilder { idle: Idle::park(), coalesce: Duration::ZERO }
    }

    /// Sets the idle policy, by default [`Idle::park`]: the driver wakes up before the earliest deadline,
    /// early by the shortest wake-up time, and then busy-polls.
    ///
    /// [`Idle::hybrid`] wakes early by a high percentile of wake-up time, and [`Idle::spin`] polls while
    /// anything is pending. The driver's task polls by yielding, so one worker is busy while the others and
    /// the runtime's I/O continue; at most one driver or loop of a process spins at a time, within its
    /// [`PollBudget`](softtimers_core::PollBudget).
    pub const fn idle(mut self, idle: Idle) -> Self {
        self.idle = idle;
        self
    }

    /// Keeps two wake-ups of the driver at least `apart`; zero by default. For many dense timers: a timer
    /// that no trigger state fires may be up to `apart` late beyond its slack, and one wake-up serves all
    /// that came due.
    ///
    /// Timers with slack do not need this: one wake-up serves all within their slack anyway.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers_tokio::Driver;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// Driver::builder().coalesce(Duration::from_micros(200)).start()?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub const fn coalesce(mut self, apart: Duration) -> Self {
        self.coalesce = apart;
        self
    }

    /// Starts the driver of this runtime, before its first timer.
    ///
    /// # Errors
    /// `AlreadyExists` if the runtime has had a timer; otherwise the kernel's error for another descriptor.
    ///
    /// # Panics
    /// Outside of a runtime, and in one built without `enable_io`.
    #[track_caller]
    pub fn start(self) -> io::Result<Driver> {
        Ok(Driver { timers: registry::start(&self)? })
    }
}

/// Counters of a [`Driver`] since its beginning; zero, but for `fallen_back`, if it uses tokio's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DriverStats {
    /// Timers pending now.
    pub pending: u64,
    /// Timers that have come due and whose tasks were woken.
    pub fired: u64,
    /// Timers among those that the backup fired, because no trigger state came before their deadline.
    pub fired_by_backup: u64,
    /// Timers cancelled by a drop or for a new deadline.
    pub cancelled: u64,
    /// System calls that set the kernel's timer.
    pub set: u64,
    /// Times that the kernel's timer went off: wake-ups caused by these timers.
    pub wake_ups: u64,
    /// Time that the idle policy has busy-polled.
    pub polled: Duration,
    /// Wakers that panicked when they were called.
    pub waker_panics: u64,
    /// Waits of this process that tokio's timers served, because the kernel refused a descriptor.
    pub fallen_back: u64,
}

impl Driver {
    /// Returns the driver of the current runtime, and starts it if it has none yet.
    ///
    /// # Cost
    /// A thread-local look-up and some reference counts; the first call in a runtime makes two descriptors
    /// and spawns a task.
    ///
    /// # Panics
    /// Outside of a runtime, in one that is shutting down, and in one built without `enable_io`.
    #[track_caller]
    pub fn current() -> Driver {
        Driver { timers: registry::current(None) }
    }

    /// Returns the driver for a timer that was made at `made`. A panic names that place, too: the line that polls it may be
    /// a runtime's.
    #[track_caller]
    pub(crate) fn of_timer(made: &'static Location<'static>) -> Driver {
        Driver { timers: registry::current(Some(made)) }
    }

    /// Returns the settings for the driver of this runtime, to be made before its first timer.
    pub const fn builder() -> DriverBuilder {
        DriverBuilder::new()
    }

    /// Returns the driver of this thread's runtime if it has started: for places that any thread may pass.
    pub(crate) fn if_started() -> Option<Driver> {
        registry::if_started().map(|timers| Driver { timers: Some(timers) })
    }

    /// Checks for due timers and wakes their tasks; at most 32 of them, so that no task waits long for this.
    /// Returns how many it found, including those that were postponed meanwhile.
    ///
    /// In a runtime with several workers it wakes none while more than 8 tasks wait in the workers' shared
    /// queue, because woken tasks would run before those; but every 100 µs it does so if a timer is more than
    /// 500 µs overdue.
    ///
    /// # Cost
    /// The clock, one load and one compare while nothing is due.
    #[inline]
    pub fn trigger(&self, source: TriggerState) -> usize {
        self.timers.as_ref().map_or(0, |timers| timers.trigger(source, crate::clock::timestamp()))
    }

    /// Returns whether the timers are soft ones: not off Linux, not without a descriptor, and not where tokio's clock is paused.
    pub fn is_soft(&self) -> bool {
        self.timers.is_some()
    }

    /// Returns why the idle policy polled less than configured, the last time that it did.
    #[cfg(target_os = "linux")]
    pub fn held_back(&self) -> Option<softtimers::HeldBack> {
        self.timers.as_ref()?.held_back()
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> DriverStats {
        let of_tokio = || DriverStats { fallen_back: registry::fallen_back(), ..DriverStats::default() };
        self.timers.as_ref().map_or_else(of_tokio, |timers| timers.stats())
    }

    /// Starts the timers of this runtime on a virtual clock, which is paused.
    #[cfg(all(feature = "test-util", target_os = "linux"))]
    #[track_caller]
    pub(crate) fn start_virtual() {
        registry::start_virtual();
    }

    #[cfg(all(feature = "test-util", target_os = "linux"))]
    pub(crate) fn is_virtual(&self) -> bool {
        self.timers.as_ref().is_some_and(|timers| timers.bell().is_some())
    }

    /// Returns once nothing is left to do at the present virtual time.
    #[cfg(all(feature = "test-util", target_os = "linux"))]
    pub(crate) async fn settled(&self) {
        if let Some(bell) = self.timers.as_ref().and_then(|timers| timers.bell()) {
            bell.settled().await;
        }
    }

    /// Returns whether a runtime without soft timers may get some later: it has neither a paused clock nor a descriptor.
    pub(crate) fn is_short_of_descriptors() -> bool {
        cfg!(target_os = "linux") && !crate::clock::was_paused()
    }

    /// Returns the shared timers of this runtime.
    pub(crate) fn into_timers(self) -> Option<Arc<Timers>> {
        self.timers
    }
}

/// Visits a trigger state of this thread's runtime; does nothing if it has no timer yet.
///
/// For your own long loops on a runtime's thread. In code that has a [`Driver`], its
/// [`trigger`](Driver::trigger) saves the look-up.
pub fn trigger(source: TriggerState) -> usize {
    Driver::if_started().map_or(0, |driver| driver.trigger(source))
}

/// As [`trigger`], with a time that was just read.
pub(crate) fn trigger_at(source: TriggerState, now: Timestamp) -> usize {
    let timers = Driver::if_started().and_then(|driver| driver.timers);
    timers.map_or(0, |timers| timers.trigger(source, now))
}

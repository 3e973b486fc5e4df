//! [`Driver`]: the soft timers of one runtime, and who looks after them.
//!
//! ```text
//!    worker ─ poll of a wrapped task ─┐ trigger: the clock and one load      ┌──────────────┐
//!    worker ─ poll of a timer ────────┤ while nothing is due ──────────────▶ │  timers      │
//!    worker ─ thread parks, unparks ──┘ else: wakers, called unlocked ◀───── │  (one lock)  │
//!                                                                            └──────┬───────┘
//!    the driver's task ── sleeps in the runtime's epoll until the earliest deadline ┘ one timerfd
//! ```
//!
//! A runtime gets its driver with its first timer, and keeps it until it shuts down. However many timers there are,
//! the runtime's epoll watches one descriptor and one task serves it; both do nothing as long as other places of the
//! program find the timers in time.
//!
//! # Wakers
//!
//! Due timers are woken by the thread that finds them, never under a lock. A waker that panics is the fault of the one who made
//! it: the panic is contained, counted ([`DriverStats::waker_panics`]), and everybody else is woken all the same.
//!
//! # Shutdown, paused clock, other systems
//!
//! | when | then |
//! |---|---|
//! | the runtime shuts down | what is pending is woken; who polls such a timer elsewhere panics, as with tokio's |
//! | tokio's clock was paused before the runtime's first timer | its timers are tokio's, and obey the paused clock |
//! | it is paused later | the timers panic when next polled, and say so |
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

use std::io;
use std::panic::{Location, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use softtimers_core::{Idle, Timestamp, TriggerState};

pub(crate) use timers::{Registration, Timers};

/// The timers of one runtime.
///
/// Nobody needs one to sleep; it is for those who want to trigger from their own places, or to see the counters.
///
/// ```
/// use std::time::Duration;
/// use softtimers_tokio::{Driver, TriggerState, sleep};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let driver = Driver::current();
/// sleep(Duration::from_micros(100)).await;
/// // In a long computation, now and then:
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

    /// Sets the idle policy; [`Idle::park`] unless set: the driver wakes up before the earliest deadline by what a wake-up
    /// takes at the least, and polls the rest.
    ///
    /// With [`Idle::hybrid`] it is by what a wake-up takes at the most, and [`Idle::spin`] polls while anything is pending.
    /// The driver's task polls by yielding, so one worker is busy and the others and the runtime's I/O go on; of all
    /// drivers and loops of a process one at a time spins, within its [`PollBudget`](softtimers_core::PollBudget).
    pub const fn idle(mut self, idle: Idle) -> Self {
        self.idle = idle;
        self
    }

    /// Keeps two wake-ups of the driver `apart` at the least; zero unless set. For many dense timers: a timer may be late by
    /// so much beyond its slack where no trigger state meets it, and a wake-up serves all that came due.
    ///
    /// With slack this is not needed: within it one wake-up serves all neighbours anyway.
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
    /// `AlreadyExists` if the runtime has had a timer; whatever the kernel says about another descriptor.
    ///
    /// # Panics
    /// Outside of a runtime, and in one built without `enable_io`.
    #[track_caller]
    pub fn start(self) -> io::Result<Driver> {
        Ok(Driver { timers: registry::start(&self)? })
    }
}

/// Counters of a [`Driver`] since its beginning; all zero where tokio's timers serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DriverStats {
    /// Timers that wait now.
    pub pending: u64,
    /// Timers that have come due and whose tasks were woken.
    pub fired: u64,
    /// Timers among those that the backup fired: no trigger state had met them before their deadline.
    pub fired_by_backup: u64,
    /// Timers taken back by a drop or before a new deadline.
    pub cancelled: u64,
    /// System calls that set the kernel's timer.
    pub set: u64,
    /// Times that it went off: wake-ups that these timers cost the process.
    pub wake_ups: u64,
    /// Time that the idle policy has busy-polled.
    pub polled: Duration,
    /// Wakers that panicked when they were called.
    pub waker_panics: u64,
}

impl Driver {
    /// Returns the driver of the runtime that this is called in, started if it has none yet.
    ///
    /// # Cost
    /// A look at a thread-local and some reference counts; the first call of a runtime makes two descriptors and
    /// spawns a task.
    ///
    /// # Panics
    /// Outside of a runtime; in one built without `enable_io`; if the kernel refuses a descriptor.
    #[track_caller]
    pub fn current() -> Driver {
        Driver { timers: registry::current() }
    }

    /// Returns the driver for a timer that was made at `made`, which a panic names: who polls it is no help.
    pub(crate) fn of_timer(made: &'static Location<'static>) -> Driver {
        Driver::if_started().unwrap_or_else(|| match catch_unwind(Driver::current) {
            Ok(driver) => driver,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text =
                    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no timers for this runtime");
                panic!("{text}\nThe timer was made at {made}.")
            }
        })
    }

    /// Returns the settings for the driver of this runtime, to be made before its first timer.
    pub const fn builder() -> DriverBuilder {
        DriverBuilder::new()
    }

    /// The driver of this thread's runtime if it has started: for places that every thread passes.
    pub(crate) fn if_started() -> Option<Driver> {
        registry::if_started().map(|timers| Driver { timers: Some(timers) })
    }

    /// Looks for due timers and wakes their tasks; at most 32 of them, so that no task waits long for this. Returns how many it
    /// found, those that were postponed in the meantime among them.
    ///
    /// In a runtime with several workers it wakes none while more than 8 tasks wait in the queue that the workers share, for those
    /// would run after them; but every 100 µs it does if a timer is more than 500 µs overdue.
    ///
    /// # Cost
    /// The clock, one load and one compare while nothing is due.
    #[inline]
    pub fn trigger(&self, source: TriggerState) -> usize {
        self.timers.as_ref().map_or(0, |timers| timers.trigger(source, crate::clock::timestamp()))
    }

    /// Returns whether the timers are soft ones: not off Linux, and not where tokio's clock is paused.
    pub fn is_soft(&self) -> bool {
        self.timers.is_some()
    }

    /// Why the idle policy polled less than it was asked to, the last time that it did.
    #[cfg(target_os = "linux")]
    pub fn held_back(&self) -> Option<softtimers::HeldBack> {
        self.timers.as_ref()?.held_back()
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> DriverStats {
        self.timers.as_ref().map_or_else(DriverStats::default, |timers| timers.stats())
    }

    /// Returns the timers that a timer of this runtime is set in.
    pub(crate) fn into_timers(self) -> Option<Arc<Timers>> {
        self.timers
    }
}

/// Visits a trigger state of the runtime that this thread is of; nothing where no timer was made yet.
///
/// For loops of your own that a runtime's thread is in for long. In code that has a [`Driver`], its
/// [`trigger`](Driver::trigger) saves the look-up.
pub fn trigger(source: TriggerState) -> usize {
    Driver::if_started().map_or(0, |driver| driver.trigger(source))
}

/// The same at a time that was just looked up.
pub(crate) fn trigger_at(source: TriggerState, now: Timestamp) -> usize {
    let timers = Driver::if_started().and_then(|driver| driver.timers);
    timers.map_or(0, |timers| timers.trigger(source, now))
}

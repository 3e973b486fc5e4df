//! [`Sleep`]: wait until a time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use softtimers_core::Slack;
use tokio::time::Instant;

use crate::driver::Driver;
use crate::timer::Timer;

/// Waits for `duration` from now.
///
/// As `tokio::time::sleep`, but with microseconds instead of milliseconds: the task is woken at the first trigger
/// state after the deadline, at the latest by the kernel's timer [`Slack::DEFAULT`] later.
///
/// It may be made anywhere. It belongs to the runtime in which it is first polled and has to wait.
///
/// From 10 ms on the first poll does not check the clock, and always waits: if the time is over by then, the
/// task is woken at once, and the second poll is ready. [`sleep_until`] checks each time.
///
/// # Cost
/// The clock; with the first poll that has to wait, an entry in the runtime's timers (O(1)) and a system call if it is the
/// earliest. No allocation.
///
/// # Panics
/// When polled outside of a runtime, if it has to wait; as [`Driver::current`].
///
/// ```
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let start = Instant::now();
/// softtimers_tokio::sleep(Duration::from_micros(100)).await;
/// assert!(start.elapsed() >= Duration::from_micros(100)); // never early
/// # });
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep { timer: Timer::after(duration) }
}

/// Waits until `deadline`; as [`sleep`].
///
/// # Panics
/// As [`sleep`].
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { timer: Timer::new(deadline) }
}

/// Future of [`sleep`] and [`sleep_until`].
///
/// It may be polled by one task and then by another, and moved: unlike tokio's it is [`Unpin`], so a `&mut Sleep` can
/// be awaited without pinning. Dropping it cancels the timer, and wakes no task.
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    timer: Timer,
}

impl Sleep {
    /// A sleep of the runtime that `driver` is of, wherever this is called: no look-up.
    #[track_caller]
    pub fn on(driver: &Driver, deadline: Instant) -> Sleep {
        Sleep { timer: Timer::on(driver, deadline) }
    }

    /// Sets this slack instead of [`Slack::DEFAULT`], a tenth of the delay and at most 50 µs: [`Slack::EXACT`] to be
    /// woken by the kernel as soon as it can, a longer one to share wake-ups.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use softtimers_tokio::{Slack, sleep};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// sleep(Duration::from_micros(100)).with_slack(Slack::EXACT).await;
    /// # });
    /// ```
    pub fn with_slack(mut self, slack: Slack) -> Sleep {
        self.timer.set_slack(slack);
        self
    }

    /// Returns when it is to end, as it was given.
    pub fn deadline(&self) -> Instant {
        self.timer.deadline()
    }

    /// Returns whether a poll has found it elapsed.
    pub fn is_elapsed(&self) -> bool {
        self.timer.is_elapsed()
    }

    /// Moves the deadline, also of one that has elapsed. A task that waits for it now waits for the new one,
    /// and need not poll it again.
    ///
    /// # Cost
    /// O(1), to a later time one write; the first time an allocation, too. No system call unless it becomes the earliest of all.
    #[track_caller]
    pub fn reset(&mut self, deadline: Instant) {
        self.timer.reset(deadline);
    }

    /// Moves the deadline as [`reset`](Self::reset), with this slack from now on: any trigger state from `deadline` on wakes
    /// the task, and the kernel's timer at the end of the slack.
    #[track_caller]
    pub fn reset_within(&mut self, deadline: Instant, slack: Slack) {
        self.timer.set_slack(slack);
        self.timer.reset(deadline);
    }
}

impl Future for Sleep {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll(cx).map(drop)
    }
}

//! Timer slack: by how much the kernel may delay this thread's sleeps to share wake-ups.
//!
//! It is 50 µs unless somebody changes it, which is most of why sleeping is thought to be coarse. It
//! applies to `ppoll`, `epoll_pwait2` and `nanosleep`, not to a `timerfd`, and it belongs to a
//! thread: a thread that is spawned inherits it, both as its slack and as its default.

use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{current_timer_slack, set_current_timer_slack};

/// Holds the timer slack of this thread at a value; dropping it restores the one before.
///
/// [`EventLoop`](crate::EventLoop) and [`Waiter`](crate::Waiter) hold 1 ns by themselves. A loop of
/// your own that sleeps by a time-out wants the same; one that sleeps on a
/// [`Backup`](crate::Backup) does not, because a timer descriptor has no slack.
///
/// ```
/// use std::time::Duration;
///
/// let slack = softtimers::TimerSlack::hold(Duration::from_nanos(1))?;
/// // … waits that end on time …
/// drop(slack);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Guards that overlap must be dropped in the reverse order, as scopes do by themselves.
#[derive(Debug)]
#[must_use = "dropping the guard restores the slack"]
pub struct TimerSlack {
    before: Option<NonZeroU64>,
    /// Stays on the thread whose slack it restores.
    _thread: PhantomData<*const ()>,
}

impl TimerSlack {
    /// Sets the slack of this thread to `slack`, and to 1 ns if that is zero.
    ///
    /// A real-time thread has no slack; there this does nothing, and succeeds.
    ///
    /// # Errors
    /// If a sandbox forbids `prctl`.
    pub fn hold(slack: Duration) -> io::Result<Self> {
        let before = NonZeroU64::new(current_timer_slack()?);
        // The kernel reads zero as "the default", which is the opposite.
        let nanos = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX).max(1);
        set_current_timer_slack(NonZeroU64::new(nanos))?;
        Ok(Self { before, _thread: PhantomData })
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        // Setting a value that the kernel itself reported cannot fail, and a destructor has nobody
        // to tell.
        let _ = set_current_timer_slack(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn timer_slack() -> Duration {
        Duration::from_nanos(current_timer_slack().unwrap())
    }

    #[test]
    fn the_guard_restores_what_it_found() {
        let original = timer_slack();
        let outer = TimerSlack::hold(Duration::from_micros(7)).unwrap();
        {
            let _inner = TimerSlack::hold(Duration::ZERO).unwrap();
            assert_eq!(timer_slack(), Duration::from_nanos(1));
        }
        assert_eq!(timer_slack(), Duration::from_micros(7));
        drop(outer);
        assert_eq!(timer_slack(), original);
    }

    #[test]
    fn a_spawned_thread_inherits_it_and_the_spawner_restores_only_its_own() {
        let original = timer_slack();
        let guard = TimerSlack::hold(Duration::from_nanos(123)).unwrap();
        let inherited = thread::spawn(timer_slack).join().unwrap();
        assert_eq!(inherited, Duration::from_nanos(123));
        drop(guard);
        assert_eq!(timer_slack(), original);
    }
}

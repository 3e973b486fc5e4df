//! The scheduling parameters that make a thread late: its timer slack and its slice.
//!
//! *Timer slack* is by how much the kernel may delay a thread's sleeps to share wake-ups. It is 50 µs by
//! default, which is the main reason why sleeping seems coarse. It applies to `ppoll`, `epoll_pwait2` and
//! `nanosleep`, not to a `timerfd`. A real-time thread has none; whatever it starts has none either, also once it
//! is ordinary, and a thread that leaves a real-time class has the default again.
//!
//! The *slice* is how long the scheduler lets a thread run before it looks for another, a few
//! milliseconds. EEVDF, the scheduler of Linux since 6.6, serves the shorter request first: a thread with a
//! short slice that wakes beside a program that only computes runs before it, instead of after it. Its share
//! of the CPU is not larger, only finer.
//!
//! Both are per thread, and inherited by threads and processes that it starts. So both are set by guards that
//! stay on their thread and restore the previous value, also when a panic unwinds.

use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::time::Duration;

use rustix::thread::{current_timer_slack, set_current_timer_slack};

use super::sched_attr::{self, Attributes};

/// Holds the timer slack of this thread at a value; dropping it restores the previous one.
///
/// `EventLoop` and `Waiter` hold 1 ns by themselves. Your own loop that sleeps with a time-out needs the
/// same; one that sleeps on a `Backup` does not, because a timer descriptor has no slack.
///
/// ```
/// use std::time::Duration;
///
/// # use softtimers_linux::sched as softtimers;
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
    /// Not `Send`: it restores the slack of its thread.
    _thread: PhantomData<*const ()>,
}

impl TimerSlack {
    /// Sets the slack of this thread to `slack`, and to 1 ns if that is zero.
    ///
    /// A real-time thread has no slack; there this does nothing, and succeeds. If the thread leaves its class
    /// while the guard lives, it has the default slack: hold it anew.
    ///
    /// # Errors
    /// If a sandbox forbids `prctl`.
    pub fn hold(slack: Duration) -> io::Result<Self> {
        let before = NonZeroU64::new(current_timer_slack()?);
        // The kernel reads zero as "the default", which is the opposite. A thread that had none was started by a
        // real-time one: its default is none, so zero restores that as well.
        let nanos = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX).max(1);
        set_current_timer_slack(NonZeroU64::new(nanos))?;
        Ok(Self { before, _thread: PhantomData })
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        // Setting a value that the kernel itself reported cannot fail, and a destructor cannot return errors.
        let _ = set_current_timer_slack(self.before);
    }
}

/// Holds the slice of this thread at a length; dropping it restores the previous one.
///
/// For a thread that sleeps most of the time and must run soon when it wakes, beside programs that
/// compute. It needs no privilege and Linux 6.12. It keeps the thread's class and nice value, also if they
/// are changed meanwhile.
///
/// Threads and processes that are started while the guard lives inherit the slice and keep it: start them
/// before, or let them hold their own.
///
/// ```no_run
/// use std::time::Duration;
///
/// # use softtimers_linux::sched as softtimers;
/// let slice = softtimers::Slice::hold(Duration::from_micros(100))?;
/// // … sleeps that end beside a program that computes …
/// drop(slice);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Guards that overlap must be dropped in the reverse order, as scopes do by themselves.
#[derive(Debug)]
#[must_use = "dropping the guard restores the slice"]
pub struct Slice {
    /// The slack before, in nanoseconds.
    before: u64,
    /// Not `Send`: it restores the slice of its thread.
    _thread: PhantomData<*const ()>,
}

impl Slice {
    /// The slices that the kernel grants: 100 µs to 100 ms.
    pub const ALLOWED: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_millis(100);

    /// Sets the slice of this thread, and reads it back.
    ///
    /// # Cost
    /// Three system calls, and three or four more when it is dropped.
    ///
    /// # Errors
    /// `InvalidInput` for a slice outside [`ALLOWED`](Self::ALLOWED). `Unsupported` where the kernel
    /// ignores it (before Linux 6.12), and for a thread of a class that has no slices, such as
    /// `SCHED_FIFO` or `SCHED_IDLE`. Fails with the system's error if a sandbox forbids it. The thread is
    /// then unchanged.
    pub fn hold(slice: Duration) -> io::Result<Self> {
        if !Self::ALLOWED.contains(&slice) {
            let problem = format!("a slice of {slice:?}: 100us to 100ms are allowed");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let found = Attributes::read()?;
        let Some(before) = found.slice() else {
            let why = if found.is_real_time() {
                "a real-time thread has no slice"
            } else if found.is_fair() {
                "this kernel lets no thread choose its slice; Linux 6.12 and later do"
            } else {
                "a thread of this class has no slice of its own; SCHED_OTHER and SCHED_BATCH have"
            };
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        };
        let asked = slice.as_nanos() as u64;
        found.with_slice(asked).write()?;
        let held = Slice { before, _thread: PhantomData };
        let granted = Attributes::read()?.slice();
        if granted != Some(asked) {
            let problem = format!("the kernel grants {granted:?} ns of slice instead of {asked} ns");
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        Ok(held)
    }

    /// Returns the present slice of this thread.
    ///
    /// # Errors
    /// `Unsupported` if it has none: before Linux 6.12, and for a real-time thread. The system's error if a
    /// sandbox forbids the query.
    pub fn current() -> io::Result<Duration> {
        let none = || io::Error::new(io::ErrorKind::Unsupported, "this thread has no slice of its own");
        Attributes::read()?.slice().map(Duration::from_nanos).ok_or_else(none)
    }
}

impl Drop for Slice {
    /// A destructor cannot return errors; the kernel grants again what it granted before.
    fn drop(&mut self) {
        let _ = restore_slice(self.before);
    }
}

/// Zero asks for the system's own slice, which follows its settings from then on. The kernel does not
/// say whether the slice of before was that one or was set to the same length; the first is likelier.
fn restore_slice(before: u64) -> io::Result<()> {
    // Read again: class and nice value may have been changed since.
    let now = Attributes::read()?;
    if now.slice().is_none() {
        return Ok(());
    }
    now.with_slice(0).write()?;
    if Attributes::read()?.slice() != Some(before) {
        now.with_slice(before).write()?;
    }
    Ok(())
}

/// Returns whether this thread is of a class that goes before all ordinary threads.
pub fn is_real_time() -> io::Result<bool> {
    sched_attr::policy().map(sched_attr::is_real_time)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::skipped::skipped;

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

    /// Holds a slice, or prints why there is none here.
    fn hold(micros: u64) -> Option<Slice> {
        Slice::hold(Duration::from_micros(micros)).inspect_err(|error| skipped(error)).ok()
    }

    #[test]
    fn all_attributes_are_as_before_when_slices_end() {
        let before = Attributes::read().unwrap();
        let Some(outer) = hold(300) else { return };
        {
            let _inner = hold(100).unwrap();
            assert_eq!(Slice::current().unwrap(), Duration::from_micros(100));
            assert_eq!(Attributes::read().unwrap(), before.with_slice(100_000));
        }
        assert_eq!(Slice::current().unwrap(), Duration::from_micros(300));
        drop(outer);
        assert_eq!(Attributes::read().unwrap(), before);
    }

    #[test]
    fn a_panic_restores_the_slice() {
        let before = Attributes::read().unwrap();
        let Some(probe) = hold(100) else { return };
        drop(probe);
        let panicked = std::panic::catch_unwind(|| {
            let _slice = hold(100);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert_eq!(Attributes::read().unwrap(), before);
    }

    /// A value that is changed meanwhile is kept.
    #[test]
    fn a_nice_value_that_was_changed_meanwhile_is_kept() {
        let before = Attributes::read().unwrap();
        let Some(probe) = hold(100) else { return };
        drop(probe);
        thread::spawn(move || {
            let slice = Slice::hold(Duration::from_micros(100)).unwrap();
            Attributes::read().unwrap().nicer(3).write().unwrap();
            drop(slice);
            assert_eq!(Attributes::read().unwrap(), before.nicer(3));
        })
        .join()
        .unwrap();
        assert_eq!(Attributes::read().unwrap(), before);
    }

    #[test]
    fn a_spawned_thread_inherits_the_slice() {
        let Some(slice) = hold(200) else { return };
        let inherited = thread::spawn(|| Slice::current().unwrap());
        assert_eq!(inherited.join().unwrap(), Duration::from_micros(200));
        drop(slice);
    }

    #[test]
    fn slices_that_the_kernel_would_bend_are_refused() {
        for micros in [0, 99, 100_001] {
            let error = Slice::hold(Duration::from_micros(micros)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().ends_with("100us to 100ms are allowed"), "{error}");
        }
    }

    /// Entering the class needs no privilege, but leaving it does; so the thread stays in it until it ends.
    #[test]
    fn a_thread_of_another_class_is_told_so() {
        thread::spawn(|| {
            Attributes::read().unwrap().idle().write().unwrap();
            let error = Slice::hold(Duration::from_millis(1)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().starts_with("a thread of this class has no slice"), "{error}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_real_time_thread_is_known_and_has_no_slice() {
        assert!(!is_real_time().unwrap());
        let tried = thread::spawn(|| {
            Attributes::read().unwrap().first_in_first_out().write()?;
            assert!(is_real_time().unwrap());
            assert_eq!(Slice::hold(Duration::from_millis(1)).unwrap_err().kind(), io::ErrorKind::Unsupported);
            io::Result::Ok(())
        });
        if let Err(error) = tried.join().unwrap() {
            skipped(&error);
        }
    }
}

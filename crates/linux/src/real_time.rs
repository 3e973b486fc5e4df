//! A real-time thread that cannot monopolise its CPU.
//!
//! A thread of the class FIFO keeps everything else off its CPU, including the shell that would end it. So
//! the class comes with a limit: a thread that runs that long without a sleep ends its process.
//!
//! The kernel takes a real-time thread's timer slack away, and gives it the default one when it leaves the class,
//! whatever it had before. So the guard puts back the slack as well as the class.

use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use super::sched_attr::Attributes;

/// Holds this thread in `SCHED_FIFO`, at the lowest priority of that class; dropping it restores the previous
/// class and timer slack.
///
/// For comparisons with the ordinary class. Threads and processes that are started meanwhile inherit it; they have no
/// timer slack, and keep none when they leave the class, unless they set one.
///
/// ```
/// use std::time::Duration;
///
/// # use softtimers_linux as softtimers;
/// match softtimers::RealTime::hold(Duration::from_millis(100)) {
///     Ok(real_time) => drop(real_time), // after some work, and sleeps in between
///     Err(why) => println!("it takes a privilege: {why}"),
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard restores the class"]
pub struct RealTime {
    before: Attributes,
    /// The timer slack before, in nanoseconds; none for a thread that had none.
    slack: Option<NonZeroU64>,
    limit: Rlimit,
    /// Not `Send`: it restores the class of its thread.
    _thread: PhantomData<*const ()>,
}

impl RealTime {
    /// Changes the class of this thread. If it then runs for `most` without sleeping, the kernel ends the process
    /// (`SIGXCPU`); the limit holds for all real-time threads of the process, and the one before is restored, too.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_SYS_NICE` and with an `RLIMIT_RTPRIO` of zero; the system's error otherwise.
    /// The thread is then unchanged.
    pub fn hold(most: Duration) -> io::Result<Self> {
        let before = Attributes::read()?;
        let slack = NonZeroU64::new(current_timer_slack()?);
        let limit = getrlimit(Resource::Rttime);
        let asked = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        // The hard limit stays: without privileges it could not be raised again.
        let soft = [limit.current, limit.maximum].into_iter().flatten().fold(asked, u64::min);
        setrlimit(Resource::Rttime, Rlimit { current: Some(soft), maximum: limit.maximum })?;
        let held = RealTime { before, slack, limit, _thread: PhantomData };
        before.first_in_first_out().write()?;
        Ok(held)
    }
}

impl Drop for RealTime {
    /// No call needs a privilege, and a destructor cannot return errors.
    fn drop(&mut self) {
        let _ = self.before.write();
        // After the class, which resets it. A real-time thread has none, and ignores this.
        let _ = set_current_timer_slack(self.slack);
        let Rlimit { current, maximum } = self.limit;
        let _ = setrlimit(Resource::Rttime, Rlimit { current, maximum });
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::sched::TimerSlack;
    use crate::skipped::skipped;

    fn timer_slack() -> u64 {
        current_timer_slack().unwrap()
    }

    /// The kernel alone would give it the default, 50 µs.
    #[test]
    fn a_timer_slack_that_is_held_outlives_the_class() {
        let _slack = TimerSlack::hold(Duration::from_nanos(1)).unwrap();
        match RealTime::hold(Duration::from_millis(500)) {
            Ok(held) => {
                assert_eq!(timer_slack(), 0);
                drop(held);
            }
            Err(error) => skipped(&error),
        }
        assert_eq!(timer_slack(), 1);
    }

    #[test]
    fn a_child_of_a_real_time_thread_has_no_slack_and_its_guard_restores_that() {
        let ordinary = Attributes::read().unwrap();
        let held = match RealTime::hold(Duration::from_millis(500)) {
            Ok(held) => held,
            Err(error) => return skipped(&error),
        };
        let child = thread::spawn(move || {
            ordinary.write().unwrap();
            let of_the_parent = timer_slack();
            let slack = TimerSlack::hold(Duration::from_micros(7)).unwrap();
            let own = timer_slack();
            drop(slack);
            (of_the_parent, own, timer_slack())
        });
        assert_eq!(child.join().unwrap(), (0, 7_000, 0));
        drop(held);
    }

    #[test]
    fn class_and_limit_are_as_before_when_it_ends() {
        let before = Attributes::read().unwrap();
        let limit = || getrlimit(Resource::Rttime).current;
        let unlimited = limit();
        match RealTime::hold(Duration::from_millis(500)) {
            Ok(held) => {
                assert!(Attributes::read().unwrap().is_real_time());
                assert_eq!(limit(), Some(unlimited.map_or(500_000, |limit| limit.min(500_000))));
                drop(held);
            }
            Err(error) => skipped(&error),
        }
        assert_eq!((Attributes::read().unwrap(), limit()), (before, unlimited));
    }
}

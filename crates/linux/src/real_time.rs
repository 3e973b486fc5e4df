//! A real-time thread that cannot monopolise its CPU.
//!
//! A thread of the class FIFO keeps everything else off its CPU, including the shell that would end it. So
//! the class comes with a limit: a thread that runs that long without a sleep ends its process.

use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::sched_attr::Attributes;

/// Holds this thread in `SCHED_FIFO`, at the lowest priority of that class; dropping it restores the previous
/// class.
///
/// For comparisons with the ordinary class. Threads and processes that are started meanwhile inherit it.
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
        let limit = getrlimit(Resource::Rttime);
        let asked = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        // The hard limit stays: without privileges it could not be raised again.
        let soft = [limit.current, limit.maximum].into_iter().flatten().fold(asked, u64::min);
        setrlimit(Resource::Rttime, Rlimit { current: Some(soft), maximum: limit.maximum })?;
        let held = RealTime { before, limit, _thread: PhantomData };
        before.first_in_first_out().write()?;
        Ok(held)
    }
}

impl Drop for RealTime {
    /// Neither call needs a privilege, and a destructor cannot return errors.
    fn drop(&mut self) {
        let _ = self.before.write();
        let Rlimit { current, maximum } = self.limit;
        let _ = setrlimit(Resource::Rttime, Rlimit { current, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::skipped;

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

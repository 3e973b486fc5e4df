//! A kernel timer behind a descriptor.
//!
//! It fires at an absolute time of `CLOCK_MONOTONIC`, and unlike a wait with a time-out it is not
//! delayed by the thread's timer slack. It costs a system call to arm, so arm it rarely.
//!
//! A child of fork(2) inherits the descriptor, and with it the parent's timer: [`TimerFd::own`] replaces that.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use rustix::time::{timerfd_create, timerfd_settime};
use softtimers_core::Timestamp;

use super::{fork, timespec};

/// A timer; readable from its expiry until it is drained, armed again or disarmed.
#[derive(Debug)]
pub struct TimerFd {
    fd: OwnedFd,
    /// The [generation](fork::generation) of the process that it belongs to.
    generation: AtomicU32,
}

impl TimerFd {
    /// A disarmed timer, close-on-exec and non-blocking.
    pub fn new() -> io::Result<Self> {
        fork::watch()?;
        Ok(Self { fd: disarmed()?, generation: AtomicU32::new(fork::generation()) })
    }

    /// Gives a child of fork(2) a timer of its own, disarmed, behind the same descriptor; the parent's stays as it is.
    /// Returns the number of the process that it belongs to, among this one and its ancestors: a change means that it
    /// was replaced.
    ///
    /// # Cost
    /// One relaxed load, and in such a child three system calls, once.
    ///
    /// # Errors
    /// If the child has no descriptor left; then it still has its parent's timer.
    #[inline]
    pub fn own(&self) -> io::Result<u32> {
        let generation = fork::generation();
        if self.generation.load(Ordering::Relaxed) != generation {
            self.replace()?;
            self.generation.store(generation, Ordering::Relaxed);
        }
        Ok(generation)
    }

    #[cold]
    fn replace(&self) -> io::Result<()> {
        let new = disarmed()?;
        // SAFETY: both descriptors are open, and the second stays so: it is another timer's from then on.
        match unsafe { libc::dup3(new.as_raw_fd(), self.fd.as_raw_fd(), libc::O_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Fires once, at `due`: at once if that is past. Replaces the previous setting.
    pub fn arm_at(&self, due: Timestamp) -> io::Result<()> {
        self.set(due, Duration::ZERO)
    }

    /// Fires at `first` and every `period` after it. Replaces the previous setting.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `period` is zero.
    pub fn arm_periodic(&self, first: Timestamp, period: Duration) -> io::Result<()> {
        if period.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a period of 0 ns; at least 1 ns is needed",
            ));
        }
        self.set(first, period)
    }

    /// Disarms the timer: it never fires, and is no longer readable.
    pub fn disarm(&self) -> io::Result<()> {
        self.settime(Duration::ZERO, Duration::ZERO)
    }

    /// Returns the number of expiries since the timer was armed or last drained; zero if there was none.
    pub fn drain(&self) -> io::Result<u64> {
        let mut expirations = [0; size_of::<u64>()];
        match rustix::io::read(&self.fd, &mut expirations) {
            Ok(_) => Ok(u64::from_ne_bytes(expirations)),
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn set(&self, first: Timestamp, period: Duration) -> io::Result<()> {
        // The kernel reads zero as "disarm". The epoch is past anyway, and so is 1 ns after it.
        self.settime(Duration::from_nanos(first.as_nanos().max(1)), period)
    }

    fn settime(&self, value: Duration, interval: Duration) -> io::Result<()> {
        let spec = Itimerspec { it_value: timespec(value), it_interval: timespec(interval) };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }
}

fn disarmed() -> rustix::io::Result<OwnedFd> {
    timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use softtimers_core::Clock;

    use super::*;
    use crate::clock::Monotonic;
    use crate::wait::wait_readable;

    fn fires(timer: &TimerFd, within: Duration) -> bool {
        wait_readable(timer.as_fd(), Some(within)).unwrap()
    }

    #[test]
    fn it_fires_once_and_never_early() {
        let timer = TimerFd::new().unwrap();
        for micros in [0, 1, 50, 300, 2_000] {
            let due = Monotonic.now() + Duration::from_micros(micros);
            timer.arm_at(due).unwrap();
            assert!(wait_readable(timer.as_fd(), None).unwrap());
            assert!(Monotonic.now() >= due);
            assert_eq!(timer.drain().unwrap(), 1);
            assert_eq!(timer.drain().unwrap(), 0);
            assert!(!fires(&timer, Duration::from_millis(1)), "only once");
        }
    }

    #[test]
    fn the_past_and_the_epoch_fire_at_once_and_the_end_of_time_never() {
        let timer = TimerFd::new().unwrap();
        for past in [Timestamp::ZERO, Timestamp::from_nanos(1), Monotonic.now()] {
            timer.arm_at(past).unwrap();
            assert!(fires(&timer, Duration::from_secs(60)));
            assert_eq!(timer.drain().unwrap(), 1);
        }
        timer.arm_at(Timestamp::MAX).unwrap();
        assert!(!fires(&timer, Duration::from_millis(1)));
    }

    #[test]
    fn disarming_takes_back_an_expiry() {
        let timer = TimerFd::new().unwrap();
        timer.arm_at(Timestamp::ZERO).unwrap();
        assert!(fires(&timer, Duration::from_secs(60)));
        timer.disarm().unwrap();
        assert!(!fires(&timer, Duration::ZERO));
        assert_eq!(timer.drain().unwrap(), 0);
    }

    #[test]
    fn a_periodic_timer_counts_what_nobody_waited_for() {
        let timer = TimerFd::new().unwrap();
        let (first, period) = (Monotonic.now(), Duration::from_micros(200));
        timer.arm_periodic(first, period).unwrap();
        let until = first + period * 20;
        let mut expirations = 0;
        while expirations < 21 {
            assert!(fires(&timer, Duration::from_secs(60)));
            expirations += timer.drain().unwrap();
        }
        assert!(Monotonic.now() >= until, "21 expirations take 20 periods");
        assert!(timer.arm_periodic(first, Duration::ZERO).is_err());
    }
}

//! Sleeping until one of two descriptors is readable, to the nanosecond.
//!
//! This is `ppoll`: no registration, no state in the kernel, and for one or two descriptors as cheap
//! as `epoll`. It serves a program that keeps its plain `std` socket and adds one timer.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::stages::{Ended, in_stages};
use super::timespec;
use crate::clock::Monotonic;

/// Which of the two descriptors can be read without blocking.
///
/// An error or a hang-up counts: the read reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) first: bool,
    pub(crate) second: bool,
}

/// Sleeps until a descriptor is readable, `timeout` has passed (`None`: never), or a signal arrived.
///
/// Nothing ready is no promise that the time has passed: look at the clock. The kernel may round the
/// time-out up by the thread's timer slack; it never rounds down.
pub(crate) fn wait_readable(
    first: BorrowedFd<'_>,
    second: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let mut ready = Ready::default();
    in_stages(Monotonic, timeout, |stage| match ready_within(first, second, stage)? {
        Some(Ready { first: false, second: false }) => Ok(Ended::RanOut),
        found => {
            ready = found.unwrap_or_default();
            Ok(Ended::Otherwise)
        }
    })?;
    Ok(ready)
}

/// One `ppoll`; `None` if a signal ended it.
pub(super) fn ready_within(
    first: BorrowedFd<'_>,
    second: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> io::Result<Option<Ready>> {
    let timeout = timeout.map(timespec);
    // A single descriptor takes both places of the array, of which only one is used.
    let mut fds = [first, second.unwrap_or(first)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let used = 1 + usize::from(second.is_some());
    match poll(&mut fds[..used], timeout.as_ref()) {
        Ok(_) => Ok(Some(Ready {
            first: !fds[0].revents().is_empty(),
            second: second.is_some() && !fds[1].revents().is_empty(),
        })),
        Err(Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use softtimers_core::{Clock, Timestamp};

    use super::*;
    use crate::clock::Monotonic;
    use crate::sys::timerfd::TimerFd;

    #[test]
    fn each_descriptor_is_reported_by_its_own_flag() {
        let (timer, never) = (TimerFd::new().unwrap(), TimerFd::new().unwrap());
        timer.arm_at(Timestamp::ZERO).unwrap();
        let wait = |first: &TimerFd, second: Option<&TimerFd>| {
            wait_readable(first.as_fd(), second.map(TimerFd::as_fd), Some(Duration::ZERO)).unwrap()
        };
        assert_eq!(wait(&timer, None), Ready { first: true, second: false });
        assert_eq!(wait(&timer, Some(&never)), Ready { first: true, second: false });
        assert_eq!(wait(&never, Some(&timer)), Ready { first: false, second: true });
        assert_eq!(wait(&timer, Some(&timer)), Ready { first: true, second: true });
        assert_eq!(wait(&never, None), Ready::default());
    }

    #[test]
    fn a_datagram_ends_a_wait_without_time_out() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
        assert!(wait_readable(receiver.as_fd(), None, None).unwrap().first);
    }

    #[test]
    fn it_never_returns_early() {
        let never = TimerFd::new().unwrap();
        for nanos in [1, 900, 60_000, 999_999, 1_000_001] {
            let (begin, timeout) = (Monotonic.now(), Duration::from_nanos(nanos));
            assert_eq!(wait_readable(never.as_fd(), None, Some(timeout)).unwrap(), Ready::default());
            assert!(Monotonic.now() >= begin + timeout, "{timeout:?}");
        }
    }

    #[test]
    fn an_endless_time_out_is_accepted() {
        let timer = TimerFd::new().unwrap();
        timer.arm_at(Timestamp::ZERO).unwrap();
        assert!(wait_readable(timer.as_fd(), None, Some(Duration::MAX)).unwrap().first);
    }
}

//! Sleeping until a descriptor is readable, to the nanosecond.
//!
//! This is `ppoll`: no registration, no state in the kernel, and for one descriptor as cheap as
//! `epoll`. It serves a program that keeps its plain `std` socket.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::stages::{Ended, in_stages};
use super::timespec;
use crate::clock::Monotonic;

/// Sleeps until `source` is readable, `timeout` has passed (`None`: never), or a signal arrived; returns
/// whether it is readable. An error or a hang-up counts: the read reports it.
///
/// "Not readable" does not mean that the time has passed: check the clock. The kernel may round the time-out
/// up by the thread's timer slack; it never rounds down.
pub fn wait_readable(source: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    let mut readable = false;
    in_stages(Monotonic, timeout, |stage| match ready_within(source, stage)? {
        Some(false) => Ok(Ended::RanOut),
        found => {
            readable = found.unwrap_or(false);
            Ok(Ended::Otherwise)
        }
    })?;
    Ok(readable)
}

/// One `ppoll`; `None` if a signal ended it.
pub(super) fn ready_within(source: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<Option<bool>> {
    let mut sources = [PollFd::from_borrowed_fd(source, PollFlags::IN)];
    match poll(&mut sources, timeout.map(timespec).as_ref()) {
        Ok(_) => Ok(Some(!sources[0].revents().is_empty())),
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
    use crate::timerfd::TimerFd;

    #[test]
    fn readable_is_told_from_not() {
        let (timer, never) = (TimerFd::new().unwrap(), TimerFd::new().unwrap());
        timer.arm_at(Timestamp::ZERO).unwrap();
        assert!(wait_readable(timer.as_fd(), Some(Duration::ZERO)).unwrap());
        assert!(!wait_readable(never.as_fd(), Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_datagram_ends_a_wait_without_time_out() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
        assert!(wait_readable(receiver.as_fd(), None).unwrap());
    }

    #[test]
    fn it_never_returns_early() {
        let never = TimerFd::new().unwrap();
        for nanos in [1, 900, 60_000, 999_999, 1_000_001] {
            let (begin, timeout) = (Monotonic.now(), Duration::from_nanos(nanos));
            assert!(!wait_readable(never.as_fd(), Some(timeout)).unwrap());
            assert!(Monotonic.now() >= begin + timeout, "{timeout:?}");
        }
    }

    #[test]
    fn an_endless_time_out_is_accepted() {
        let timer = TimerFd::new().unwrap();
        timer.arm_at(Timestamp::ZERO).unwrap();
        assert!(wait_readable(timer.as_fd(), Some(Duration::MAX)).unwrap());
    }
}

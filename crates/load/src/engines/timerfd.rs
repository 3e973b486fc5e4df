//! A loop that notices a due time when a timer descriptor, armed for each datagram, is reported ready.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use softtimers::epoll::{Epoll, EventFlags};
use softtimers_core::Timestamp;

use super::engine::Engine;
use super::plain_loop::{self, TIMER, Wait};

/// A loop that waits for a timer descriptor.
pub(super) const TIMERFD: Engine =
    Engine::new("timerfd", "A kernel timer descriptor, armed for each datagram", |session| {
        plain_loop::run(session, Alarm::new)
    });

/// The descriptor, armed for an absolute time.
struct Alarm {
    descriptor: OwnedFd,
    armed: Option<Timestamp>,
}

impl Alarm {
    fn new(epoll: &Epoll) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll.add(descriptor.as_fd(), TIMER, EventFlags::IN)?;
        Ok(Alarm { descriptor, armed: None })
    }
}

impl Wait for Alarm {
    const HAS_DESCRIPTOR: bool = true;

    /// Arming it again also cancels an expiry, which therefore need not be read.
    fn timeout(&mut self, _: Duration, wake: Timestamp) -> io::Result<Option<Duration>> {
        if self.armed != Some(wake) {
            let nanos = wake.as_nanos().max(1);
            let value =
                Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
            let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
            timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &once)?;
            self.armed = Some(wake);
        }
        Ok(None)
    }
}

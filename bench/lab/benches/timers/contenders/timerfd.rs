//! A timerfd for each timer: the kernel's interface. It uses the real clock, so it takes part only where no timer comes
//! due: set, cancel and re-arm, with times a minute away.

use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::contender::Contender;

/// Disarmed descriptors are kept, as in a program.
pub(crate) struct Timerfds {
    idle: Vec<OwnedFd>,
}

/// Says whether the workload can be done with `timers` timers.
///
/// # Errors
/// Why not.
pub(crate) fn can(workload: &str, timers: usize) -> Result<(), String> {
    if workload != "W1" {
        return Err("its clock is the real one: it takes part in W1".into());
    }
    // In addition to the three standard streams and a few of the program's own.
    let (wanted, most) = (timers as u64 + 64, limit().rlim_max);
    if wanted > most {
        return Err(format!("{wanted} files are wanted, and RLIMIT_NOFILE allows {most}"));
    }
    Ok(())
}

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it points to a limit that may be written; if that fails, none is allowed.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}

const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn arm(fd: &OwnedFd, micros: u64) {
    let it_value =
        Timespec { tv_sec: (micros / 1_000_000) as i64, tv_nsec: (micros % 1_000_000 * 1_000) as _ };
    let value = Itimerspec { it_interval: ZERO, it_value };
    timerfd_settime(fd, TimerfdTimerFlags::empty(), &value).expect("a timerfd can be armed");
}

impl Contender for Timerfds {
    type Handle = OwnedFd;
    const TELLS_NEXT: bool = false;

    fn new(_: usize) -> Self {
        let most = limit().rlim_max;
        let all = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: it points to a limit. If that fails, creating too many will.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const all) };
        Timerfds { idle: Vec::new() }
    }

    fn set(&mut self, due: u64, _: u32) -> OwnedFd {
        let fd = self.idle.pop().unwrap_or_else(|| {
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a timerfd")
        });
        arm(&fd, due);
        fd
    }

    fn cancel(&mut self, handle: OwnedFd) {
        arm(&handle, 0);
        self.idle.push(handle);
    }

    fn rearm(&mut self, handle: OwnedFd, due: u64, _: u32) -> OwnedFd {
        arm(&handle, due);
        handle
    }

    fn advance(&mut self, _: u64, _: &mut Vec<u32>) {
        unreachable!("its clock is the real one");
    }
}

//! A timerfd for each timer: W1 only, as many as there may be descriptors.

use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::contender::Contender;
use crate::family::{Family, Workload};

/// What most systems let a process open.
const MOST: usize = 1_000;

/// Why there cannot be so many of them, or what they cannot do in simulated time.
pub(crate) fn beyond(workload: &Workload) -> Option<String> {
    if workload.family != Family::W1 {
        return Some("the kernel's timers follow the kernel's clock".into());
    }
    (workload.timers > MOST).then(|| format!("{} descriptors", workload.timers))
}

pub(crate) struct Descriptors {
    /// Set and cancelled again and again; the others stay.
    spare: Option<OwnedFd>,
}

impl Contender for Descriptors {
    type Handle = OwnedFd;
    const TELLS_NEXT: bool = false;
    const FIRES: bool = false;

    fn new(_: usize) -> Self {
        Descriptors { spare: None }
    }

    fn set(&mut self, due: u64, _: u32) -> OwnedFd {
        let timer = self.spare.take().unwrap_or_else(|| {
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a descriptor")
        });
        arm(&timer, due);
        timer
    }

    fn cancel(&mut self, handle: OwnedFd) {
        arm(&handle, 0);
        self.spare = Some(handle);
    }

    fn advance(&mut self, _: u64, _: &mut Vec<u32>) {}
}

fn arm(timer: &OwnedFd, micros: u64) {
    let value =
        Timespec { tv_sec: (micros / 1_000_000) as i64, tv_nsec: (micros % 1_000_000 * 1_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).expect("a timer's descriptor");
}

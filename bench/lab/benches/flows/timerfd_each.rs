//! One timer descriptor a flow, all in one epoll.
//!
//! Used at its best: each is set for the absolute time of the flow's next datagram, and reported by its edge, so that it
//! need not be read. (A period would not save that system call: the kernel continues it only when it is read.)

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Monotonic, PaceConfig, Rate, RateClock, TimerSlack, Timestamp};

use crate::Load;
use crate::lanes::{IN_ONE_TURN, Lanes};

struct Flow {
    timer: OwnedFd,
    clock: RateClock,
}

pub(crate) fn run(load: &Load, mut lanes: Lanes) -> Result<Lanes> {
    // A thousand descriptors and those of the program are more than the usual limit.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    let start = Monotonic.now() + SET_UP;
    let mut flows = Vec::new();
    for number in 0..load.flows {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll.add(timer.as_fd(), number.into(), EventFlags::IN | EventFlags::ET)?;
        let mut clock = RateClock::new(PaceConfig::new(Rate::every(load.interval(number))?))?;
        set(&timer, clock.start(load.start(number, start)))?;
        flows.push(Flow { timer, clock });
    }
    let end = start + load.time;
    let mut events = Events::with_capacity(IN_ONE_TURN);
    loop {
        let now = Monotonic.now();
        if now >= end {
            return Ok(lanes);
        }
        epoll.wait(&mut events, Some(end.saturating_duration_since(now)))?;
        let now = Monotonic.now();
        for event in events.iter() {
            let number = event.token as u32;
            let Flow { timer, clock } = &mut flows[number as usize];
            lanes.stage(number, clock.place())?;
            set(timer, clock.departed(now))?;
        }
        lanes.flush()?;
    }
}

fn set(timer: &OwnedFd, at: Timestamp) -> Result<()> {
    let nanos = at.as_nanos().max(1);
    let it_value =
        Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec::default(), it_value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
    Ok(())
}

/// To set a thousand descriptors takes a millisecond or two.
const SET_UP: Duration = Duration::from_millis(50);

//! The other timers: a plain `epoll` loop as people write it, without softtimers.
//!
//! `loop` keeps due times in a heap and reads the clock after every handler. `pwait2`, `ms` and
//! `timerfd` notice a due time only when their wait returns, as event loops usually do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Monotonic, TimerSlack, Timestamp, TriggerState};

use crate::args::Timer;

use super::work::{VISIT, Workload};
use super::{Driven, Session};

const ECHO: u64 = 0;
const INTERRUPT: u64 = 1;
const TIMER: u64 = 2;

/// Sends until the session is over.
pub(super) fn run(session: &mut Session, timer: Timer) -> io::Result<Driven> {
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    OwnLoop::new(session, timer)?.run()
}

struct OwnLoop<'a> {
    session: &'a mut Session,
    timer: Timer,
    epoll: Epoll,
    events: Events,
    /// Due times by flow, earliest first.
    due: BinaryHeap<Reverse<(Timestamp, u32)>>,
    timerfd: OwnedFd,
    armed: Option<Timestamp>,
    after_handler: u64,
    after_wait: u64,
}

impl<'a> OwnLoop<'a> {
    fn new(session: &'a mut Session, timer: Timer) -> io::Result<Self> {
        let epoll = Epoll::new(Waiting::Pwait2)?;
        let timerfd =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll.add(timerfd.as_fd(), TIMER, EventFlags::IN)?;
        epoll.add(session.interrupt.as_fd(), INTERRUPT, EventFlags::IN)?;
        if let Workload::Echo(echo) = &session.work {
            epoll.add(echo.as_fd(), ECHO, EventFlags::IN)?;
        }
        Ok(OwnLoop {
            due: BinaryHeap::from([Reverse((session.flow.due(), 0))]),
            session,
            timer,
            epoll,
            events: Events::with_capacity(16),
            timerfd,
            armed: None,
            after_handler: 0,
            after_wait: 0,
        })
    }

    fn run(&mut self) -> io::Result<Driven> {
        while !self.session.over(Monotonic.now()) {
            self.arm()?;
            let timeout = self.timeout(Monotonic.now());
            let slept = timeout != Some(Duration::ZERO);
            self.epoll.wait(&mut self.events, timeout)?;
            let (mut echo, mut expired) = (false, false);
            for event in self.events.iter() {
                match event.token {
                    ECHO => echo = true,
                    TIMER => expired = true,
                    _ => {}
                }
            }
            let source =
                if self.events.is_empty() && slept { TriggerState::Backup } else { TriggerState::Readiness };
            if self.timer != Timer::Timerfd || expired {
                self.after_wait += self.check(source)?;
            }
            if echo {
                self.visit()?;
            }
            if let Workload::Compute(_) = self.session.work {
                self.session.work.compute_piece();
                self.after_handler()?;
            }
        }
        let fallback = "epoll_pwait2 is refused here; waits use ppoll, one more system call each";
        let fell_back = self.epoll.waiting() == Waiting::Ppoll;
        Ok(Driven {
            fired: vec![("handler_exit", self.after_handler), ("wait", self.after_wait)],
            fallbacks: fell_back.then(|| fallback.to_owned()).into_iter().collect(),
        })
    }

    /// Serves the echo server's clients.
    fn visit(&mut self) -> io::Result<()> {
        let mut left = VISIT;
        while self.session.work.serve_group(&mut left)? {
            self.after_handler()?;
        }
        self.after_handler()
    }

    /// Only `loop` looks at the clock here.
    fn after_handler(&mut self) -> io::Result<()> {
        if self.timer == Timer::Loop {
            self.after_handler += self.check(TriggerState::HandlerExit)?;
        }
        Ok(())
    }

    /// Sends what is due.
    #[inline]
    fn check(&mut self, source: TriggerState) -> io::Result<u64> {
        let mut departures = 0;
        let now = Monotonic.now();
        while let Some(&Reverse((due, flow))) = self.due.peek().filter(|&&Reverse((due, _))| due <= now) {
            debug_assert!(due <= now);
            let next = self.session.flow.depart(now, source)?;
            departures += 1;
            self.due.pop();
            self.due.push(Reverse((next, flow)));
            if self.session.flow.finished() {
                break;
            }
        }
        Ok(departures)
    }

    fn next_due(&self) -> Timestamp {
        self.due.peek().map_or(Timestamp::MAX, |&Reverse((due, _))| due).min(self.session.end)
    }

    fn arm(&mut self) -> io::Result<()> {
        let due = self.next_due();
        if self.timer == Timer::Timerfd && self.armed != Some(due) {
            let nanos = due.as_nanos().max(1);
            let value =
                Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
            let spec = Itimerspec { it_interval: Timespec::default(), it_value: value };
            timerfd_settime(&self.timerfd, TimerfdTimerFlags::ABSTIME, &spec)?;
            self.armed = Some(due);
        }
        Ok(())
    }

    /// How long the wait may last; `None` where the descriptor ends it.
    fn timeout(&self, now: Timestamp) -> Option<Duration> {
        let left = self.next_due().saturating_duration_since(now);
        match (self.timer, &self.session.work) {
            (_, Workload::Compute(_)) => Some(Duration::ZERO),
            (Timer::Timerfd, _) => None,
            (Timer::Ms, _) => Some(Duration::from_millis(left.as_nanos().div_ceil(1_000_000) as u64)),
            _ => Some(left),
        }
    }
}

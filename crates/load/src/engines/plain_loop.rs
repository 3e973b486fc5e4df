//! The other timers: a plain `epoll` loop as people write it, without softtimers.
//!
//! `loop` keeps due times in a heap and reads the clock after every handler; `spin` is the same and
//! never sleeps. `pwait2`, `ms` and `timerfd` notice a due time only when their wait returns, as event
//! loops usually do.
//!
//! A peer that is made slow proves nothing, so the clock is read no more often than the method
//! needs: one reading after a handler serves the check, the end of the run and the next time-out.
//!
//! ```text
//!   loop      wait ─▶ read, check ─▶ group ─▶ read, check ─▶ group ─▶ read, check ─┐
//!               ▲                                                                 │
//!               └───────────────────────── time-out, from the last reading ────────┘
//!   pwait2    wait ─▶ read, check ─▶ group ─▶ group ─▶ read ─▶ time-out
//! ```
//!
//! `kernel` is `loop` with another due time: that at which more is to be handed over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{LoopClock, TimerSlack, Timestamp, TriggerState};

use crate::args::Timer;

use super::Session;
use super::looks::Looks;
use super::work::{VISIT, Workload};

const ECHO: u64 = 0;
const INTERRUPT: u64 = 1;
const TIMER: u64 = 2;

/// Sends until the session is over.
pub(super) fn run(session: &mut Session, clock: &impl LoopClock, timer: Timer) -> io::Result<()> {
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let computes = matches!(session.work, Workload::Compute(_));
    let mut own = OwnLoop::new(session, clock, timer)?;
    let served = match timer {
        _ if computes && looks_after_handlers(timer) => own.compute(),
        _ => own.serve(),
    };
    let (waiting, intervals) = (own.epoll.waiting(), own.looks.distribution());
    session.waited(waiting);
    session.trigger_intervals = intervals;
    served
}

struct OwnLoop<'a, C> {
    session: &'a mut Session,
    clock: &'a C,
    timer: Timer,
    /// The last reading of the clock.
    now: Timestamp,
    epoll: Epoll,
    events: Events,
    /// When the flow is due, or the earliest of several: the heap of those is theirs.
    due: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// Only for `timerfd`.
    alarm: Option<Alarm>,
    looks: Looks,
}

/// What a wait found.
#[derive(Clone, Copy)]
struct Found {
    /// The time has come, as far as the wait can tell; `None` if it was ended by something else and
    /// the descriptor of `timerfd` says that it has not.
    time: Option<TriggerState>,
    echo: bool,
    /// The wait could sleep: a clock that is not the kernel's is to see whether it is still right.
    slept: bool,
}

impl<'a, C: LoopClock> OwnLoop<'a, C> {
    fn new(session: &'a mut Session, clock: &'a C, timer: Timer) -> io::Result<Self> {
        let epoll = Epoll::new(Waiting::Pwait2)?;
        let alarm = if timer == Timer::Timerfd { Some(Alarm::new(&epoll)?) } else { None };
        epoll.add(session.interrupt.as_fd(), INTERRUPT, EventFlags::IN)?;
        if let Workload::Echo(echo) = &session.work {
            epoll.add(echo.as_fd(), ECHO, EventFlags::IN)?;
        }
        Ok(OwnLoop {
            due: BinaryHeap::from([Reverse((session.flow.due(), 0))]),
            session,
            timer,
            now: clock.now(),
            clock,
            epoll,
            events: Events::with_capacity(16),
            alarm,
            looks: Looks::new(),
        })
    }

    /// A program that only computes needs no wait, and looks at the clock between two pieces.
    fn compute(&mut self) -> io::Result<()> {
        while !self.session.over(self.now) {
            self.session.work.compute_piece();
            self.check(self.clock.now(), TriggerState::HandlerExit)?;
        }
        Ok(())
    }

    fn serve(&mut self) -> io::Result<()> {
        while !self.session.over(self.now) {
            let found = self.wait()?;
            if let Some(source) = found.time {
                let now = if found.slept { self.clock.woke() } else { self.clock.now() };
                self.check(now, source)?;
            }
            if found.echo {
                self.visit()?;
            }
            // The wait that follows does not sleep, so it needs no new reading.
            self.session.work.compute_piece();
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<Found> {
        let wake = self.next_due().min(self.session.end);
        if let Some(alarm) = &mut self.alarm {
            alarm.arm(wake)?;
        }
        let timeout = self.timeout(wake);
        self.epoll.wait(&mut self.events, timeout)?;
        let (mut echo, mut alarm) = (false, false);
        for event in self.events.iter() {
            echo |= event.token == ECHO;
            alarm |= event.token == TIMER;
        }
        let others = self.events.len() > usize::from(alarm);
        let source = match timeout {
            _ if others => TriggerState::Readiness,
            Some(Duration::ZERO) => TriggerState::Idle,
            _ => TriggerState::Backup,
        };
        let time = (alarm || self.alarm.is_none()).then_some(source);
        Ok(Found { time, echo, slept: timeout != Some(Duration::ZERO) })
    }

    /// How long the wait may last; `None` where the descriptor ends it.
    fn timeout(&self, wake: Timestamp) -> Option<Duration> {
        let left = wake.saturating_duration_since(self.now);
        match (self.timer, &self.session.work) {
            (_, Workload::Compute(_)) | (Timer::Spin, _) => Some(Duration::ZERO),
            (Timer::Timerfd, _) => None,
            (Timer::Ms, _) => Some(Duration::from_millis(left.as_nanos().div_ceil(1_000_000) as u64)),
            _ => Some(left),
        }
    }

    /// Serves the echo server's clients. Only `loop` and `spin` look for due times after a group.
    fn visit(&mut self) -> io::Result<()> {
        let mut left = VISIT;
        let mut more = true;
        while more {
            more = self.session.work.serve_group(&mut left)?;
            if looks_after_handlers(self.timer) {
                self.check(self.clock.now(), TriggerState::HandlerExit)?;
            }
        }
        // For the time-out; a descriptor needs none.
        if matches!(self.timer, Timer::Pwait2 | Timer::Ms) {
            self.now = self.clock.now();
        }
        Ok(())
    }

    /// Sends what is due at `now`, just read, if anything is still to be sent.
    #[inline]
    fn check(&mut self, now: Timestamp, source: TriggerState) -> io::Result<()> {
        self.now = now;
        self.looks.look(now);
        while let Some(mut first) = self.due.peek_mut().filter(|first| first.0.0 <= now) {
            if self.session.flow.finished() {
                break;
            }
            first.0.0 = self.session.flow.depart(self.now, source)?;
            // Sending took its time, and the next time-out is counted from here.
            self.now = self.clock.now();
            // What is due again at once must not outlast the run.
            if self.session.over(self.now) {
                break;
            }
        }
        Ok(())
    }

    fn next_due(&self) -> Timestamp {
        self.due.peek().map_or(Timestamp::MAX, |&Reverse((due, _))| due)
    }
}

/// Whether it reads the clock after each handler, and not only when a wait returns.
fn looks_after_handlers(timer: Timer) -> bool {
    matches!(timer, Timer::Loop | Timer::Spin | Timer::Kernel)
}

/// A timer descriptor, armed for an absolute time.
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

    /// Arming it anew also takes back an expiry, which therefore need not be read.
    fn arm(&mut self, at: Timestamp) -> io::Result<()> {
        if self.armed == Some(at) {
            return Ok(());
        }
        let nanos = at.as_nanos().max(1);
        let value =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &once)?;
        self.armed = Some(at);
        Ok(())
    }
}

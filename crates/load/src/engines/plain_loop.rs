//! A plain `epoll` loop as people write it, without softtimers, for engines that differ in how they [wait](Wait).
//!
//! A competitor made slow on purpose proves nothing, so the clock is read no more often than the method needs: one
//! reading after a handler serves the check, the end of the run and the next time-out.
//!
//! ```text
//!   loop      wait ─▶ read, check ─▶ group ─▶ read, check ─▶ group ─▶ read, check ─┐
//!               ▲                                                                 │
//!               └───────────────────────── time-out, from the last reading ────────┘
//!   pwait2    wait ─▶ read, check ─▶ group ─▶ group ─▶ read ─▶ time-out
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Monotonic, TimerSlack};
use softtimers_core::{Clock, Timestamp, TriggerState};

use crate::session::{ClockChecks, Session};
use crate::work::{MOST_PER_SEND, VISIT, Workload};

const ECHO: u64 = 0;
const INTERRUPT: u64 = 1;
/// The descriptor of an engine that has one.
pub(super) const TIMER: u64 = 2;

/// An engine's way to wait for the next due time.
pub(super) trait Wait {
    /// Whether it reads the clock after each handler, and not only when a wait returns.
    const CHECKS_AFTER_HANDLERS: bool = false;
    /// Whether it reads the clock also in the middle of answering many requests.
    const CHECKS_INSIDE: bool = false;
    /// Whether a descriptor signals the due time, and nothing else does.
    const HAS_DESCRIPTOR: bool = false;

    /// Returns the time-out of a wait that begins now, `left` before `wake`; `None` where a descriptor ends it.
    ///
    /// # Errors
    /// The error of arming that descriptor.
    fn timeout(&mut self, left: Duration, wake: Timestamp) -> io::Result<Option<Duration>>;
}

/// Sends until the session is over; `wait` is created for the loop's descriptors.
pub(super) fn run<W: Wait>(
    session: &mut Session,
    wait: impl FnOnce(&Epoll) -> io::Result<W>,
) -> io::Result<()> {
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let computes = matches!(session.work, Workload::Compute(_));
    let mut plain = PlainLoop::new(session, wait)?;
    plain.begin();
    let served = if computes && W::CHECKS_AFTER_HANDLERS { plain.compute() } else { plain.serve() };
    plain.session.loop_ends();
    let (waiting, intervals) = (plain.epoll.waiting(), plain.checks.distribution());
    session.waited(waiting);
    session.trigger_intervals = intervals;
    served
}

struct PlainLoop<'a, W> {
    session: &'a mut Session,
    wait: W,
    /// The last reading of the clock.
    now: Timestamp,
    epoll: Epoll,
    events: Events,
    /// The due time of the flow, or the earliest one of several flows, which have a heap of their own.
    due: BinaryHeap<Reverse<(Timestamp, u32)>>,
    checks: ClockChecks,
}

/// The result of a wait.
#[derive(Clone, Copy)]
struct Found {
    /// The source that noticed the due time, as far as the wait can tell; `None` if another event ended it and the
    /// descriptor says that the time has not come.
    time: Option<TriggerState>,
    echo: bool,
}

impl<'a, W: Wait> PlainLoop<'a, W> {
    fn new(session: &'a mut Session, wait: impl FnOnce(&Epoll) -> io::Result<W>) -> io::Result<Self> {
        let epoll = Epoll::new(Waiting::Pwait2)?;
        let wait = wait(&epoll)?;
        epoll.add(session.interrupt.as_fd(), INTERRUPT, EventFlags::IN)?;
        if let Workload::Echo(echo) = &session.work {
            epoll.add(echo.as_fd(), ECHO, EventFlags::IN)?;
        }
        Ok(PlainLoop {
            due: BinaryHeap::with_capacity(1),
            session,
            wait,
            now: Monotonic.now(),
            epoll,
            events: Events::with_capacity(16),
            checks: ClockChecks::new(),
        })
    }

    /// Begins once the loop has been created.
    fn begin(&mut self) {
        self.session.loop_begins();
        self.due.push(Reverse((self.session.flow.due(), 0)));
        self.now = Monotonic.now();
    }

    /// Computes without waiting, with a clock check between two pieces.
    fn compute(&mut self) -> io::Result<()> {
        while !self.session.over(self.now) {
            self.session.work.compute_piece();
            self.check(Monotonic.now(), TriggerState::HandlerExit)?;
        }
        Ok(())
    }

    fn serve(&mut self) -> io::Result<()> {
        while !self.session.over(self.now) {
            let found = self.wait_once()?;
            if let Some(source) = found.time {
                self.check(Monotonic.now(), source)?;
            }
            if found.echo {
                self.visit()?;
            }
            // The following wait does not sleep, so it needs no new reading.
            self.session.work.compute_piece();
        }
        Ok(())
    }

    fn wait_once(&mut self) -> io::Result<Found> {
        let wake = self.next_due().min(self.session.end);
        let left = wake.saturating_duration_since(self.now);
        let computes = matches!(self.session.work, Workload::Compute(_));
        let timeout = self.wait.timeout(left, wake)?;
        let timeout = if computes { Some(Duration::ZERO) } else { timeout };
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
        let time = (alarm || !W::HAS_DESCRIPTOR).then_some(source);
        Ok(Found { time, echo })
    }

    /// Serves the echo server's clients.
    fn visit(&mut self) -> io::Result<()> {
        let mut left = VISIT;
        let mut more = true;
        while more {
            more = if W::CHECKS_INSIDE {
                self.serve_in_parts(&mut left)?
            } else {
                self.session.work.serve_group(&mut left)?
            };
            if W::CHECKS_AFTER_HANDLERS {
                self.check(Monotonic.now(), TriggerState::HandlerExit)?;
            }
        }
        // For the time-out; a descriptor needs none.
        if !W::CHECKS_AFTER_HANDLERS && !W::HAS_DESCRIPTOR {
            self.now = Monotonic.now();
        }
        Ok(())
    }

    /// Serves one group with a clock check after each send of answers; returns whether to go on with the visit.
    fn serve_in_parts(&mut self, left: &mut usize) -> io::Result<bool> {
        let taken = self.session.work.take_group()?;
        for answered in (0..taken).step_by(MOST_PER_SEND) {
            if answered > 0 {
                self.check(Monotonic.now(), TriggerState::Send)?;
            }
            self.session.work.answer(answered..taken.min(answered + MOST_PER_SEND));
        }
        Ok(self.session.work.more(taken, left))
    }

    /// Sends the datagrams due at `now`, just read, if any are left to send.
    #[inline]
    fn check(&mut self, now: Timestamp, source: TriggerState) -> io::Result<()> {
        self.now = now;
        let unchecked = self.checks.check(now);
        self.session.flow.checked(|| unchecked);
        while let Some(mut first) = self.due.peek_mut().filter(|first| first.0.0 <= now) {
            if self.session.flow.finished() {
                break;
            }
            first.0.0 = self.session.flow.depart(self.now, source)?;
            // Sending took time, and the next time-out counts from here.
            self.now = Monotonic.now();
            // A flow that is due again at once must not outlast the run.
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

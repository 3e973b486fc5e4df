//! `--timer soft`: the flow as an event of [`SoftTimers`] in an [`EventLoop`].

use std::io;
use std::time::Duration;

use softtimers::{
    Config, EventLoop, Fired, Happening, Interest, LoopClock, LoopConfig, Slack, SoftTimers, Token,
    TriggerState,
};

use super::Session;
use super::work::{VISIT, Workload};

/// What is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A datagram is due.
    Departure,
    /// The run is over.
    End,
}

/// From here on taking a group lasts some ten microseconds, beside which a clock read is nothing.
const LARGE_GROUP: usize = 8;
const ECHO: Token = Token(0);
const INTERRUPT: Token = Token(1);

/// Sends until the session is over.
pub(super) fn run(session: &mut Session, clock: &impl LoopClock, slack: Duration) -> io::Result<()> {
    let mut timers = SoftTimers::new(Config::default());
    let slack = Slack::within(slack);
    timers.schedule_at(clock.now(), session.flow.due(), slack, Event::Departure);
    drive(session, clock, timers, slack)
}

/// Does only the work, in the same loop: what pacing is compared with.
pub(super) fn idle(session: &mut Session, clock: &impl LoopClock) -> io::Result<()> {
    drive(session, clock, SoftTimers::new(Config::default()), Slack::EXACT)
}

fn drive(
    session: &mut Session,
    clock: &impl LoopClock,
    mut timers: SoftTimers<Event>,
    slack: Slack,
) -> io::Result<()> {
    timers.schedule_at(clock.now(), session.end, Slack::EXACT, Event::End);
    if let Workload::Compute(_) = session.work {
        compute(session, clock, &mut timers, slack)
    } else {
        serve(session, clock, &mut timers, slack)
    }
}

fn serve(
    session: &mut Session,
    clock: &impl LoopClock,
    timers: &mut SoftTimers<Event>,
    slack: Slack,
) -> io::Result<()> {
    let mut events = EventLoop::with_clock(LoopConfig::default(), clock)?;
    events.register(&session.interrupt, INTERRUPT, Interest::Readable)?;
    if let Workload::Echo(echo) = &session.work {
        events.register(echo, ECHO, Interest::Readable)?;
    }
    let mut over = false;
    while !over {
        match events.next(timers)? {
            Happening::Due(fired) => over = handle(session, timers, slack, &fired)?,
            Happening::Ready { token: ECHO, .. } => over = visit(session, clock, timers, slack)?,
            Happening::Ready { .. } => over = true,
        }
    }
    session.waited(events.waiting());
    Ok(())
}

/// Serves the echo server's clients, with a trigger state after each system call that took long: after
/// the answers to a group of requests, and after taking one that is not small.
fn visit(
    session: &mut Session,
    clock: &impl LoopClock,
    timers: &mut SoftTimers<Event>,
    slack: Slack,
) -> io::Result<bool> {
    let mut left = VISIT;
    loop {
        let taken = session.work.take_group()?;
        if taken >= LARGE_GROUP && trigger(session, clock, timers, slack, TriggerState::SyscallExit)? {
            return Ok(true);
        }
        session.work.answer_group();
        if !session.work.more(taken, &mut left) {
            return Ok(false);
        }
        if trigger(session, clock, timers, slack, TriggerState::SyscallExit)? {
            return Ok(true);
        }
    }
}

/// A program that only computes, and looks at the clock between two pieces.
fn compute(
    session: &mut Session,
    clock: &impl LoopClock,
    timers: &mut SoftTimers<Event>,
    slack: Slack,
) -> io::Result<()> {
    loop {
        session.work.compute_piece();
        if trigger(session, clock, timers, slack, TriggerState::HandlerExit)? || session.interrupt.arrived() {
            return Ok(());
        }
    }
}

/// One trigger state inside a handler; whether the run is over.
#[inline]
fn trigger(
    session: &mut Session,
    clock: &impl LoopClock,
    timers: &mut SoftTimers<Event>,
    slack: Slack,
    source: TriggerState,
) -> io::Result<bool> {
    let turn = timers.trigger(source, clock.now());
    while let Some(fired) = timers.next(&turn) {
        if handle(session, timers, slack, &fired)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn handle(
    session: &mut Session,
    timers: &mut SoftTimers<Event>,
    slack: Slack,
    fired: &Fired<Event>,
) -> io::Result<bool> {
    let now = fired.due + fired.lateness;
    if fired.event == Event::End {
        return Ok(true);
    }
    let due = session.flow.depart(now, fired.source)?;
    timers.schedule_at(now, due, slack, Event::Departure);
    Ok(session.flow.finished() || session.interrupt.arrived())
}

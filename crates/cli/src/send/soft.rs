//! `--timer soft`: the flow as an event of [`SoftTimers`] in an [`EventLoop`].

use std::io;
use std::time::Duration;

use softtimers::{
    Clock, Config, EventLoop, Fired, Happening, Interest, LoopConfig, Monotonic, Slack, SoftTimers, Token,
    TriggerState,
};

use super::Session;
use super::looks;
use super::work::{VISIT, Workload};

/// What is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A datagram is due.
    Departure,
    /// The run is over.
    End,
}

const ECHO: Token = Token(0);
const INTERRUPT: Token = Token(1);

/// Sends until the session is over.
pub(super) fn run(session: &mut Session, slack: Duration) -> io::Result<()> {
    let mut timers = SoftTimers::new(config());
    let slack = Slack::within(slack);
    timers.schedule_at(Monotonic.now(), session.flow.due(), slack, Event::Departure);
    drive(session, timers, slack)
}

/// Does only the work, in the same loop: what pacing is compared with.
pub(super) fn idle(session: &mut Session) -> io::Result<()> {
    drive(session, SoftTimers::new(config()), Slack::EXACT)
}

fn drive(session: &mut Session, mut timers: SoftTimers<Event>, slack: Slack) -> io::Result<()> {
    timers.schedule_at(Monotonic.now(), session.end, Slack::EXACT, Event::End);
    let driven = if let Workload::Compute(_) = session.work {
        compute(session, &mut timers, slack)
    } else {
        serve(session, &mut timers, slack)
    };
    if let Some(intervals) = timers.intervals() {
        session.trigger_intervals = looks::kept(&intervals.all());
    }
    driven
}

/// The intervals between trigger states cost 5 ns each, and say how late an event can be.
fn config() -> Config {
    Config::default().intervals(true)
}

fn serve(session: &mut Session, timers: &mut SoftTimers<Event>, slack: Slack) -> io::Result<()> {
    let mut events = EventLoop::new(LoopConfig::default())?;
    events.register(&session.interrupt, INTERRUPT, Interest::Readable)?;
    if let Workload::Echo(echo) = &session.work {
        events.register(echo, ECHO, Interest::Readable)?;
    }
    let mut over = false;
    while !over {
        match events.next(timers)? {
            Happening::Due(fired) => over = handle(session, timers, slack, &fired)?,
            Happening::Ready { token: ECHO, .. } => over = visit(session, timers, slack)?,
            Happening::Ready { .. } => over = true,
        }
    }
    session.waited(events.waiting());
    session.handlers = Some(events.stats());
    Ok(())
}

/// Serves the echo server's clients, with a trigger state after each group of requests.
fn visit(session: &mut Session, timers: &mut SoftTimers<Event>, slack: Slack) -> io::Result<bool> {
    let mut left = VISIT;
    loop {
        let more = session.work.serve_group(&mut left)?;
        if !more {
            return Ok(false);
        }
        if trigger(session, timers, slack, TriggerState::SyscallExit)? {
            return Ok(true);
        }
    }
}

/// A program that only computes, and looks at the clock between two pieces.
fn compute(session: &mut Session, timers: &mut SoftTimers<Event>, slack: Slack) -> io::Result<()> {
    loop {
        session.work.compute_piece();
        if trigger(session, timers, slack, TriggerState::HandlerExit)? || session.interrupt.arrived() {
            return Ok(());
        }
    }
}

/// One trigger state inside a handler; whether the run is over.
#[inline]
fn trigger(
    session: &mut Session,
    timers: &mut SoftTimers<Event>,
    slack: Slack,
    source: TriggerState,
) -> io::Result<bool> {
    let turn = timers.trigger(source, Monotonic.now());
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

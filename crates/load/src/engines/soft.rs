//! softtimers: the flow as an event of [`SoftTimers`] in an [`EventLoop`].

use std::io;
use std::time::Duration;

use softtimers::{EventLoop, Happening, Interest, LoopConfig, Monotonic, Token};
use softtimers_core::{Clock, Config, Fired, Idle, Slack, SoftTimers, Timestamp, TriggerState};

use super::engine::Engine;
use crate::session::{Handling, Session, Triggers};
use crate::work::{MOST_PER_SEND, VISIT, Workload};

/// The clock is checked at every trigger state.
pub(super) const SOFT: Engine = Engine {
    handling: Handling { queued: true, ahead: false },
    has_trigger_states: true,
    ..Engine::new(
        "soft",
        "softtimers: the clock is checked at every trigger state, one backup timer at the deadline",
        |session| {
            let (slack, idle) = (session.habits.slack, session.habits.idle);
            SoftLoop::new(session, Some(slack)).drive(idle)
        },
    )
};

/// A timer's event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A datagram is due.
    Departure,
    /// The run is over.
    End,
}

/// Does only the work, in softtimers' loop with nothing to send, to measure the cost of its trigger states. Not a
/// baseline for throughput retained, since that loop is softtimers' own.
pub(crate) fn idle(session: &mut Session) -> io::Result<()> {
    SoftLoop::new(session, None).drive(Idle::park())
}

struct SoftLoop<'a> {
    session: &'a mut Session,
    timers: SoftTimers<Event>,
    /// The slack of a departure; `None` if nothing is sent.
    slack: Option<Duration>,
}

impl<'a> SoftLoop<'a> {
    fn new(session: &'a mut Session, slack: Option<Duration>) -> Self {
        // Recording the intervals between trigger states costs 5 ns each; they bound how late an event can be.
        let config = Config::default().intervals(true).intervals_without_each(session.habits.without_each);
        let timers =
            SoftTimers::new(session.habits.disabled.into_iter().fold(config, Config::disable_source));
        SoftLoop { session, timers, slack }
    }

    /// Begins once the loop has been created.
    fn begin(&mut self) {
        self.session.loop_begins();
        let now = Monotonic.now();
        self.timers.schedule_at(now, self.session.end, Slack::EXACT, Event::End);
        self.schedule_departure(now);
    }

    fn schedule_departure(&mut self, now: Timestamp) {
        let (flow, Some(slack)) = (&self.session.flow, self.slack) else { return };
        self.timers.schedule_at(now, flow.due(), Slack::within(flow.slack(slack)), Event::Departure);
    }

    fn drive(&mut self, idle: Idle) -> io::Result<()> {
        let driven =
            if let Workload::Compute(_) = self.session.work { self.compute() } else { self.serve(idle) };
        if let Some(triggers) = Triggers::from_timers(&self.timers) {
            self.session.trigger_intervals = (&triggers.intervals).into();
            self.session.triggers = Some(Box::new(triggers));
        }
        driven
    }

    fn serve(&mut self, idle: Idle) -> io::Result<()> {
        let mut events = EventLoop::new(LoopConfig { idle, ..LoopConfig::default() })?;
        events.register(&self.session.interrupt, INTERRUPT, Interest::Readable)?;
        if let Workload::Echo(echo) = &self.session.work {
            events.register(echo, ECHO, Interest::Readable)?;
        }
        self.begin();
        let mut over = false;
        while !over {
            match events.next(&mut self.timers)? {
                Happening::Due(fired) => over = self.handle(&fired)?,
                Happening::Ready { token: ECHO, .. } => over = self.visit()?,
                Happening::Ready { .. } => over = true,
            }
        }
        self.session.loop_ends();
        self.session.waited(events.waiting());
        self.session.idled(events.polling(), events.held_back());
        self.session.handlers = Some(events.stats());
        Ok(())
    }

    /// Serves the echo server's clients, with a trigger state after each group of requests, and before each part of
    /// answering one that takes longer than a gap (soft timers §5.1 puts some into the send loop). Returns whether the
    /// run is over.
    fn visit(&mut self) -> io::Result<bool> {
        let mut left = VISIT;
        loop {
            let taken = self.session.work.take_group()?;
            for answered in (0..taken).step_by(MOST_PER_SEND) {
                if taken > MOST_PER_SEND
                    && self.trigger(if answered == 0 {
                        TriggerState::SyscallExit
                    } else {
                        TriggerState::Send
                    })?
                {
                    return Ok(true);
                }
                self.session.work.answer(answered..taken.min(answered + MOST_PER_SEND));
            }
            if !self.session.work.more(taken, &mut left) {
                return Ok(false);
            }
            if self.trigger(TriggerState::SyscallExit)? {
                return Ok(true);
            }
        }
    }

    /// Computes, and checks the clock between two pieces.
    fn compute(&mut self) -> io::Result<()> {
        self.begin();
        loop {
            self.session.work.compute_piece();
            if self.trigger(TriggerState::HandlerExit)? || self.session.interrupt.arrived() {
                self.session.loop_ends();
                return Ok(());
            }
        }
    }

    /// Passes one trigger state inside a handler; returns whether the run is over.
    #[inline]
    fn trigger(&mut self, source: TriggerState) -> io::Result<bool> {
        let turn = self.timers.trigger(source, Monotonic.now());
        while let Some(fired) = self.timers.next(&turn) {
            if self.handle(&fired)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn handle(&mut self, fired: &Fired<Event>) -> io::Result<bool> {
        if fired.event == Event::End {
            return Ok(true);
        }
        let now = fired.due + fired.lateness;
        let (flow, timers) = (&mut self.session.flow, &self.timers);
        flow.checked(|| timers.intervals()?.latest());
        let mut due = flow.depart(now, fired.source)?;
        // Whatever fell due meanwhile leaves before the sources are polled, and not by a turn of its own.
        for _ in 1..TURNS {
            let now = Monotonic.now();
            if due > now || flow.finished() {
                break;
            }
            due = flow.depart(now, fired.source)?;
        }
        self.schedule_departure(now);
        Ok(self.session.flow.finished() || self.session.interrupt.arrived())
    }
}

/// The most calls before the sources are polled: under overload there is always something due.
const TURNS: u32 = 8;

const ECHO: Token = Token(0);
const INTERRUPT: Token = Token(1);

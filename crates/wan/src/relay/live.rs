//! The loop of a path in real time: [`Live`].

use std::io::{self, ErrorKind};

use softtimers::{Config, EventLoop, Happening, LoopConfig, Slack, SoftTimers, TimerId, Timestamp, Token};

use super::send_cost::SendCost;
use super::{BATCH, Carried, Edge, Ended, Event, Packet, Ready, WATCHED};
use crate::{Delivery, Wan, WanBuilder, Way};

/// A path, its loop, and timers for it and the edge.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) events: EventLoop,
    pub(crate) timers: SoftTimers<Event>,
    pub(crate) wan: Wan<Packet>,
    /// The time from when a packet is taken out until the kernel has it.
    lead: SendCost,
    /// Whether a scenario is active, which may change the path at any moment.
    pub(crate) follows: bool,
    /// The timer for the path's next event, with its time.
    look_at: Option<(TimerId, Timestamp)>,
}

/// The next step of a relay.
enum Next {
    /// A descriptor of the edge is ready.
    Ready(Ready),
    /// An event of its own is due.
    Due(Event),
    /// Only the path has moved.
    Path,
    /// The run ends, for this reason.
    Ended(Ended),
}

impl Live {
    pub(crate) fn new(config: LoopConfig, path: WanBuilder) -> io::Result<Self> {
        let wan = path.build().map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let (events, timers) = (EventLoop::new(config)?, SoftTimers::new(Config::default()));
        let lead = SendCost::default();
        Ok(Live { events, timers, wan, lead, follows: false, look_at: None })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.events.now()
    }

    /// Schedules an event of the edge, which may be late by the slack.
    pub(crate) fn schedule(&mut self, at: Timestamp, slack: Slack, event: Event) -> TimerId {
        self.timers.schedule_at(self.events.now(), at, slack, event)
    }

    /// Carries between the ends until this time.
    pub(crate) fn carry(
        &mut self,
        edge: &mut dyn Edge,
        until: Option<Timestamp>,
        observe: &mut dyn FnMut(&Carried),
    ) -> io::Result<Ended> {
        let stop = until.map(|until| self.timers.schedule_at(self.now(), until, Slack::EXACT, Event::Stop));
        let ended = self.carry_until_stopped(edge, observe);
        stop.map(|stop| self.timers.cancel(stop));
        ended
    }

    fn carry_until_stopped(
        &mut self,
        edge: &mut dyn Edge,
        observe: &mut dyn FnMut(&Carried),
    ) -> io::Result<Ended> {
        loop {
            match self.next(edge)? {
                Next::Ended(ended) => return Ok(ended),
                Next::Ready(ready) => edge.ready(self, ready),
                Next::Due(event) => edge.due(self, event),
                Next::Path => {}
            }
            // At most a batch; what else has arrived is due after the next poll of the sources.
            let (begun, mut sent) = (self.now(), 0);
            let leaves =
                [Way::Up, Way::Down].map(|way| self.leaves_at(edge, way).is_some_and(|at| at <= begun));
            while sent < BATCH {
                let left = self.now();
                // By then the kernel has it.
                let now = left + self.lead.least();
                let Some((way, delivery)) = self.wan.pop_due_of(now, leaves) else { break };
                let Delivery { bytes, offered, due, .. } = delivery;
                observe(&Carried { way, bytes, offered, due, left });
                edge.send(self, now, way, delivery);
                sent += 1;
            }
            edge.settle(self)?;
            if sent == 1 {
                self.lead.learn(self.now().saturating_duration_since(begun));
            }
        }
    }

    /// Sleeps until something is to be done, on the path or at its ends.
    fn next(&mut self, edge: &dyn Edge) -> io::Result<Next> {
        let ways = [Way::Up, Way::Down].into_iter().filter_map(|way| self.leaves_at(edge, way));
        self.arm(ways.chain(edge.wakes_at(self)).min());
        Ok(match self.events.next(&mut self.timers)? {
            Happening::Ready { token: Token(token), .. } if token & WATCHED != 0 => {
                Next::Ended(Ended::Watched(token as u32))
            }
            Happening::Ready { token: Token(token), readable, writable } => {
                Next::Ready(Ready { token, readable, writable })
            }
            Happening::Due(fired) => match fired.event {
                Event::Stop => Next::Ended(Ended::Time),
                Event::Path => {
                    self.look_at = None;
                    Next::Path
                }
                event => Next::Due(event),
            },
        })
    }

    /// Returns when the next packets of a direction leave: with the last of those that leave as one.
    fn leaves_at(&self, edge: &dyn Edge, way: Way) -> Option<Timestamp> {
        let at = self.wan.direction(way).poll_at()?.saturating_sub(self.lead.least());
        Some(at + edge.may_wait(self, way))
    }

    fn arm(&mut self, at: Option<Timestamp>) {
        if self.look_at.map(|(_, at)| at) == at {
            return;
        }
        if let Some((id, _)) = self.look_at.take() {
            self.timers.cancel(id);
        }
        self.look_at = at.map(|at| (self.schedule(at, Slack::EXACT, Event::Path), at));
    }
}

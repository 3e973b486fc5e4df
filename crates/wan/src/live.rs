//! A path in real time: the loop of all relays.
//!
//! ```text
//!   what is ready ──▶ the relay reads, offers ──▶ Wan ──▶ due: the relay writes
//!        ▲                                                   │
//!        └───────────── sleep until poll_at ◀────────────────┘
//! ```

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use softtimers::{
    Config, EventLoop, Happening, Interest, LoopConfig, Slack, SoftTimers, TimerId, Timestamp, Token,
};

use crate::{Wan, WanBuilder, Way};

/// Why a relay's run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    /// The time given to the run is over.
    Time,
    /// This watched descriptor is readable.
    Watched(u32),
}

/// An item that has left the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The direction that the packet takes.
    pub way: Way,
    /// Its size on the path in bytes.
    pub bytes: u32,
    /// The time at which the kernel received it.
    pub offered: Timestamp,
    /// The time at which it was due.
    pub due: Timestamp,
    /// The time at which it was sent.
    pub left: Timestamp,
}

/// A path with packets `P`, its loop, and timers for the relay's own events `E`.
#[derive(Debug)]
pub(crate) struct Live<P, E> {
    pub(crate) events: EventLoop,
    pub(crate) timers: SoftTimers<Event<E>>,
    pub(crate) wan: Wan<P>,
    /// The timer for the path's next event.
    look_at: Option<(TimerId, Timestamp)>,
}

/// The methods that every relay has.
macro_rules! controls {
    ($relay:ident) => {
        impl $relay {
            /// Makes [`run`](Self::run) return with this number when a descriptor is readable, such as a signal's or a
            /// control socket's. It is reported as long as it is readable.
            ///
            /// # Errors
            /// As [`EventLoop::register`](softtimers::EventLoop::register).
            pub fn watch(&mut self, source: &impl std::os::fd::AsFd, number: u32) -> std::io::Result<()> {
                self.live.watch(source, number)
            }

            /// Stops watching it.
            ///
            /// # Errors
            /// `NotFound` if it is not watched.
            pub fn unwatch(&mut self, source: &impl std::os::fd::AsFd) -> std::io::Result<()> {
                self.live.unwatch(source)
            }

            /// Returns the time of the clock by which the path delays.
            pub fn now(&self) -> softtimers::Timestamp {
                self.live.now()
            }

            /// Returns the current settings of one direction, as set or as changed by a scenario.
            pub fn path(&self, way: crate::Way) -> crate::PathConfig {
                self.live.wan.direction(way).path_at(self.live.now())
            }

            /// Returns the counts of one direction. The opening and the end of a stream count as pieces without a byte.
            pub fn counters(&self, way: crate::Way) -> crate::Counters {
                self.live.wan.direction(way).counters()
            }

            /// Returns the measurements of what came out.
            pub fn measured(&self, way: crate::Way) -> &crate::Measured {
                self.live.wan.direction(way).measured()
            }

            /// Returns the backlog at the link of one direction: see [`Direction::backlog`](crate::Direction::backlog).
            pub fn backlog(&self, way: crate::Way) -> crate::Backlog {
                self.live.wan.direction(way).backlog()
            }

            /// Returns how often the loop has waited, and how long its handlers took.
            pub fn loop_stats(&self) -> softtimers::LoopStats {
                self.live.events.stats()
            }
        }
    };
}

pub(crate) use controls;

/// The timed events of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event<E> {
    /// Something on the path arrives.
    Path,
    /// The run ends.
    Stop,
    /// An event of the relay's own.
    Own(E),
}

/// The next step of a relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next<E> {
    /// A descriptor of the relay is ready.
    Ready { token: u64, readable: bool, writable: bool },
    /// An event of its own is due.
    Due(E),
    /// Only the path has moved.
    Path,
    /// The run ends, for this reason.
    Ended(Ended),
}

impl<P: Clone, E> Live<P, E> {
    pub(crate) fn new(config: LoopConfig, path: WanBuilder) -> io::Result<Self> {
        let wan = path.build().map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let (events, timers) = (EventLoop::new(config)?, SoftTimers::new(Config::default()));
        Ok(Live { events, timers, wan, look_at: None })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.events.now()
    }

    /// Watches a descriptor that does not belong to the relay.
    pub(crate) fn watch(&self, source: &impl AsFd, number: u32) -> io::Result<()> {
        self.events.register(source, Token(WATCHED | u64::from(number)), Interest::Readable)
    }

    /// Stops watching it.
    pub(crate) fn unwatch(&self, source: &impl AsFd) -> io::Result<()> {
        self.events.deregister(source)
    }

    /// Schedules an event of the relay, which may be late by the slack.
    pub(crate) fn schedule(&mut self, at: Timestamp, slack: Slack, event: E) -> TimerId {
        self.timers.schedule_at(self.events.now(), at, slack, Event::Own(event))
    }

    /// Ends the run at this time; to be [cancelled](SoftTimers::cancel) at the end.
    pub(crate) fn stop_at(&mut self, until: Timestamp) -> TimerId {
        self.timers.schedule_at(self.events.now(), until, Slack::EXACT, Event::Stop)
    }

    /// Sleeps until something is to be done: on the path, or at `earlier` if that is sooner.
    pub(crate) fn next(&mut self, earlier: Option<Timestamp>) -> io::Result<Next<E>> {
        self.arm(self.wan.poll_at().into_iter().chain(earlier).min());
        Ok(match self.events.next(&mut self.timers)? {
            Happening::Ready { token: Token(token), .. } if token & WATCHED != 0 => {
                Next::Ended(Ended::Watched(token as u32))
            }
            Happening::Ready { token: Token(token), readable, writable } => {
                Next::Ready { token, readable, writable }
            }
            Happening::Due(fired) => match fired.event {
                Event::Stop => Next::Ended(Ended::Time),
                Event::Own(event) => Next::Due(event),
                Event::Path => {
                    self.look_at = None;
                    Next::Path
                }
            },
        })
    }

    fn arm(&mut self, at: Option<Timestamp>) {
        if self.look_at.map(|(_, at)| at) == at {
            return;
        }
        if let Some((id, _)) = self.look_at.take() {
            self.timers.cancel(id);
        }
        self.look_at = at.map(|at| {
            let id = self.timers.schedule_at(self.events.now(), at, Slack::EXACT, Event::Path);
            (id, at)
        });
    }
}

/// Tokens with this bit are watched descriptors; all others are the relay's.
const WATCHED: u64 = 1 << 63;

//! A path in real time: the loop that all relays turn.
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

/// Why a relay has come back from carrying.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    /// The time that the run was given is over.
    Time,
    /// This watched descriptor can be read.
    Watched(u32),
}

/// Something that has left the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The direction that the packet takes.
    pub way: Way,
    /// The number of bytes that the path took it for.
    pub bytes: u32,
    /// When the kernel received it.
    pub offered: Timestamp,
    /// When it was to be sent.
    pub due: Timestamp,
    /// When it was sent.
    pub left: Timestamp,
}

/// A path with packets `P`, the loop that carries them, and timers for events `E` of the relay's own.
#[derive(Debug)]
pub(crate) struct Live<P, E> {
    pub(crate) events: EventLoop,
    pub(crate) timers: SoftTimers<Event<E>>,
    pub(crate) wan: Wan<P>,
    /// When the path is looked at next.
    look_at: Option<(TimerId, Timestamp)>,
}

/// The questions and settings that every relay has.
macro_rules! controls {
    ($relay:ident) => {
        impl $relay {
            /// Has [`run`](Self::run) come back with this number when a descriptor can be read: of a signal, a control
            /// socket. It is reported as long as it can.
            ///
            /// # Errors
            /// As [`EventLoop::register`](softtimers::EventLoop::register).
            pub fn watch(&mut self, source: &impl std::os::fd::AsFd, number: u32) -> std::io::Result<()> {
                self.live.watch(source, number)
            }

            /// Watches it no more.
            ///
            /// # Errors
            /// `NotFound` if it is not watched.
            pub fn unwatch(&mut self, source: &impl std::os::fd::AsFd) -> std::io::Result<()> {
                self.live.unwatch(source)
            }

            /// Returns the time, by the clock that the path delays by.
            pub fn now(&self) -> softtimers::Timestamp {
                self.live.now()
            }

            /// Returns what holds in one direction now: what was set, or a scenario has made of it.
            pub fn path(&self, way: crate::Way) -> crate::PathConfig {
                self.live.wan.direction(way).path_at(self.live.now())
            }

            /// Returns what became of what was put on the path in one direction. The opening and the end of a stream count
            /// as pieces without a byte.
            pub fn counters(&self, way: crate::Way) -> crate::Counters {
                self.live.wan.direction(way).counters()
            }

            /// Returns what was measured of what came out.
            pub fn measured(&self, way: crate::Way) -> &crate::Measured {
                self.live.wan.direction(way).measured()
            }

            /// Returns what waits for the link of one direction: see [`Direction::backlog`](crate::Direction::backlog).
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

/// The events that the loop waits for beside descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event<E> {
    /// Something on the path arrives.
    Path,
    /// The run is to end.
    Stop,
    /// An event of the relay's own.
    Own(E),
}

/// The next step of a relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next<E> {
    /// A descriptor of its own is ready.
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

    /// Watches a descriptor that is not the relay's.
    pub(crate) fn watch(&self, source: &impl AsFd, number: u32) -> io::Result<()> {
        self.events.register(source, Token(WATCHED | u64::from(number)), Interest::Readable)
    }

    /// Watches it no more.
    pub(crate) fn unwatch(&self, source: &impl AsFd) -> io::Result<()> {
        self.events.deregister(source)
    }

    /// An event at a time that nobody minds to the nanosecond.
    pub(crate) fn schedule(&mut self, at: Timestamp, slack: Slack, event: E) -> TimerId {
        self.timers.schedule_at(self.events.now(), at, slack, Event::Own(event))
    }

    /// Has [`next`](Self::next) say so when it is time; to be [cancelled](SoftTimers::cancel) at the end.
    pub(crate) fn stop_at(&mut self, until: Timestamp) -> TimerId {
        self.timers.schedule_at(self.events.now(), until, Slack::EXACT, Event::Stop)
    }

    /// Sleeps until there is something to do: on the path, or at `earlier` if that is sooner.
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

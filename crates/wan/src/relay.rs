//! A path in real time: [`Relay`], with [`Live`], the loop of all of them, and [`Edge`], what lies at its two ends.
//!
//! ```text
//!   what is ready ──▶ Edge::ready reads, offers ──▶ Wan ──▶ due: Edge::send
//!        ▲                                                       │
//!        └──────── sleep until poll_at ◀── Edge::settle ◀────────┘
//! ```

mod live;
mod send_cost;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use softtimers::{Interest, LoopStats, Timestamp, Token};
use softtimers_net::packet::{Offload, Unit};
use softtimers_net::relay::{ClientId, RelayStats};

use crate::flow::Segment;
use crate::interfaces::BridgeStats;
use crate::tcp::{ConnectionId, StreamStats};
use crate::toxic::Dose;
use crate::{Backlog, Counters, Delivery, Measured, PathConfig, PathError, Scenario, Way};
pub(crate) use live::Live;

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
    /// The time at which its send began: before it was due by no more than what the fastest sends take until the kernel
    /// has the packet, and never by more than 20 µs.
    pub left: Timestamp,
}

/// A path in real time, between two sockets or interfaces: between [datagrams](Relay::udp) or [streams](Relay::tcp) of
/// many clients and an upstream, or between two [interfaces](Relay::bridge).
#[derive(Debug)]
pub struct Relay {
    pub(crate) live: Live,
    pub(crate) edge: Box<dyn Edge>,
}

/// What lies at the two ends of a path.
pub(crate) trait Edge: fmt::Debug {
    /// Returns the counters besides those of the path.
    fn stats(&self) -> EdgeStats;

    /// Returns the address that clients use, if there are clients.
    fn local_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// Says whether it can lie at the ends of this path.
    fn check(&self, path: &PathConfig) -> Result<(), PathError> {
        path.check()
    }

    /// Returns how long the next packet of a direction may wait for those behind it, since they leave as one.
    fn may_wait(&self, _: &Live, _: Way) -> Duration {
        Duration::ZERO
    }

    /// Returns when it has something to do besides its events.
    fn wakes_at(&self, _: &Live) -> Option<Timestamp> {
        None
    }

    /// Sets the toxics behind the path, which only streams have.
    fn set_toxics(&mut self, _: &mut Live, _: Way, _: Vec<Dose>) {}

    /// Reads from a ready descriptor, and offers it to the path.
    fn ready(&mut self, live: &mut Live, ready: Ready);

    /// Handles an event of its own.
    fn due(&mut self, live: &mut Live, event: Event);

    /// Sends what has left the path.
    fn send(&mut self, live: &mut Live, now: Timestamp, way: Way, delivery: Delivery<Packet>);

    /// Finishes a turn of the loop, after a batch was sent; an error ends the run.
    fn settle(&mut self, live: &mut Live) -> io::Result<()>;

    /// Begins to close what takes its time, after the last turn.
    fn close(&mut self) {}
}

/// The counters of what lies at the ends of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdgeStats {
    /// Those of datagrams.
    Udp(RelayStats),
    /// Those of streams.
    Tcp(StreamStats),
    /// Those of two interfaces.
    Interfaces(BridgeStats),
}

/// What takes the path.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// A datagram of a client, or an answer to it.
    Datagram(ClientId, Box<[u8]>),
    /// A piece of a stream.
    Piece(ConnectionId, Segment),
    /// A frame, with the offloads left to its interface.
    Frame(Vec<u8>, Offload),
    /// A segment of a joined frame.
    Segment(Rc<Unit>, u16),
}

impl AsMut<[u8]> for Packet {
    /// Returns the bytes that may be damaged.
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Packet::Datagram(_, bytes) => bytes,
            Packet::Frame(bytes, _) => bytes,
            Packet::Piece(..) | Packet::Segment(..) => &mut [],
        }
    }
}

impl Relay {
    /// Carries until this time, or without end, or until a [watched](Self::watch) descriptor is readable. What is on
    /// the path then stays there until it runs again.
    ///
    /// # Errors
    /// None on a working system, but [`Problem::Loop`](crate::interfaces::Problem::Loop) of two interfaces, as the error's
    /// source: errors about a packet or a connection are counted.
    pub fn run(&mut self, until: Option<Timestamp>) -> io::Result<Ended> {
        self.run_observed(until, |_| {})
    }

    /// As [`run`](Self::run), and `observe` sees each item that leaves the path: for a distribution finer than
    /// [`Measured`]'s, or a record of the run.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_observed(
        &mut self,
        until: Option<Timestamp>,
        mut observe: impl FnMut(&Carried),
    ) -> io::Result<Ended> {
        self.live.carry(&mut *self.edge, until, &mut observe)
    }

    /// Begins to close interfaces, which takes the kernel milliseconds; dropping waits for that. Nothing passes between
    /// them any more, while sockets carry until they are dropped. The counters stay.
    pub fn close(&mut self) {
        self.edge.close();
    }

    /// Makes [`run`](Self::run) return with this number when a descriptor is readable, such as a signal's or a control
    /// socket's. It is reported as long as it is readable.
    ///
    /// # Errors
    /// As [`EventLoop::register`](softtimers::EventLoop::register).
    pub fn watch(&mut self, source: &impl AsFd, number: u32) -> io::Result<()> {
        self.live.events.register(source, Token(WATCHED | u64::from(number)), Interest::Readable)
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn unwatch(&mut self, source: &impl AsFd) -> io::Result<()> {
        self.live.events.deregister(source)
    }

    /// Changes the path in one direction from now on: see [`Direction::set`](crate::Direction::set).
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`], between streams as [`PathConfig::check_stream`]; then nothing changes.
    pub fn set(&mut self, way: Way, path: PathConfig) -> Result<(), PathError> {
        self.edge.check(&path)?;
        self.live.wan.set(self.live.now(), way, path)
    }

    /// Changes the path by a scenario that begins now: see [`Wan::play`](crate::Wan::play).
    ///
    /// # Errors
    /// As [`set`](Self::set), of any path that the scenario leads to; then nothing changes.
    pub fn play(&mut self, scenario: &Scenario) -> Result<(), PathError> {
        for way in [Way::Up, Way::Down] {
            scenario.paths(way, self.path(way)).try_for_each(|(_, path)| self.edge.check(&path))?;
        }
        self.live.wan.play(self.live.now(), scenario)?;
        self.live.follows = true;
        Ok(())
    }

    /// Makes the next change of a scenario, whichever direction it is of, now instead of later; all that follow come
    /// sooner by as much. Returns whether there was one.
    pub fn skip(&mut self) -> bool {
        self.live.wan.skip(self.live.now())
    }

    /// Returns the time of the clock by which the path delays.
    pub fn now(&self) -> Timestamp {
        self.live.now()
    }

    /// Returns the current settings of one direction, as set or as changed by a scenario.
    pub fn path(&self, way: Way) -> PathConfig {
        self.live.wan.direction(way).path_at(self.live.now())
    }

    /// Returns the counts of one direction. The opening and the end of a stream count as pieces without a byte.
    pub fn counters(&self, way: Way) -> Counters {
        self.live.wan.direction(way).counters()
    }

    /// Returns the measurements of what came out.
    pub fn measured(&self, way: Way) -> &Measured {
        self.live.wan.direction(way).measured()
    }

    /// Returns the backlog at the link of one direction: see [`Direction::backlog`](crate::Direction::backlog).
    pub fn backlog(&self, way: Way) -> Backlog {
        self.live.wan.direction(way).backlog()
    }

    /// Returns how often the loop has waited, and how long its handlers took.
    pub fn loop_stats(&self) -> LoopStats {
        self.live.events.stats()
    }

    /// Returns the counters besides those of the path.
    pub fn stats(&self) -> EdgeStats {
        self.edge.stats()
    }

    /// Returns the address that clients use; `None` between interfaces.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.edge.local_addr()
    }

    /// Sets the [toxics](crate::toxic) of one direction, behind the path, for all connections from now on. Only streams
    /// have toxics.
    pub fn set_toxics(&mut self, way: Way, doses: Vec<Dose>) {
        self.edge.set_toxics(&mut self.live, way, doses);
    }
}

/// The timed events of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Something on the path arrives.
    Path,
    /// The run ends.
    Stop,
    /// A connection may have been inactive for too long.
    Expiry(ConnectionId),
    /// A toxic releases something.
    Toxic(ConnectionId),
    /// Descriptors for connections may be available again.
    Accept,
    /// A probe for a loop of interfaces is due.
    Probe,
}

/// A descriptor that is ready, by the token that the edge registered it with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// Packets sent, or received, per turn, so that each side gets its own.
pub(crate) const BATCH: usize = 64;
/// Tokens with this bit are watched descriptors; all others are the edge's.
const WATCHED: u64 = 1 << 63;

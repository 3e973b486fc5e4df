//! The event-driven server: [`Engine`], the paper's Flash on softtimers.
//!
//! Both ways to find requests share everything else. The plain one is a good event loop: edge-triggered, up to 256
//! sources per system call, and no clock.
//!
//! ```text
//!   epoll    ─▶ epoll_wait, asleep if nothing is ready ─▶ a request of each of them ┐
//!     ▲─────────────────────────────────────────────────────────────────────────────┘
//!
//!   polled   ─▶ trigger state: poll due? ─▶ epoll_wait without sleeping; the next poll by the quota
//!     ▲              └─▶ answer one request ─┐      nothing to do: it polls at once, and sleeps when that has found
//!     └──────────────────────────────────────┘      nothing for a millisecond
//!
//!   napi     ─▶ as epoll until there was no idle time for a millisecond; then as polled, but the event polls the interface
//!                for packets first, whose interrupts are deferred; idle for a quarter of a millisecond: interrupts again
//! ```
//!
//! The poll is a soft timer's event, and `Aggregation` controls its interval so that a poll finds `quota` connections
//! on average while others wait to be answered. When none wait, polling by the interval is turned off, as in the paper
//! when the CPU goes idle: a request is never delayed for nothing. But while the paper's CPU then takes interrupts,
//! this one goes on polling: under load it never sleeps, so no wake-up is paid for, neither here nor by the client's
//! kernel.

mod steering;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with};
use serde::{Deserialize, Serialize};
use softtimers::epoll::{BusyPoll, Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, TriggerState};
use softtimers_measure::usage::Usage;
use softtimers_net::napi::Queue;

use super::connection::{Connection, Scratch, Step, scratch};
use super::ports::Turns;
use super::request::Site;
use steering::Steering;

/// How requests are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looking {
    /// Waits for them by `epoll`.
    Epoll,
    /// By polling all the time, without ever sleeping.
    Spin,
    /// By polls at trigger states that find N connections on average.
    Polled(u32),
    /// Waits for them by `epoll`, whose waits poll for packets before they sleep; while they find any, the kernel suspends
    /// the interrupts of queues that are set up so.
    Suspended,
    /// By steered polls of the interface itself that find N connections on average, while the server is saturated.
    Napi(u32),
}

/// Counters of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStats {
    /// Answers sent, by port.
    pub answered: Vec<u64>,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Polls for connections that found some; or polls of the interface.
    pub looks: u64,
    /// Connections that these found ready or new; or that had a turn between two polls.
    pub found: u64,
    /// Waits that slept.
    pub sleeps: u64,
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
}

/// A server with its connections, on one thread.
#[derive(Debug)]
pub struct Engine<'a> {
    site: &'a Site,
    listeners: &'a [TcpListener],
    epoll: Epoll,
    events: Events,
    places: Vec<Option<ConnectionSlot>>,
    free: Vec<usize>,
    turns: Turns,
    scratch: Scratch,
    ended: bool,
    stats: ServerStats,
    /// The connection that the interface of each port is polled through.
    through: Vec<usize>,
    /// The connection of each port that had the last turn.
    last: Vec<usize>,
    /// Turns that connections of each port have had, until they are taken from here.
    handled: Vec<u32>,
}

/// A connection, and the engine's state for it.
#[derive(Debug)]
struct ConnectionSlot {
    connection: Connection<TcpStream>,
    port: usize,
    queued: bool,
    /// Whether epoll watches it. One that is answered and closed at its first step never is watched.
    watched: bool,
    /// Whether the client has finished sending: no edge will report it again.
    hung_up: bool,
    /// Whether the interface may be polled through it.
    prepared: bool,
}

impl<'a> Engine<'a> {
    /// Serves these listeners, each a port, until `end` is readable or closed; for ever if it is not a stream.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(site: &'a Site, listeners: &'a [TcpListener], end: Option<&impl AsFd>) -> io::Result<Self> {
        let epoll = Epoll::new(Waiting::Pwait2)?;
        for (port, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            // The standard library requests 128, which a crowd with a connection for each request overflows.
            rustix::net::listen(listener, BACKLOG)?;
            epoll.add(listener.as_fd(), LISTENERS + port as u64, EventFlags::IN)?;
        }
        if let Some(end) = end {
            match epoll.add(end.as_fd(), END, EventFlags::IN) {
                // A file, or `/dev/null`: nothing to wait for.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                other => other?,
            }
        }
        Ok(Engine {
            site,
            listeners,
            epoll,
            events: Events::with_capacity(EVENTS),
            places: Vec::new(),
            free: Vec::new(),
            turns: Turns::new(listeners.len()),
            scratch: scratch(),
            ended: false,
            stats: ServerStats { answered: vec![0; listeners.len()], ..ServerStats::default() },
            through: vec![0; listeners.len()],
            last: vec![0; listeners.len()],
            handled: vec![0; listeners.len()],
        })
    }

    /// Serves until its end.
    ///
    /// # Errors
    /// None on a working kernel, and none caused by a client.
    pub fn run(mut self, looking: Looking) -> io::Result<ServerStats> {
        let before = Usage::now();
        match looking {
            Looking::Epoll => self.by_epoll(None)?,
            Looking::Spin => self.by_epoll(Some(Duration::ZERO))?,
            Looking::Suspended => {
                self.epoll.set_busy_poll(BusyPoll {
                    time: Duration::from_micros(50),
                    budget: 64,
                    prefer: true,
                })?;
                self.by_epoll(None)?;
            }
            Looking::Polled(quota) => self.polled(Steering::sockets(quota))?,
            Looking::Napi(quota) => self.polled(Steering::interfaces(quota, self.listeners.len()))?,
        }
        let used = Usage::now().since(&before);
        (self.stats.sleeps, self.stats.cpu_ns) = (used.wakeups, used.cpu.as_nanos() as u64);
        Ok(self.stats)
    }

    fn by_epoll(&mut self, when_idle: Option<Duration>) -> io::Result<()> {
        while !self.ended {
            self.by_epoll_once(when_idle)?;
        }
        Ok(())
    }

    /// Polls once, and runs a step for each ready connection; those still ready have more than one request, and the
    /// next poll is for those that came meanwhile.
    fn by_epoll_once(&mut self, when_idle: Option<Duration>) -> io::Result<()> {
        let found = self.look(if self.turns.waiting() > 0 { Some(Duration::ZERO) } else { when_idle })?;
        self.count(found);
        for _ in 0..self.turns.waiting() {
            self.answer_one();
        }
        Ok(())
    }

    /// Answers one request after the other. At each end of a handler the soft event may be due, which polls; so does the
    /// loop when nothing is left to answer.
    fn polled(&mut self, mut steering: Steering) -> io::Result<()> {
        let mut timers = SoftTimers::new(Config::default());
        let mut due = None;
        while !self.ended {
            let now = Monotonic.now();
            let is_idle = self.turns.waiting() == 0;
            let turn =
                timers.trigger(if is_idle { TriggerState::Idle } else { TriggerState::HandlerExit }, now);
            let is_due = timers.next(&turn).is_some();
            if is_due || is_idle {
                if let Some(due) = due.take().filter(|_| !is_due) {
                    timers.cancel(due);
                }
                let next = steering.poll(self, now, is_due)?;
                due = next.map(|at| timers.schedule_at(Monotonic.now(), at, Slack::EXACT, ()));
            }
            self.answer_one();
        }
        Ok(())
    }

    /// Returns a connection of a port with nothing to be received: the same as long as that holds.
    fn through(&mut self, port: usize) -> io::Result<Option<&TcpStream>> {
        let is_free = |place: &Option<ConnectionSlot>| {
            place.as_ref().is_some_and(|place| place.port == port && !place.queued)
        };
        if !self.places.get(self.through[port]).is_some_and(is_free) {
            let Some(free) = self.places.iter().position(is_free) else { return Ok(None) };
            self.through[port] = free;
        }
        let Some(place) = self.places[self.through[port]].as_mut() else { return Ok(None) };
        if !std::mem::replace(&mut place.prepared, true) {
            Queue::prepare(place.connection.stream())?;
        }
        Ok(Some(place.connection.stream()))
    }

    /// Queues the connections that the kernel reports ready; sleeps until there is one, if `timeout` says so.
    fn look(&mut self, timeout: Option<Duration>) -> io::Result<u32> {
        let Engine { epoll, events, places, turns, .. } = self;
        epoll.wait(events, timeout)?;
        let mut found = 0;
        let mut calling = [false; MOST_PORTS];
        for event in events.iter() {
            match event.token {
                END => self.ended = true,
                token if token >= LISTENERS => {
                    if let Some(calls) = calling.get_mut((token - LISTENERS) as usize) {
                        *calls = true;
                    }
                }
                token => {
                    let Some(Some(place)) = places.get_mut(token as usize) else { continue };
                    place.hung_up |= event.readiness.intersects(EventFlags::RDHUP | EventFlags::HUP);
                    found += 1;
                    if !std::mem::replace(&mut place.queued, true) {
                        turns.push(place.port, token as usize);
                    }
                }
            }
        }
        for port in (0..self.listeners.len()).filter(|&port| calling.get(port) == Some(&true)) {
            found += self.accept(port);
        }
        Ok(found)
    }

    fn count(&mut self, found: u32) {
        self.stats.looks += u64::from(found > 0);
        self.stats.found += u64::from(found);
    }

    /// Accepts connections at this port, whose first request is usually there, too.
    fn accept(&mut self, port: usize) -> u32 {
        let mut found = 0;
        for _ in 0..MOST_ACCEPTED {
            let stream =
                match accept_with(&self.listeners[port], SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                    Ok(stream) => TcpStream::from(stream),
                    Err(rustix::io::Errno::WOULDBLOCK) => break,
                    // The client has given up meanwhile.
                    Err(_) => continue,
                };
            self.stats.accepted += 1;
            found += 1;
            let place = ConnectionSlot {
                connection: Connection::new(stream),
                port,
                queued: true,
                watched: false,
                hung_up: false,
                prepared: false,
            };
            let number = self.free.pop().unwrap_or_else(|| {
                self.places.push(None);
                self.places.len() - 1
            });
            self.places[number] = Some(place);
            self.turns.push(port, number);
        }
        found
    }

    /// Runs one step of the next connection; `false` if none waits.
    fn answer_one(&mut self) -> bool {
        let Some(number) = self.turns.pop() else { return false };
        let Some(Some(place)) = self.places.get_mut(number) else {
            self.free.push(number);
            return true;
        };
        place.queued = false;
        self.handled[place.port] += 1;
        self.last[place.port] = number;
        let step = place.connection.step(self.site, &mut self.scratch);
        let answered = matches!(step, Step::Answered { .. } | Step::Over { answered: true });
        self.stats.answered[place.port] += u64::from(answered);
        if matches!(step, Step::Over { .. }) {
            self.remove(number);
            return true;
        }
        let more = matches!(step, Step::Answered { more } if more || place.hung_up);
        if more {
            place.queued = true;
            self.turns.push(place.port, number);
        }
        if !std::mem::replace(&mut place.watched, true) {
            let stream = place.connection.stream().as_fd();
            let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            if self.epoll.add(stream, number as u64, interest).is_err() {
                // The kernel has no room to watch it.
                self.remove(number);
            }
        }
        true
    }

    fn remove(&mut self, number: usize) {
        if let Some(place) = self.places[number].take()
            && !place.queued
        {
            self.free.push(number);
        }
    }
}

/// Connections that may wait to be accepted, if the system allows as many (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;
/// Sources per system call: usually more than are ready at once.
const EVENTS: usize = 256;
/// Tokens below are connections.
const LISTENERS: u64 = 1 << 32;
const END: u64 = u64::MAX;
/// Ports reported by one poll.
const MOST_PORTS: usize = 64;
/// The most connections accepted at a port at a time; the others are there at the next.
const MOST_ACCEPTED: usize = 64;

#[cfg(test)]
mod tests;

//! The event-driven server: [`Engine`], the paper's Flash on softtimers.
//!
//! Both ways to look for requests have everything else in common. The plain one is what event loops do, at their best:
//! edge-triggered, up to 256 sources a system call, and no clock.
//!
//! ```text
//!   epoll    ─▶ epoll_wait, asleep if nothing is ready ─▶ a request of each of them ┐
//!     ▲─────────────────────────────────────────────────────────────────────────────┘
//!
//!   polled   ─▶ trigger state: look due? ─▶ epoll_wait that does not sleep; the next look by the quota
//!     ▲              └─▶ answer one request ─┐      nothing to do: it looks at once, and sleeps when that has found
//!     └──────────────────────────────────────┘      nothing for a millisecond
//! ```
//!
//! The look is a soft timer's event, and its interval is steered by [`Aggregation`] so that a look finds `quota`
//! connections on average while others wait to be answered. Where none do, polling by the interval is turned off, as in
//! the paper when the processor goes idle: a request is never delayed for nothing. It is only that the paper's
//! processor then takes interrupts, and this one goes on looking: while there is load nobody sleeps, so no wake-up is paid
//! for, neither here nor by the client's kernel.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with};
use serde::{Deserialize, Serialize};
use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, TriggerState};
use softtimers_measure::usage::Usage;
use softtimers_poll::{Aggregation, AggregationConfig, Look, Next, Policy};

use super::connection::{Connection, Scratch, Step, scratch};
use super::ports::Turns;
use super::request::Site;

/// How requests are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looking {
    /// By waiting.
    Epoll,
    /// By asking again and again, without ever sleeping.
    Spin,
    /// From trigger states, so that a look finds so many connections on average.
    Polled(u32),
}

/// What a server did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStats {
    /// Answers sent, by port.
    pub answered: Vec<u64>,
    /// Connections accepted.
    pub accepted: u64,
    /// Looks at the network that found something.
    pub looks: u64,
    /// Connections that these found ready or new.
    pub found: u64,
    /// How often it slept.
    pub sleeps: u64,
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
}

/// A server with its connections, on one thread.
#[derive(Debug)]
pub struct Engine<'a> {
    site: &'a Site,
    listeners: &'a [TcpListener],
    epoll: Epoll,
    events: Events,
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    turns: Turns,
    scratch: Scratch,
    ended: bool,
    stats: ServerStats,
}

/// A connection, and what the engine knows of it.
#[derive(Debug)]
struct Place {
    connection: Connection<TcpStream>,
    port: usize,
    queued: bool,
    /// Watched by epoll. One that is answered and closed at its first step never is.
    watched: bool,
    /// The client will send no more: no edge will say so again.
    hung_up: bool,
}

impl<'a> Engine<'a> {
    /// Of these listeners, each a port, until `end` can be read or has ended; for good if it is no stream.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(site: &'a Site, listeners: &'a [TcpListener], end: Option<&impl AsFd>) -> io::Result<Self> {
        let epoll = Epoll::new(Waiting::Pwait2)?;
        for (port, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            // The standard library asks for 128, which a crowd that connects anew for each request overflows.
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
        })
    }

    /// Serves until its end.
    ///
    /// # Errors
    /// None that a working kernel gives, and none that a client causes.
    pub fn run(mut self, looking: Looking) -> io::Result<ServerStats> {
        let before = Usage::now();
        match looking {
            Looking::Epoll => self.by_epoll(None)?,
            Looking::Spin => self.by_epoll(Some(Duration::ZERO))?,
            Looking::Polled(quota) => self.polled(quota)?,
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

    /// A look, and a step of each who waits; who then still does had more than one request, and the next look is for those
    /// who have come meanwhile.
    fn by_epoll_once(&mut self, when_idle: Option<Duration>) -> io::Result<()> {
        self.look(if self.turns.waiting() > 0 { Some(Duration::ZERO) } else { when_idle })?;
        for _ in 0..self.turns.waiting() {
            self.answer_one();
        }
        Ok(())
    }

    fn polled(&mut self, quota: u32) -> io::Result<()> {
        let mut policy = Aggregation::new(AggregationConfig { quota, ..AggregationConfig::default() });
        let mut timers = SoftTimers::new(Config::default());
        let mut found_at = Monotonic.now();
        let mut due = timers.schedule_at(found_at, found_at, Slack::EXACT, ());
        while !self.ended {
            let now = Monotonic.now();
            let is_idle = self.turns.waiting() == 0;
            let turn =
                timers.trigger(if is_idle { TriggerState::Idle } else { TriggerState::HandlerExit }, now);
            let is_due = timers.next(&turn).is_some();
            if is_due || is_idle {
                if !is_due {
                    timers.cancel(due);
                    policy.idle(now);
                }
                let gone = is_idle && now.saturating_duration_since(found_at) > PATIENCE;
                let found = self.look(if gone { None } else { Some(Duration::ZERO) })?;
                let ended = Monotonic.now();
                found_at = if found > 0 || gone { ended } else { found_at };
                let next = match policy.looked(&Look { began: now, ended, found }) {
                    Next::At(time) => time,
                    _ => ended,
                };
                due = timers.schedule_at(ended, next, Slack::EXACT, ());
            }
            self.answer_one();
        }
        Ok(())
    }

    /// Asks the kernel what is ready, and queues it; asleep until something is, if `timeout` says so.
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
        self.stats.looks += u64::from(found > 0);
        self.stats.found += u64::from(found);
        Ok(found)
    }

    /// Takes on who calls at this port, of whom the first request is most often there, too.
    fn accept(&mut self, port: usize) -> u32 {
        let mut found = 0;
        for _ in 0..MOST_ACCEPTED {
            let stream =
                match accept_with(&self.listeners[port], SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                    Ok(stream) => TcpStream::from(stream),
                    Err(rustix::io::Errno::WOULDBLOCK) => break,
                    // Of a client that has given up meanwhile.
                    Err(_) => continue,
                };
            self.stats.accepted += 1;
            found += 1;
            let place = Place {
                connection: Connection::new(stream),
                port,
                queued: true,
                watched: false,
                hung_up: false,
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

    /// One step of whose turn it is; `false` if nobody waits.
    fn answer_one(&mut self) -> bool {
        let Some(number) = self.turns.pop() else { return false };
        let Some(Some(place)) = self.places.get_mut(number) else {
            self.free.push(number);
            return true;
        };
        place.queued = false;
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
/// Sources a system call: more than are ready at once, as a rule.
const EVENTS: usize = 256;
/// Tokens below are connections.
const LISTENERS: u64 = 1 << 32;
const END: u64 = u64::MAX;
/// Ports that a look hears of.
const MOST_PORTS: usize = 64;
/// Of one port at a look; the others are there at the next.
const MOST_ACCEPTED: usize = 64;
/// Without a find for the longest interval between two looks, nobody asks any more. It is what being woken up costs, many
/// times over, and nothing beside a pause of people.
const PATIENCE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::SocketAddr;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::server::FILE;
    use crate::server::client::{Answered, Load};
    use crate::server::request::Answer;

    /// What clients see of a server with so many ports, and what it says of itself.
    fn served<T: Send>(
        looking: Looking,
        ports: usize,
        clients: impl FnOnce(&[SocketAddr]) -> T + Send,
    ) -> (T, ServerStats) {
        let site = Site::of(&FILE);
        let listeners: Vec<TcpListener> =
            (1..=ports).map(|number| TcpListener::bind(format!("127.0.0.{number}:0")).unwrap()).collect();
        let addresses: Vec<SocketAddr> = listeners.iter().map(|one| one.local_addr().unwrap()).collect();
        let (end, ends) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let server =
                scope.spawn(|| Engine::new(&site, &listeners, Some(&ends)).unwrap().run(looking).unwrap());
            let end = end;
            let found = clients(&addresses);
            drop(end);
            (found, server.join().unwrap())
        })
    }

    const ALL: [Looking; 4] = [Looking::Epoll, Looking::Spin, Looking::Polled(1), Looking::Polled(15)];

    /// Clients for a while, again until each port has answered: a machine can stand still for longer than a while.
    fn load(addresses: &[SocketAddr], each: usize, keep_alive: bool) -> (Answered, u64) {
        let clients: Vec<_> = addresses.iter().map(|&address| (address, each)).collect();
        let load = Load { clients, keep_alive, interval: None, time: Duration::from_millis(60) };
        let mut all = load.run().unwrap();
        for again in 1..100 {
            if all.answers.iter().all(|&answers| answers > 0) {
                return (all, again);
            }
            let more = load.run().unwrap();
            all.answers.iter_mut().zip(more.answers).for_each(|(all, more)| *all += more);
            all.errors += more.errors;
        }
        panic!("{all:?}");
    }

    #[test]
    fn every_way_answers_every_request_over_kept_connections_and_over_new_ones() {
        for looking in ALL {
            for keep_alive in [true, false] {
                let ((answered, runs), stats) =
                    served(looking, 1, |addresses| load(addresses, 8, keep_alive));
                assert_eq!(answered.errors, 0, "{looking:?} {keep_alive}");
                assert!(stats.answered[0] >= answered.answers[0]);
                // Those who were still waiting for theirs.
                assert!(stats.answered[0] - answered.answers[0] <= 8 * runs);
                assert!(if keep_alive {
                    stats.accepted == 8 * runs
                } else {
                    stats.accepted >= stats.answered[0]
                });
            }
        }
    }

    #[test]
    fn four_ports_are_served_by_one_event() {
        for looking in ALL {
            let ((answered, runs), stats) = served(looking, 4, |addresses| load(addresses, 4, true));
            assert_eq!((answered.errors, stats.accepted), (0, 16 * runs));
            assert!(stats.answered.iter().all(|&answers| answers > 0), "{stats:?}");
        }
    }

    #[test]
    fn requests_at_a_rate_are_answered_however_the_server_looks() {
        for looking in ALL {
            let (answered, stats) = served(looking, 1, |addresses| {
                let (interval, time) = (Some(Duration::from_millis(1)), Duration::from_millis(100));
                Load { clients: vec![(addresses[0], 4)], keep_alive: true, interval, time }.run().unwrap()
            });
            // A hundred and one are asked for, and four of them may be under way at the end.
            assert!((1..=101).contains(&answered.answers[0]), "{looking:?}: {answered:?}");
            assert!(stats.answered[0] - answered.answers[0] <= 4, "{looking:?}: {stats:?}");
            assert_eq!(answered.latency.count(), answered.answers[0]);
        }
    }

    #[test]
    fn a_polling_server_sleeps_when_the_load_has_gone() {
        let ((), stats) = served(Looking::Polled(5), 1, |addresses| {
            let mut stream = TcpStream::connect(addresses[0]).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            for _ in 0..PAUSES {
                stream.write_all(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                let mut answer = vec![0; Site::of(&FILE).bytes(Answer::Kept).len()];
                stream.read_exact(&mut answer).unwrap();
                // Asleep for longer than it polls.
                let nothing = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                nothing.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
                nothing.recv(&mut [0]).unwrap_err();
            }
        });
        assert_eq!(stats.answered, [PAUSES]);
        // It may have been held up in some of them, by a machine that stood still.
        assert!(stats.sleeps >= 3, "{stats:?}");
    }

    const PAUSES: u64 = 10;

    #[test]
    fn hostile_clients_get_their_answer_and_the_others_theirs() {
        for looking in ALL {
            let (texts, stats) = served(looking, 1, |addresses| {
                let hostile: [&[u8]; 5] = [
                    b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
                    b"GET /../../etc/passwd HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                    &[b'A'; 100_000],
                    b"GET /file HTTP/1.1\r\nHost: h\r\n\r\nGET /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET",
                    b"POST /file HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999\r\n\r\n",
                ];
                // One that says nothing, and stays.
                let _silent = TcpStream::connect(addresses[0]).unwrap();
                let texts = hostile.map(|bytes| {
                    let mut stream = TcpStream::connect(addresses[0]).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                    // It may be told enough before all of it is sent.
                    let _ = stream.write_all(bytes);
                    let mut answers = Vec::new();
                    let _ = stream.read_to_end(&mut answers);
                    String::from_utf8_lossy(&answers).into_owned()
                });
                load(addresses, 2, true);
                texts
            });
            let codes = texts.each_ref().map(|text| {
                text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect::<Vec<_>>().join(" ")
            });
            // The rest of what was sent may have made the kernel forget the answer.
            let refused = |codes: &str| codes == "400" || codes.is_empty();
            assert!([0, 1, 2, 4].iter().all(|&at| refused(&codes[at])), "{codes:?}");
            assert_eq!(codes[3], "200 200");
            assert!(stats.answered[0] >= 6, "{stats:?}");
        }
    }

    #[test]
    fn a_client_that_does_not_read_keeps_nobody_waiting() {
        let ((), stats) = served(Looking::Polled(2), 1, |addresses| {
            let mut rude = TcpStream::connect(addresses[0]).unwrap();
            rude.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
            let many = b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2_000);
            rude.write_all(&many).unwrap();
            load(addresses, 2, true);
        });
        assert_eq!(stats.accepted % 2, 1, "and nobody was refused: {stats:?}");
    }

    #[test]
    fn many_requests_at_once_are_all_answered_also_if_they_fill_the_room_evenly() {
        for looking in ALL {
            let (all, stats) = served(looking, 1, |addresses| {
                let mut stream = TcpStream::connect(addresses[0]).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                let mut sent = stream.try_clone().unwrap();
                let mut answers = vec![0; 1_024 * Site::of(&FILE).bytes(Answer::Kept).len()];
                std::thread::scope(|scope| {
                    scope.spawn(move || {
                        sent.write_all(&b"GET /file HTTP/1.1\r\nHost: hh\r\n\r\n".repeat(1_024))
                    });
                    stream.read_exact(&mut answers).is_ok()
                })
            });
            assert!(all, "{looking:?}: {stats:?}");
            assert_eq!(stats.answered, [1_024], "{looking:?}");
        }
    }

    #[test]
    fn who_comes_while_another_has_much_to_ask_has_his_turn() {
        const MANY: usize = 100;
        let site = Site::of(b"content");
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut engine = Engine::new(&site, &listeners, None::<&UnixStream>).unwrap();
        let mut many = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
        many.write_all(&b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n".repeat(MANY)).unwrap();
        engine.by_epoll_once(None).unwrap();
        let mut other = TcpStream::connect(listeners[1].local_addr().unwrap()).unwrap();
        other.write_all(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut called = Epoll::new(Waiting::Pwait2).unwrap();
        called.add(listeners[1].as_fd(), 1, EventFlags::IN).unwrap();
        called.wait(&mut Events::with_capacity(1), Some(Duration::from_secs(10))).unwrap();
        while engine.stats.answered[1] == 0 && engine.stats.answered[0] < MANY as u64 {
            engine.by_epoll_once(None).unwrap();
        }
        assert_eq!(engine.stats.answered[1], 1);
        assert!(engine.stats.answered[0] < MANY as u64 / 2, "{:?}", engine.stats);
    }
}

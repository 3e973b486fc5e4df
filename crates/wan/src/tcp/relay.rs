//! The TCP relay: streams on either side of a [`Wan`](crate::Wan), and the loop between them. [`Relay`].

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use softtimers::{Interest, Slack, TimerId, Timestamp, Token};
use softtimers_core::Random;
use softtimers_net::relay::is_same_socket;

use super::config::{StreamConfig, StreamStats};
use super::connection::{Connection, Standing, flow, open_towards, reset};
use crate::flow::Load;
use crate::live::{Carried, Ended, Live, Next, controls};
use crate::toxic::{Chain, Dose};
use crate::{Bottleneck, PathConfig, PathError, Scenario, WanBuilder, Way};

/// A TCP relay whose two sides are a [`Wan`](crate::Wan) apart. See the [module documentation](super).
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
/// use std::time::Duration;
/// use softtimers_wan::tcp::{Relay, StreamConfig};
/// use softtimers_wan::{PathConfig, Wan, Way};
///
/// let server = TcpListener::bind("127.0.0.1:0")?;
/// let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(5)));
/// let mut relay = Relay::bind(StreamConfig::to(server.local_addr()?), path)?;
///
/// let mut client = TcpStream::connect(relay.local_addr())?;
/// client.write_all(b"hello")?;
/// for _ in 0..100 {
///     if relay.counters(Way::Up).delivered_bytes < 5 {
///         relay.run(Some(relay.now() + Duration::from_millis(20)))?;
///     }
/// }
/// let (mut accepted, _) = server.accept()?;
/// let mut buffer = [0; 5];
/// accepted.read_exact(&mut buffer)?;
/// assert_eq!(&buffer, b"hello");
/// assert!(relay.measured(Way::Up).delay_ns().min() >= Some(5_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
/// A system call for each read of up to 64 KiB, one for all bytes that arrived together, two for each change between
/// waiting and reading. None while nothing is held and nothing comes.
#[derive(Debug)]
pub struct Relay {
    config: StreamConfig,
    listen: TcpListener,
    local: SocketAddr,
    live: Live<Chunk, Event>,
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    /// The other descriptor of the next connection: a client is accepted only when there are two.
    reserved: Option<OwnedFd>,
    /// The timer for accepting again, while clients wait for descriptors.
    accept_at: Option<TimerId>,
    serial: u64,
    /// The connections that wait for room on the path, each way: they take turns.
    line: [VecDeque<ConnectionId>; 2],
    buffer: Box<[u8]>,
    stats: StreamStats,
    seed: u64,
    toxics: [Vec<Dose>; 2],
}

/// Identifies one connection; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ConnectionId {
    slot: u32,
    serial: u64,
}

/// A piece that is on the path.
#[derive(Clone, Debug)]
struct Chunk {
    connection: ConnectionId,
    load: Load,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A connection may have been inactive for too long.
    Expiry(ConnectionId),
    /// A toxic releases something.
    Toxic(ConnectionId),
    /// Descriptors may be available again.
    Accept,
}

controls!(Relay);

impl Relay {
    /// Listens, with an empty path. Bytes flow while it [runs](Self::run).
    ///
    /// # Errors
    /// The system's error for the listening address, or for another descriptor. `InvalidInput` if the path does not
    /// suit streams ([`PathConfig::check_stream`]) or the upstream is the relay itself.
    pub fn bind(config: StreamConfig, path: WanBuilder) -> io::Result<Self> {
        let invalid = |error| io::Error::new(ErrorKind::InvalidInput, error);
        let seed = path.seed_set();
        let live = Live::new(config.events, path)?;
        for way in [Way::Up, Way::Down] {
            live.wan.direction(way).path().check_stream().map_err(invalid)?;
        }
        let listen = TcpListener::bind(config.listen)?;
        // The standard library lets 128 wait. Beyond that the kernel answers by SYN cookies, and resets some of those clients.
        rustix::net::listen(&listen, MOST_WAITING)?;
        let local = listen.local_addr()?;
        if is_same_socket(config.upstream, local) {
            let problem = format!("the upstream {} is the relay itself", config.upstream);
            return Err(io::Error::new(ErrorKind::InvalidInput, problem));
        }
        listen.set_nonblocking(true)?;
        live.events.register(&listen, LISTEN, Interest::Readable)?;
        Ok(Relay {
            config,
            listen,
            local,
            live,
            slots: Vec::new(),
            free: Vec::new(),
            reserved: None,
            accept_at: None,
            serial: 0,
            line: Default::default(),
            buffer: vec![0; READ].into(),
            stats: StreamStats::default(),
            seed,
            toxics: Default::default(),
        })
    }

    /// Carries bytes until this time, or without end, or until a [watched](Self::watch) descriptor is readable. Bytes
    /// on the path then stay there until it runs again.
    ///
    /// # Errors
    /// None on a working system: errors of a connection are counted.
    pub fn run(&mut self, until: Option<Timestamp>) -> io::Result<Ended> {
        self.run_observed(until, |_| {})
    }

    /// As [`run`](Self::run), and `observe` sees each piece that leaves the path.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_observed(
        &mut self,
        until: Option<Timestamp>,
        observe: impl FnMut(&Carried),
    ) -> io::Result<Ended> {
        let stop = until.map(|until| self.live.stop_at(until));
        let ended = self.run_until_stopped(observe);
        stop.map(|stop| self.live.timers.cancel(stop));
        ended
    }

    /// Changes the path in one direction from now on: see [`Direction::set`](crate::Direction::set).
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check_stream`]; then nothing changes.
    pub fn set(&mut self, way: Way, path: PathConfig) -> Result<(), PathError> {
        path.check_stream()?;
        self.live.wan.set(self.live.now(), way, path)
    }

    /// Changes the path by a scenario that begins now: see [`Wan::play`](crate::Wan::play).
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check_stream`], of any path that the scenario leads to; then nothing changes.
    pub fn play(&mut self, scenario: &Scenario) -> Result<(), PathError> {
        for way in [Way::Up, Way::Down] {
            let mut paths = scenario.paths(way, self.path(way));
            paths.try_for_each(|(_, path)| path.check_stream())?;
        }
        self.live.wan.play(self.live.now(), scenario)
    }

    /// Sets the [toxics](crate::toxic) of one direction, behind the path, for all connections from now on.
    pub fn set_toxics(&mut self, way: Way, doses: Vec<Dose>) {
        let now = self.live.now();
        for slot in 0..self.slots.len() as u32 {
            if let Some(connection) = &mut self.slots[slot as usize] {
                connection.set_toxics(now, way, &doses);
                connection.write(now, 1 - flow(way));
                self.settle(slot);
            }
        }
        self.toxics[flow(way)] = doses;
    }

    /// Returns the address that clients connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the counters besides those of the path.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }

    fn run_until_stopped(&mut self, mut observe: impl FnMut(&Carried)) -> io::Result<Ended> {
        loop {
            let room = self.room_at();
            match self.live.next(room)? {
                Next::Ended(ended) => return Ok(ended),
                Next::Ready { token, .. } if token == LISTEN.0 => self.accept(),
                Next::Ready { token, readable, writable } => {
                    self.serve((token / 2) as u32, (token % 2) as usize, readable, writable);
                }
                Next::Due(Event::Expiry(connection)) => self.expire(connection),
                Next::Due(Event::Toxic(connection)) => self.let_through(connection),
                Next::Due(Event::Accept) => self.accept_again(),
                Next::Path => {}
            }
            self.deliver(&mut observe);
            self.pump(Way::Up);
            self.pump(Way::Down);
        }
    }

    /// Returns when there will be room for the connections in line. On an idle link that is when something arrives, and
    /// the loop wakes for that anyway.
    fn room_at(&self) -> Option<Timestamp> {
        let ways = [Way::Up, Way::Down].into_iter().filter(|&way| !self.line[flow(way)].is_empty());
        ways.filter_map(|way| self.live.wan.direction(way).next_departure()).min()
    }

    fn accept(&mut self) {
        for _ in 0..BATCH {
            let accepted = self.reserve().and_then(|()| Ok(self.listen.accept()?.0));
            match accepted {
                Ok(client) if self.stats.connections < self.config.limits.most => self.open(client),
                Ok(client) => {
                    self.stats.refused += 1;
                    reset(client);
                }
                Err(error) => {
                    // A connection that is already gone does not count.
                    let none_left = matches!(
                        error.raw_os_error(),
                        Some(TOO_MANY | TOO_MANY_IN_SYSTEM | NO_BUFFERS | NO_MEMORY)
                    );
                    if none_left {
                        self.wait_for_descriptors();
                    }
                    return;
                }
            }
        }
    }

    /// Opens the socket towards the upstream for the next client: one that was accepted without it would be reset, and
    /// the upstream blamed.
    fn reserve(&mut self) -> io::Result<()> {
        if self.reserved.is_none() {
            self.reserved = Some(open_towards(self.config.upstream)?);
        }
        Ok(())
    }

    /// Leaves clients in the kernel's queue until descriptors may be free.
    fn wait_for_descriptors(&mut self) {
        if self.accept_at.is_some() || self.live.events.deregister(&self.listen).is_err() {
            return;
        }
        self.stats.no_socket += 1;
        self.config.on_first_wait.take().into_iter().for_each(|tell| tell());
        let again = self.now() + ACCEPT_AGAIN;
        self.accept_at = Some(self.live.schedule(again, Slack::within(ACCEPT_AGAIN), Event::Accept));
    }

    fn accept_again(&mut self) {
        let Some(timer) = self.accept_at.take() else { return };
        self.live.timers.cancel(timer);
        // If it fails, no client can connect any more; watched descriptors must still be served.
        let _ = self.live.events.register(&self.listen, LISTEN, Interest::Readable);
    }

    fn open(&mut self, client: TcpStream) {
        if client.set_nonblocking(true).and_then(|()| client.set_nodelay(true)).is_err() {
            return;
        }
        let Some(towards) = self.reserved.take() else { return };
        let now = self.now();
        self.serial += 1;
        self.stats.opened += 1;
        self.stats.connections += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        let connection = ConnectionId { slot, serial: self.serial };
        let chains = [0, 1].map(|way| {
            let mut chain = Chain::new(Random::stream(self.seed, self.serial * 2 + way as u64).next_u64());
            chain.set(now, &self.toxics[way]);
            chain
        });
        self.slots[slot as usize] = Some(Connection::new(
            now,
            self.serial,
            [client.into(), towards],
            chains,
            self.config.ends_refused_in_order,
        ));
        self.look_again(connection, now + self.config.limits.idle);
        self.settle(slot);
    }

    /// Counts a connection refused by the upstream, and reports the first.
    fn note_refused(&mut self, refused: bool) {
        if refused {
            self.stats.upstream_refused += 1;
            let upstream = self.config.upstream;
            self.config.on_first_refused.take().into_iter().for_each(|tell| tell(upstream));
        }
    }

    /// Serves a ready socket.
    fn serve(&mut self, slot: u32, side: usize, readable: bool, writable: bool) {
        let now = self.live.now();
        // The connection may just have gone: then the slot is empty, or holds one that is not ready.
        let Some(Some(connection)) = self.slots.get_mut(slot as usize) else { return };
        let refused = writable && connection.connected(side).is_err();
        // A peer that is only written to and has hung up is detected by writing.
        connection.write(now, side);
        if readable {
            connection.read(now, side, self.config.limits.window, &mut self.buffer);
        }
        self.note_refused(refused);
        self.settle(slot);
    }

    /// Passes on at most a batch of what has arrived; the others are due after the next poll of the sources.
    fn deliver(&mut self, observe: &mut impl FnMut(&Carried)) {
        let mut touched = Vec::new();
        for _ in 0..BATCH {
            let now = self.live.now();
            let Some((way, delivery)) = self.live.wan.pop_due(now) else { break };
            let (bytes, offered, due) = (delivery.bytes, delivery.offered, delivery.due);
            observe(&Carried { way, bytes, offered, due, left: now });
            let Chunk { connection: id, load } = delivery.packet;
            let upstream = self.config.upstream;
            match self.find(id).map(|connection| connection.arrive(now, way, load, upstream)) {
                None => {
                    self.stats.stray += 1;
                    continue;
                }
                Some(outcome) => self.note_refused(outcome.is_err()),
            }
            let place = (id.slot, 1 - flow(way));
            if !touched.contains(&place) {
                touched.push(place);
            }
        }
        let now = self.live.now();
        for (slot, side) in touched {
            if let Some(connection) = &mut self.slots[slot as usize] {
                connection.write(now, side);
            }
            self.settle(slot);
        }
    }

    /// Puts data on the path as long as there is room, a piece of each connection in turn.
    fn pump(&mut self, way: Way) {
        let Relay { live, slots, line, .. } = self;
        let now = live.events.now();
        let direction = live.wan.direction_mut(way);
        let path = direction.path();
        let most = if path.bottleneck == Bottleneck::NONE { READ } else { SEGMENT };
        let most = most.min(usize::try_from(path.most_bytes).unwrap_or(most));
        let mut settled = Vec::new();
        while let Some(&id) = line[flow(way)].front() {
            let connection = slots[id.slot as usize].as_mut().filter(|one| one.serial == id.serial);
            let Some(connection) = connection else {
                line[flow(way)].pop_front();
                continue;
            };
            let flow_of = &mut connection.flows[flow(way)];
            if !direction.has_room_for(now, flow_of.next_length(most)) {
                break;
            }
            line[flow(way)].pop_front();
            if let Some(load) = flow_of.next_load(most) {
                let bytes = load.bytes();
                // The room was checked before.
                let _ = direction.offer(now, bytes, Chunk { connection: id, load });
            }
            if flow_of.waits() {
                line[flow(way)].push_back(id);
            } else {
                connection.in_line[flow(way)] = false;
                settled.push(id.slot);
            }
        }
        settled.into_iter().for_each(|slot| self.settle(slot));
    }

    /// Updates a connection after any event: puts it in line, watches what it needs, or ends it.
    fn settle(&mut self, slot: u32) {
        let Relay { live, slots, line, config, .. } = self;
        let Some(connection) = slots.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        connection.watch(&live.events, slot, config.limits.window);
        let id = ConnectionId { slot, serial: connection.serial };
        let toxic_at = connection.next_toxic();
        if toxic_at != connection.toxic_at.map(|(_, at)| at) {
            connection.toxic_at.take().map(|(timer, _)| live.timers.cancel(timer));
            connection.toxic_at = toxic_at.map(|at| (live.schedule(at, Slack::EXACT, Event::Toxic(id)), at));
        }
        for way in [0, 1] {
            if connection.flows[way].waits() && !connection.in_line[way] {
                connection.in_line[way] = true;
                line[way].push_back(id);
            }
        }
        match connection.standing() {
            Standing::Open => return,
            Standing::Closed => self.stats.closed += 1,
            Standing::Reset => {
                connection.abort();
                self.stats.reset += 1;
            }
        }
        self.remove(slot);
    }

    /// Passes on what the toxics of a connection release.
    fn let_through(&mut self, id: ConnectionId) {
        let now = self.now();
        let Some(connection) = self.find(id) else { return };
        connection.toxic_at = None;
        connection.let_through(now);
        (0..2).for_each(|side| connection.write(now, side));
        self.settle(id.slot);
    }

    fn expire(&mut self, id: ConnectionId) {
        let (now, idle) = (self.now(), self.config.limits.idle);
        let Some(connection) = self.find(id) else { return };
        let until = connection.moved + idle;
        if until > now {
            return self.look_again(id, until);
        }
        connection.abort();
        self.stats.expired += 1;
        self.remove(id.slot);
    }

    /// Checks a connection again at a time; its exact end does not matter.
    fn look_again(&mut self, id: ConnectionId, at: Timestamp) {
        let slack = Slack::within(self.config.limits.idle / 8);
        let expiry = self.live.schedule(at, slack, Event::Expiry(id));
        if let Some(connection) = self.find(id) {
            connection.expiry = Some(expiry);
        }
    }

    fn remove(&mut self, slot: u32) {
        let Some(connection) = self.slots[slot as usize].take() else { return };
        let toxic = connection.toxic_at.map(|(timer, _)| timer);
        connection.expiry.into_iter().chain(toxic).for_each(|timer| {
            self.live.timers.cancel(timer);
        });
        self.free.push(slot);
        self.stats.connections -= 1;
        drop(connection);
        self.accept_again();
    }

    fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slots.get_mut(id.slot as usize)?.as_mut().filter(|connection| connection.serial == id.serial)
    }
}

const LISTEN: Token = Token(1 << 62);
/// Clients that may wait to be accepted; the kernel has a bound of its own, `net.core.somaxconn`, of 4,096 by default.
const MOST_WAITING: i32 = 4_096;
/// Connections, or pieces, per batch, so that each side gets its turn.
const BATCH: usize = 64;
/// The bytes of one read, and of a piece on an unlimited path.
const READ: usize = 64 << 10;
/// The bytes of a piece on a limited path: TCP's segment over Ethernet.
const SEGMENT: usize = 1_448;
/// The pause after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
const TOO_MANY: i32 = rustix::io::Errno::MFILE.raw_os_error();
const TOO_MANY_IN_SYSTEM: i32 = rustix::io::Errno::NFILE.raw_os_error();
const NO_BUFFERS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();
const NO_MEMORY: i32 = rustix::io::Errno::NOMEM.raw_os_error();

//! Streams on either side of a [`Wan`](crate::Wan): [`Streams`].

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
use super::pipes::Pipes;
use crate::relay::{BATCH, Edge, EdgeStats, Event, Live, Packet, Ready};
use crate::repairs::Repairs;
use crate::toxic::{Chain, Dose};
use crate::{Delivery, PathConfig, PathError, Relay, WanBuilder, Way};

/// Two sockets of each connection.
#[derive(Debug)]
struct Streams {
    config: StreamConfig,
    listen: TcpListener,
    local: SocketAddr,
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    /// The other descriptor of the next connection: a client is accepted only when there are two.
    reserved: Option<OwnedFd>,
    /// The timer for accepting again, while clients wait for descriptors.
    accept_at: Option<TimerId>,
    serial: u64,
    /// The connections that wait for room on the path, each way: they take turns.
    line: [VecDeque<ConnectionId>; 2],
    /// The pieces that the path has lost, each way.
    repairs: [Repairs<ConnectionId>; 2],
    /// The sides to which something has arrived in this turn, and that are yet to be written to.
    touched: Vec<(u32, usize)>,
    buffer: Box<[u8]>,
    pipes: Pipes,
    stats: StreamStats,
    seed: u64,
    toxics: [Vec<Dose>; 2],
}

/// Identifies one connection; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId {
    slot: u32,
    serial: u64,
}

impl Relay {
    /// Relays TCP streams, with an empty path at first: see the [module](crate::tcp). They flow while it
    /// [runs](Self::run).
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::net::{TcpListener, TcpStream};
    /// use std::time::Duration;
    /// use softtimers_wan::tcp::StreamConfig;
    /// use softtimers_wan::{PathConfig, Relay, Wan, Way};
    ///
    /// let server = TcpListener::bind("127.0.0.1:0")?;
    /// let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(5)));
    /// let mut relay = Relay::tcp(StreamConfig::to(server.local_addr()?), path)?;
    ///
    /// let mut client = TcpStream::connect(relay.local_addr().unwrap())?;
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
    /// Where the path is a wire, bytes stay in the kernel (splice(2)), and one that finds its reader gone raises SIGPIPE. Programs
    /// of Rust and Python ignore it; one that does not has to: no flag prevents it, as `MSG_NOSIGNAL` does for a send.
    ///
    /// # Cost
    /// A system call for each read of up to 64 KiB, of up to 1 MiB that is not copied where the path is a wire, one for all bytes that arrived together, two for each change between
    /// waiting and reading. None while nothing is held and nothing comes.
    ///
    /// # Errors
    /// The system's error for the listening address, or for another descriptor. `InvalidInput` if the path does not
    /// suit streams ([`PathConfig::check_stream`]) or the upstream is the relay itself.
    pub fn tcp(config: StreamConfig, path: WanBuilder) -> io::Result<Self> {
        let invalid = |error| io::Error::new(ErrorKind::InvalidInput, error);
        let seed = path.seed_set();
        let mut live = Live::new(config.events, path)?;
        for way in [Way::Up, Way::Down] {
            live.wan.direction(way).path().check_stream().map_err(invalid)?;
            live.wan.direction_mut(way).keep_lost();
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
        let edge = Streams {
            config,
            listen,
            local,
            slots: Vec::new(),
            free: Vec::new(),
            reserved: None,
            accept_at: None,
            serial: 0,
            line: Default::default(),
            repairs: Default::default(),
            touched: Vec::new(),
            buffer: vec![0; READ].into(),
            pipes: Pipes::new(),
            stats: StreamStats::default(),
            seed,
            toxics: Default::default(),
        };
        Ok(Relay { live, edge: Box::new(edge) })
    }
}

impl Edge for Streams {
    fn stats(&self) -> EdgeStats {
        EdgeStats::Tcp(StreamStats { resent: self.repairs.iter().map(|way| way.resent).sum(), ..self.stats })
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        Some(self.local)
    }

    fn check(&self, path: &PathConfig) -> Result<(), PathError> {
        path.check_stream()
    }

    fn set_toxics(&mut self, live: &mut Live, way: Way, doses: Vec<Dose>) {
        let now = live.now();
        for slot in 0..self.slots.len() as u32 {
            if let Some(connection) = &mut self.slots[slot as usize] {
                connection.set_toxics(now, way, &doses);
                connection.write(now, 1 - flow(way));
                self.update(live, slot);
            }
        }
        self.toxics[flow(way)] = doses;
    }

    /// Returns when there will be room for what waits, or something lost is sent again. On an idle link there is room when
    /// something arrives, and the loop wakes for that anyway.
    fn wakes_at(&self, live: &Live) -> Option<Timestamp> {
        let ways = [Way::Up, Way::Down].into_iter().flat_map(|way| {
            let (line, repairs) = (&self.line[flow(way)], &self.repairs[flow(way)]);
            let waits = !line.is_empty() || repairs.waits();
            let room = live.wan.direction(way).next_departure().filter(|_| waits);
            room.into_iter().chain(repairs.poll_at())
        });
        ways.min()
    }

    fn ready(&mut self, live: &mut Live, Ready { token, readable, writable }: Ready) {
        if token == LISTEN.0 {
            self.accept(live);
        } else {
            self.serve(live, (token / 2) as u32, (token % 2) as usize, readable, writable);
        }
    }

    fn due(&mut self, live: &mut Live, event: Event) {
        match event {
            Event::Expiry(connection) => self.expire(live, connection),
            Event::Toxic(connection) => self.let_through(live, connection),
            Event::Accept => self.accept_again(live),
            Event::Path | Event::Stop | Event::Probe => {}
        }
    }

    fn send(&mut self, _: &mut Live, now: Timestamp, way: Way, delivery: Delivery<Packet>) {
        let Packet::Piece(id, segment) = delivery.packet else { return };
        let upstream = self.config.upstream;
        match self.find(id).map(|connection| connection.arrive(now, way, segment, upstream)) {
            None => return self.stats.stray += 1,
            Some(outcome) => self.note_refused(outcome.is_err()),
        }
        let place = (id.slot, 1 - flow(way));
        if !self.touched.contains(&place) {
            self.touched.push(place);
        }
    }

    /// Writes what has arrived, all bytes of a side at once, and refills the path.
    fn settle(&mut self, live: &mut Live) -> io::Result<()> {
        let now = live.now();
        for (slot, side) in std::mem::take(&mut self.touched) {
            if let Some(connection) = &mut self.slots[slot as usize] {
                connection.write(now, side);
            }
            self.update(live, slot);
        }
        self.pump(live, Way::Up);
        self.pump(live, Way::Down);
        Ok(())
    }
}

impl Streams {
    fn accept(&mut self, live: &mut Live) {
        for _ in 0..BATCH {
            let accepted = self.reserve().and_then(|()| Ok(self.listen.accept()?.0));
            match accepted {
                Ok(client) if self.stats.connections < self.config.most => self.open(live, client),
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
                        self.wait_for_descriptors(live);
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
    fn wait_for_descriptors(&mut self, live: &mut Live) {
        if self.accept_at.is_some() || live.events.deregister(&self.listen).is_err() {
            return;
        }
        self.stats.no_socket += 1;
        self.config.on_first_wait.take().into_iter().for_each(|tell| tell());
        let again = live.now() + ACCEPT_AGAIN;
        self.accept_at = Some(live.schedule(again, Slack::within(ACCEPT_AGAIN), Event::Accept));
    }

    fn accept_again(&mut self, live: &mut Live) {
        let Some(timer) = self.accept_at.take() else { return };
        live.timers.cancel(timer);
        // If it fails, no client can connect any more; watched descriptors must still be served.
        let _ = live.events.register(&self.listen, LISTEN, Interest::Readable);
    }

    fn open(&mut self, live: &mut Live, client: TcpStream) {
        if client.set_nonblocking(true).and_then(|()| client.set_nodelay(true)).is_err() {
            return;
        }
        let Some(towards) = self.reserved.take() else { return };
        let now = live.now();
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
        self.look_again(live, connection, now + self.config.idle);
        self.update(live, slot);
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
    fn serve(&mut self, live: &mut Live, slot: u32, side: usize, readable: bool, writable: bool) {
        let now = live.now();
        // The connection may just have gone: then the slot is empty, or holds one that is not ready.
        let Some(Some(connection)) = self.slots.get_mut(slot as usize) else { return };
        let refused = writable && connection.connected(side).is_err();
        // A peer that is only written to and has hung up is detected by writing.
        connection.write(now, side);
        if readable {
            // What only passes may stay in the kernel.
            let way = if side == 0 { Way::Up } else { Way::Down };
            let path = live.wan.direction(way).path();
            let most = usize::try_from(path.most_bytes).unwrap_or(usize::MAX);
            let pipes = (!live.follows && path.is_wire()).then_some((&mut self.pipes, most));
            connection.read(now, side, self.config.window, &mut self.buffer, pipes);
        }
        self.note_refused(refused);
        self.update(live, slot);
    }

    /// Puts data on the path as long as there is room, a piece of each connection in turn.
    fn pump(&mut self, live: &mut Live, way: Way) {
        let Streams { slots, line, repairs, .. } = self;
        let repairs = &mut repairs[flow(way)];
        let (now, trip) = (live.events.now(), live.wan.round_trip());
        let direction = live.wan.direction_mut(way);
        while let Some((id, segment)) = repairs.pop_due(now, |bytes| direction.has_room_for(now, bytes)) {
            direction.offer(now, segment.load.bytes(), Packet::Piece(id, segment));
        }
        let most = direction.path().longest_piece();
        let mut settled = Vec::new();
        while let Some(&id) = line[flow(way)].front().filter(|_| !repairs.waits()) {
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
            if let Some(segment) = flow_of.next_segment(most) {
                // The room was checked before.
                let _ = direction.offer(now, segment.load.bytes(), Packet::Piece(id, segment));
            }
            if flow_of.waits() {
                line[flow(way)].push_back(id);
            } else {
                connection.in_line[flow(way)] = false;
                settled.push(id.slot);
            }
        }
        while let Some((left, packet)) = direction.pop_lost() {
            if let Packet::Piece(id, segment) = packet {
                repairs.add(left, trip, id, segment);
            }
        }
        settled.into_iter().for_each(|slot| self.update(live, slot));
    }

    /// Updates a connection after any event: puts it in line, watches what it needs, or ends it.
    fn update(&mut self, live: &mut Live, slot: u32) {
        let Streams { slots, line, config, pipes, .. } = self;
        let Some(connection) = slots.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        connection.emptied().for_each(|pipe| pipes.put_back(pipe));
        connection.watch(&live.events, slot, config.window);
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
        self.remove(live, slot);
    }

    /// Passes on what the toxics of a connection release.
    fn let_through(&mut self, live: &mut Live, id: ConnectionId) {
        let now = live.now();
        let Some(connection) = self.find(id) else { return };
        connection.toxic_at = None;
        connection.let_through(now);
        (0..2).for_each(|side| connection.write(now, side));
        self.update(live, id.slot);
    }

    fn expire(&mut self, live: &mut Live, id: ConnectionId) {
        let (now, idle) = (live.now(), self.config.idle);
        let Some(connection) = self.find(id) else { return };
        let until = connection.moved + idle;
        if until > now {
            return self.look_again(live, id, until);
        }
        connection.abort();
        self.stats.expired += 1;
        self.remove(live, id.slot);
    }

    /// Checks a connection again at a time; its exact end does not matter.
    fn look_again(&mut self, live: &mut Live, id: ConnectionId, at: Timestamp) {
        let slack = Slack::within(self.config.idle / 8);
        let expiry = live.schedule(at, slack, Event::Expiry(id));
        if let Some(connection) = self.find(id) {
            connection.expiry = Some(expiry);
        }
    }

    fn remove(&mut self, live: &mut Live, slot: u32) {
        let Some(connection) = self.slots[slot as usize].take() else { return };
        let toxic = connection.toxic_at.map(|(timer, _)| timer);
        connection.expiry.into_iter().chain(toxic).for_each(|timer| {
            live.timers.cancel(timer);
        });
        self.free.push(slot);
        self.stats.connections -= 1;
        self.pipes.forget(connection.piped());
        drop(connection);
        self.accept_again(live);
    }

    fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slots.get_mut(id.slot as usize)?.as_mut().filter(|connection| connection.serial == id.serial)
    }
}

const LISTEN: Token = Token(1 << 62);
/// Clients that may wait to be accepted; the kernel has a bound of its own, `net.core.somaxconn`, of 4,096 by default.
const MOST_WAITING: i32 = 4_096;
/// The bytes of one read.
const READ: usize = 64 << 10;
/// The pause after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
const TOO_MANY: i32 = rustix::io::Errno::MFILE.raw_os_error();
const TOO_MANY_IN_SYSTEM: i32 = rustix::io::Errno::NFILE.raw_os_error();
const NO_BUFFERS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();
const NO_MEMORY: i32 = rustix::io::Errno::NOMEM.raw_os_error();

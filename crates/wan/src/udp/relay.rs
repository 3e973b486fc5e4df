//! The UDP relay: sockets on either side of a [`Wan`], and the loop between them. [`Relay`].

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use softtimers::{Interest, Timestamp, Token};
use softtimers_net::relay::{
    ClientId, RelayConfig, RelayStats, Sessions, is_misdirected, is_same_socket, prepare,
};
use softtimers_net::udp::{Datagram, RecvBatch, UdpSocket, is_about_an_earlier_datagram};

use crate::live::{Carried, Ended, Live, Next, controls};
use crate::{Delivery, PathConfig, PathError, Scenario, Traits, Wan, WanBuilder, Way};

/// A UDP relay whose two sides are a [`Wan`] apart. See the [module documentation](super).
///
/// ```
/// use std::net::UdpSocket;
/// use std::time::Duration;
/// use softtimers_wan::udp::{Relay, RelayConfig};
/// use softtimers_wan::{PathConfig, Wan, Way};
///
/// let server = UdpSocket::bind("127.0.0.1:0")?;
/// let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(5)));
/// let mut relay = Relay::bind(RelayConfig::to(server.local_addr()?), path)?;
///
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// client.send_to(b"hello", relay.local_addr())?;
/// for _ in 0..100 {
///     if relay.counters(Way::Up).delivered == 0 {
///         relay.run(Some(relay.now() + Duration::from_millis(20)))?;
///     }
/// }
/// assert_eq!(relay.counters(Way::Up).delivered, 1);
/// let mut buffer = [0; 64];
/// let (length, _) = server.recv_from(&mut buffer)?;
/// assert_eq!(&buffer[..length], b"hello");
/// assert!(relay.measured(Way::Up).delay_ns().min() >= Some(5_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
/// A system call for each packet sent, one for each batch received, and none while nothing is held and nothing comes. 8
/// MiB of address space for received datagrams, used as far as they are long.
#[derive(Debug)]
pub struct Relay {
    upstream: SocketAddr,
    listen: UdpSocket,
    local: SocketAddr,
    live: Live<Packet, Infallible>,
    sessions: Sessions,
    incoming: RecvBatch,
    /// Separate, since a drop count belongs to one socket.
    answers: RecvBatch,
    /// The listening socket's drops at the last check, modulo 2³².
    drops_seen: u32,
}

/// A packet on the path.
#[derive(Clone, Debug)]
struct Packet {
    client: ClientId,
    payload: Box<[u8]>,
}

impl AsMut<[u8]> for Packet {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.payload
    }
}

controls!(Relay);

impl Relay {
    /// Listens, with an empty path. Packets flow while it [runs](Self::run).
    ///
    /// # Errors
    /// The system's error for the listening address, or for another descriptor. `InvalidInput` if the path is invalid
    /// ([`PathError`]) or the upstream is the relay itself.
    pub fn bind(config: RelayConfig, path: WanBuilder) -> io::Result<Self> {
        let listen = UdpSocket::bind(config.listen)?;
        let local = listen.local_addr()?;
        if is_same_socket(config.upstream, local) {
            let problem = format!("the upstream {} is the relay itself", config.upstream);
            return Err(io::Error::new(ErrorKind::InvalidInput, problem));
        }
        prepare(&listen, &config)?;
        let live = Live::new(config.events, path)?;
        live.events.register(&listen, LISTEN, Interest::Readable)?;
        Ok(Relay {
            upstream: config.upstream,
            listen,
            local,
            live,
            sessions: Sessions::new(config),
            incoming: RecvBatch::new(BATCH, MAX_DATAGRAM),
            answers: RecvBatch::new(BATCH, MAX_DATAGRAM),
            drops_seen: 0,
        })
    }

    /// Carries packets until this time, or without end, or until a [watched](Self::watch) descriptor is readable.
    /// Packets on the path then stay there until it runs again.
    ///
    /// # Errors
    /// None on a working system: errors of a packet are counted.
    pub fn run(&mut self, until: Option<Timestamp>) -> io::Result<Ended> {
        self.run_observed(until, |_| {})
    }

    /// As [`run`](Self::run), and `observe` sees each packet that leaves the path: for a distribution finer
    /// than [`Measured`](crate::Measured)'s, or a record of the run.
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
    /// [`PathError`], as [`PathConfig::check`]; then nothing changes.
    pub fn set(&mut self, way: Way, path: PathConfig) -> Result<(), PathError> {
        self.live.wan.set(self.live.now(), way, path)
    }

    /// Changes the path by a scenario that begins now: see [`Wan::play`](crate::Wan::play).
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`], of any path that the scenario leads to; then nothing changes.
    pub fn play(&mut self, scenario: &Scenario) -> Result<(), PathError> {
        self.live.wan.play(self.live.now(), scenario)
    }

    /// Returns the address that clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the counters besides those of the path.
    pub fn stats(&self) -> RelayStats {
        *self.sessions.stats()
    }

    fn run_until_stopped(&mut self, mut observe: impl FnMut(&Carried)) -> io::Result<Ended> {
        loop {
            match self.live.next(self.sessions.poll_at())? {
                Next::Ended(ended) => return Ok(ended),
                Next::Ready { token, .. } if token == LISTEN.0 => self.take_from_clients(),
                Next::Ready { token: slot, .. } => self.take_answers(slot),
                Next::Due(never) => match never {},
                Next::Path => {}
            }
            self.sessions.expire(self.live.now());
            self.deliver(&mut observe);
        }
    }

    /// Receives a batch. More packets are reported again.
    fn take_from_clients(&mut self) {
        let Relay { live, sessions, incoming, local, upstream, .. } = self;
        // The socket is not connected, so an error can only mean that it is empty.
        if self.listen.recv_batch(incoming).is_err() {
            return;
        }
        let now = live.now();
        let drops = incoming.drops();
        sessions.stats_mut().recv_drops += u64::from(drops.wrapping_sub(self.drops_seen));
        self.drops_seen = drops;
        for datagram in &*incoming {
            let (source, length) = (datagram.from, datagram.payload.len());
            if is_misdirected(source, *upstream, *local) {
                sessions.stats_mut().misdirected += 1;
                continue;
            }
            let register = |socket: &UdpSocket, slot: u32| {
                live.events.register(socket, Token(slot.into()), Interest::Readable)
            };
            if let Some(client) = sessions.client_of(now, source, length, register) {
                offer(&mut live.wan, now, Way::Up, client, &datagram);
            }
        }
    }

    fn take_answers(&mut self, slot: u64) {
        let Relay { live, sessions, answers, .. } = self;
        // The client may just have gone: then the slot is empty, or holds another client without datagrams.
        let Some((client, socket)) = sessions.in_slot(slot as u32) else { return };
        if let Err(error) = socket.recv_batch(answers) {
            if is_about_an_earlier_datagram(&error) {
                sessions.upstream_refused();
            }
            return;
        }
        let now = live.now();
        answers.iter().for_each(|datagram| offer(&mut live.wan, now, Way::Down, client, &datagram));
    }

    /// Sends at most a batch of the packets that have arrived; the others are due after the next poll of the sources.
    fn deliver(&mut self, observe: &mut impl FnMut(&Carried)) {
        let Relay { live, sessions, listen, .. } = self;
        for _ in 0..BATCH {
            let now = live.now();
            let Some((way, delivery)) = live.wan.pop_due(now) else { return };
            let Delivery { bytes, offered, due, .. } = delivery;
            observe(&Carried { way, bytes, offered, due, left: now });
            let Packet { client, payload } = delivery.damaged();
            let result = match way {
                Way::Up => {
                    let Some(socket) = sessions.socket(client) else {
                        sessions.stats_mut().stray += 1;
                        continue;
                    };
                    send_twice(|| socket.send(&payload))
                }
                Way::Down => {
                    // Checked here, where each copy of an answer passes.
                    let Ok(to) = sessions.answer(now, client, payload.len()) else { continue };
                    send_twice(|| listen.send_to(&payload, to))
                }
            };
            if result.refused {
                sessions.upstream_refused();
            }
            let stats = sessions.stats_mut();
            match result.error.map(|error| error.kind()) {
                None => {}
                Some(ErrorKind::WouldBlock) => stats.send_full += 1,
                Some(_) => stats.send_failed += 1,
            }
        }
    }
}

/// Puts a datagram on the path, with the time at which the kernel received it.
fn offer(wan: &mut Wan<Packet>, now: Timestamp, way: Way, client: ClientId, datagram: &Datagram<'_>) {
    let received = datagram.received.unwrap_or(now).min(now);
    let packet = Packet { client, payload: datagram.payload.into() };
    // The path counts its drops.
    let traits = Traits { capable: false, flow: client.slot().into() };
    let _ = wan.offer_of(received, way, datagram.payload.len() as u32, traits, packet);
}

/// The outcome of sending a datagram.
struct Sent {
    /// Whether a first attempt met an error about an earlier datagram.
    refused: bool,
    error: Option<io::Error>,
}

/// Sends again if the first attempt only returned an error about an earlier datagram.
fn send_twice(send: impl Fn() -> io::Result<usize>) -> Sent {
    match send() {
        Err(error) if is_about_an_earlier_datagram(&error) => Sent { refused: true, error: send().err() },
        other => Sent { refused: false, error: other.err() },
    }
}

/// Tokens below are the clients' slots.
const LISTEN: Token = Token(1 << 62);
/// Datagrams per batch, so that each side gets its turn.
const BATCH: usize = 64;
/// The maximum UDP datagram.
const MAX_DATAGRAM: usize = 65_535;

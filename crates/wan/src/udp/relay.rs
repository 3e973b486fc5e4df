//! Sockets on either side of a [`Wan`]: [`Datagrams`].

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use softtimers::{Interest, Timestamp, Token};
use softtimers_net::relay::{ClientId, RelayConfig, Sessions, is_misdirected, is_same_socket, prepare};
use softtimers_net::udp::{Datagram, RecvBatch, UdpSocket, is_about_an_earlier_datagram};

use crate::relay::{BATCH, Edge, EdgeStats, Event, Live, Packet, Ready};
use crate::{Delivery, Relay, Traits, Wan, WanBuilder, Way};

/// The clients' socket, and one towards the upstream for each of them.
#[derive(Debug)]
struct Datagrams {
    upstream: SocketAddr,
    listen: UdpSocket,
    local: SocketAddr,
    sessions: Sessions,
    incoming: RecvBatch,
    /// Separate, since a drop count belongs to one socket.
    answers: RecvBatch,
    /// The listening socket's drops at the last check, modulo 2³².
    drops_seen: u32,
}

impl Relay {
    /// Relays UDP datagrams, with an empty path at first: see the [module](crate::udp). They flow while it
    /// [runs](Self::run).
    ///
    /// ```
    /// use std::net::UdpSocket;
    /// use std::time::Duration;
    /// use softtimers_wan::udp::RelayConfig;
    /// use softtimers_wan::{PathConfig, Relay, Wan, Way};
    ///
    /// let server = UdpSocket::bind("127.0.0.1:0")?;
    /// let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(5)));
    /// let mut relay = Relay::udp(RelayConfig::to(server.local_addr()?), path)?;
    ///
    /// let client = UdpSocket::bind("127.0.0.1:0")?;
    /// client.send_to(b"hello", relay.local_addr().unwrap())?;
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
    ///
    /// # Errors
    /// The system's error for the listening address, or for another descriptor. `InvalidInput` if the path is invalid
    /// ([`PathError`](crate::PathError)) or the upstream is the relay itself.
    pub fn udp(config: RelayConfig, path: WanBuilder) -> io::Result<Self> {
        let listen = UdpSocket::bind(config.listen)?;
        let local = listen.local_addr()?;
        if is_same_socket(config.upstream, local) {
            let problem = format!("the upstream {} is the relay itself", config.upstream);
            return Err(io::Error::new(ErrorKind::InvalidInput, problem));
        }
        prepare(&listen, &config)?;
        let live = Live::new(config.events, path)?;
        live.events.register(&listen, LISTEN, Interest::Readable)?;
        let edge = Datagrams {
            upstream: config.upstream,
            listen,
            local,
            sessions: Sessions::new(config),
            incoming: RecvBatch::new(BATCH, MAX_DATAGRAM),
            answers: RecvBatch::new(BATCH, MAX_DATAGRAM),
            drops_seen: 0,
        };
        Ok(Relay { live, edge: Box::new(edge) })
    }
}

impl Edge for Datagrams {
    fn stats(&self) -> EdgeStats {
        EdgeStats::Udp(*self.sessions.stats())
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        Some(self.local)
    }

    fn wakes_at(&self, _: &Live) -> Option<Timestamp> {
        self.sessions.poll_at()
    }

    fn ready(&mut self, live: &mut Live, ready: Ready) {
        if ready.token == LISTEN.0 {
            self.take_from_clients(live);
        } else {
            self.take_answers(live, ready.token);
        }
    }

    fn due(&mut self, _: &mut Live, _: Event) {}

    fn send(&mut self, _: &mut Live, now: Timestamp, way: Way, delivery: Delivery<Packet>) {
        let Datagrams { sessions, listen, .. } = self;
        let Packet::Datagram(client, payload) = delivery.damaged() else { return };
        let result = match way {
            Way::Up => match sessions.socket(client) {
                Some(socket) => send_twice(|| socket.send(&payload)),
                None => return sessions.stats_mut().stray += 1,
            },
            Way::Down => {
                // Checked here, where each copy of an answer passes.
                let Ok(to) = sessions.answer(now, client, payload.len()) else { return };
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

    fn settle(&mut self, live: &mut Live) -> io::Result<()> {
        self.sessions.expire(live.now());
        Ok(())
    }
}

impl Datagrams {
    /// Receives a batch. More packets are reported again.
    fn take_from_clients(&mut self, live: &mut Live) {
        let Datagrams { sessions, incoming, local, upstream, .. } = self;
        // The socket is not connected, so an error can only mean that it is empty.
        if self.listen.recv_batch(incoming).is_err() {
            return;
        }
        let now = live.now();
        let drops = incoming.drops();
        sessions.stats_mut().recv_drops += u64::from(drops.wrapping_sub(self.drops_seen));
        self.drops_seen = drops;
        for datagram in incoming.iter() {
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

    fn take_answers(&mut self, live: &mut Live, slot: u64) {
        let Datagrams { sessions, answers, .. } = self;
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
}

/// Puts a datagram on the path, with the time at which the kernel received it.
fn offer(wan: &mut Wan<Packet>, now: Timestamp, way: Way, client: ClientId, datagram: &Datagram<'_>) {
    let received = datagram.received.unwrap_or(now).min(now);
    let packet = Packet::Datagram(client, datagram.payload.into());
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
/// The maximum UDP datagram.
const MAX_DATAGRAM: usize = 65_535;

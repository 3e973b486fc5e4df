//! The clients with what the system holds for each: a socket, a registration, a timer. [`Sessions`].

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use softtimers::udp::UdpSocket;
use softtimers::{Config, EventLoop, Interest, Slack, SoftTimers, TimerId, Timestamp, Token};

use super::clients::{ClientId, Clients};
use super::config::RelayConfig;

/// The clients there are, and the loop that serves them.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) clients: Clients<Outlet>,
    pub(super) events: EventLoop,
    pub(super) timers: SoftTimers<Event>,
    config: RelayConfig,
}

/// What a client's packets leave by. Closing the socket ends its registration.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) socket: UdpSocket,
    expiry: Option<TimerId>,
}

/// What the relay waits for beside packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// A packet on the path arrives.
    Path,
    /// A client may have been silent for its time.
    Expiry(ClientId),
    /// `run` was told to end.
    Stop,
}

impl Sessions {
    pub(super) fn new(config: RelayConfig) -> io::Result<Self> {
        Ok(Sessions {
            clients: Clients::new(config.clients),
            events: EventLoop::new(config.events)?,
            timers: SoftTimers::new(Config::default()),
            config,
        })
    }

    /// The client that `source` is, from now on if it was none; `None` if there is no room, or no socket.
    pub(super) fn client_of(&mut self, now: Timestamp, source: SocketAddr, bytes: usize) -> Option<ClientId> {
        if let Some(known) = self.clients.heard(now, source, bytes) {
            return Some(known);
        }
        if let Some(evicted) = self.clients.make_room(now).ok()? {
            evicted.expiry.map(|expiry| self.timers.cancel(expiry));
        }
        let Ok(socket) = connected(&self.config) else {
            self.clients.stats.no_socket += 1;
            return None;
        };
        let client = self.clients.insert(now, source, bytes, Outlet { socket, expiry: None });
        let outlet = self.clients.outlet(client)?;
        if self.events.register(&outlet.socket, Token(client.slot.into()), Interest::Readable).is_err() {
            self.clients.abandon(client);
            return None;
        }
        self.look_again(now, client, now + self.config.clients.idle);
        Some(client)
    }

    /// Forgets a client if it has been silent for its time.
    pub(super) fn expire(&mut self, client: ClientId) {
        let now = self.events.now();
        if let Some(at) = self.clients.expire(now, client) {
            self.look_again(now, client, at);
        }
    }

    /// When exactly a client is forgotten does not matter, so the timer has slack.
    fn look_again(&mut self, now: Timestamp, client: ClientId, at: Timestamp) {
        let slack = Slack::within(self.config.clients.idle / 8);
        let expiry = self.timers.schedule_at(now, at, slack, Event::Expiry(client));
        if let Some(outlet) = self.clients.outlet(client) {
            outlet.expiry = Some(expiry);
        }
    }
}

/// A socket whose other end is the upstream.
fn connected(config: &RelayConfig) -> io::Result<UdpSocket> {
    let any: SocketAddr = match config.upstream {
        SocketAddr::V4(to) if to.ip().is_loopback() => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(to) if to.ip().is_loopback() => (Ipv6Addr::LOCALHOST, 0).into(),
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(config.upstream)?;
    prepare(&socket, config)?;
    Ok(socket)
}

/// Sets up a socket of either side.
pub(super) fn prepare(socket: &UdpSocket, config: &RelayConfig) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // The system grants what it likes. What it then drops is counted.
    socket.request_recv_buffer(config.recv_buffer)?;
    socket.set_drop_counter(true)?;
    socket.set_timestamps(true)
}

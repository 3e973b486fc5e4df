//! The clients with what the system holds for each: a socket, a registration, a timer. [`Sessions`].

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use softtimers::udp::UdpSocket;
use softtimers::{Interest, Slack, TimerId, Timestamp, Token};

use super::clients::{ClientId, Clients};
use super::config::RelayConfig;
use crate::WanBuilder;
use crate::live::Live;

/// The clients there are, and the loop that serves them.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) clients: Clients<Outlet>,
    /// Its own events are that a client may have been silent for its time.
    pub(super) live: Live<Packet, ClientId>,
    config: RelayConfig,
}

/// What a client's packets leave by. Closing the socket ends its registration.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) socket: UdpSocket,
    expiry: Option<TimerId>,
}

/// A packet on the path.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) client: ClientId,
    pub(super) payload: Box<[u8]>,
}

impl AsMut<[u8]> for Packet {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.payload
    }
}

impl Sessions {
    pub(super) fn new(config: RelayConfig, path: WanBuilder) -> io::Result<Self> {
        Ok(Sessions { clients: Clients::new(config.clients), live: Live::new(config.events, path)?, config })
    }

    /// The client that `source` is, from now on if it was none; `None` if there is no room, or no socket.
    pub(super) fn client_of(&mut self, now: Timestamp, source: SocketAddr, bytes: usize) -> Option<ClientId> {
        if let Some(known) = self.clients.heard(now, source, bytes) {
            return Some(known);
        }
        if let Some(evicted) = self.clients.make_room(now).ok()? {
            evicted.expiry.map(|expiry| self.live.timers.cancel(expiry));
        }
        let Ok(socket) = connected(&self.config) else {
            self.clients.no_socket();
            return None;
        };
        let client = self.clients.insert(now, source, bytes, Outlet { socket, expiry: None });
        let outlet = self.clients.outlet(client)?;
        if self.live.events.register(&outlet.socket, Token(client.slot.into()), Interest::Readable).is_err() {
            self.clients.abandon(client);
            return None;
        }
        self.look_again(client, now + self.config.clients.idle);
        Some(client)
    }

    /// Forgets a client if it has been silent for its time.
    pub(super) fn expire(&mut self, client: ClientId) {
        let now = self.live.now();
        if let Some(at) = self.clients.expire(now, client) {
            self.look_again(client, at);
        }
    }

    /// When exactly a client is forgotten does not matter, so the timer has slack.
    fn look_again(&mut self, client: ClientId, at: Timestamp) {
        let slack = Slack::within(self.config.clients.idle / 8);
        let expiry = self.live.schedule(at, slack, client);
        if let Some(outlet) = self.clients.outlet(client) {
            outlet.expiry = Some(expiry);
        }
    }
}

/// A socket whose other end is the upstream, set up as the [configuration](RelayConfig) says: non-blocking, with
/// receive times and a count of drops.
///
/// # Errors
/// What the system says.
pub fn connected(config: &RelayConfig) -> io::Result<UdpSocket> {
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

/// Sets up a socket of either side: non-blocking, with receive times and a count of drops.
///
/// # Errors
/// What the system says.
pub fn prepare(socket: &UdpSocket, config: &RelayConfig) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // The system grants what it likes. What it then drops is counted.
    socket.request_recv_buffer(config.recv_buffer)?;
    socket.set_drop_counter(true)?;
    socket.set_timestamps(true)
}

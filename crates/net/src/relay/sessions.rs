//! [`Sessions`]: the clients with their system resources, a socket towards the upstream and a timer each.
//! Common to all datagram relays; the relay itself waits for readable sockets.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use softtimers::{Config, Slack, SoftTimers, TimerId, Timestamp, TriggerState};

use super::answers::PrefixRates;
use super::clients::{ClientId, Clients, Expiry};
use super::config::{NotSent, RelayConfig, RelayStats};
use super::places::Places;
use crate::udp::UdpSocket;

/// The present clients, and when each may be forgotten.
#[derive(Debug)]
pub struct Sessions {
    clients: Clients<Outlet>,
    timers: SoftTimers<ClientId>,
    config: RelayConfig,
    /// The receive-buffer drops of closed sockets.
    dropped: u64,
}

/// A client's own socket towards the upstream, and the timer that forgets the client.
#[derive(Debug)]
struct Outlet {
    /// Closing it must end its registration for readiness, as with epoll.
    socket: UdpSocket,
    expiry: Option<TimerId>,
}

impl Sessions {
    /// Creates a relay's table without clients.
    pub fn new(config: RelayConfig) -> Self {
        let (clients, timers) = (Clients::new(config.clients.clone()), SoftTimers::new(Config::default()));
        Sessions { clients, timers, config, dropped: 0 }
    }

    /// Creates the tables of several relays at one address, each for its own clients. Together they respect
    /// the configured number of clients, except that each may have one, and the configured rate of answers to
    /// a prefix. Half of the places is divided among them, and the other half goes to those that need more.
    pub fn several(config: &RelayConfig, number: usize) -> Vec<Self> {
        let rates = PrefixRates::new(config.clients.answers_per_prefix);
        let places = Places::shared(config.clients.most, u32::try_from(number).unwrap_or(u32::MAX));
        let one = |places| Sessions {
            clients: Clients::sharing(config.clients.clone(), rates.clone(), places),
            timers: SoftTimers::new(Config::default()),
            config: config.clone(),
            dropped: 0,
        };
        places.into_iter().map(one).collect()
    }

    /// Returns the client of `source`, adding it if it is new. A new one's socket is `register`ed under its
    /// slot. `None` if the system has no socket for it, or does not register it.
    pub fn client_of(
        &mut self,
        now: Timestamp,
        source: SocketAddr,
        bytes: usize,
        register: impl FnOnce(&UdpSocket, u32) -> io::Result<()>,
    ) -> Option<ClientId> {
        if let Some(known) = self.clients.heard(now, source, bytes) {
            return Some(known);
        }
        let evicted = self.clients.make_room(now);
        self.close(evicted);
        let socket = connected(&self.config).or_else(|error| {
            // The descriptor limit is below the client limit: then it limits the clients.
            if !matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) {
                return Err(error);
            }
            let evicted = self.clients.evict(now);
            self.close(evicted);
            connected(&self.config)
        });
        let Ok(socket) = socket else {
            self.clients.no_socket();
            return None;
        };
        let client = self.clients.insert(now, source, bytes, Outlet { socket, expiry: None });
        if register(&self.clients.outlet(client)?.socket, client.slot()).is_err() {
            let abandoned = self.clients.abandon(client);
            self.close(abandoned);
            return None;
        }
        self.ask_again(now, client, now + self.config.clients.idle);
        Some(client)
    }

    /// Returns the client's own socket, whose other end is the upstream; `None` when the client is gone.
    pub fn socket(&mut self, client: ClientId) -> Option<&UdpSocket> {
        self.clients.outlet(client).map(|outlet| &outlet.socket)
    }

    /// Returns the client in a slot, and its socket, if there is one.
    pub fn in_slot(&mut self, slot: u32) -> Option<(ClientId, &UdpSocket)> {
        self.clients.in_slot(slot).map(|(client, outlet)| (client, &outlet.socket))
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> &RelayStats {
        &self.clients.stats
    }

    /// Returns the counters, for a relay to add its own counts.
    pub fn stats_mut(&mut self) -> &mut RelayStats {
        &mut self.clients.stats
    }

    /// Returns where to send an answer of `bytes` to a client, if it may be sent, and counts it as sent in
    /// any case: each copy needs its own verdict. The first withheld answer is reported to
    /// [`RelayConfig::on_first_withheld`].
    ///
    /// # Errors
    /// [`NotSent`]: it must not be sent; that is counted.
    pub fn answer(&mut self, now: Timestamp, client: ClientId, bytes: usize) -> Result<SocketAddr, NotSent> {
        let verdict = self.clients.answer(now, client, bytes);
        if let Err(why @ (NotSent::Budget(_) | NotSent::Rate(_))) = verdict {
            self.config.on_first_withheld.take().into_iter().for_each(|tell| tell(why));
        }
        verdict
    }

    /// Counts an ICMP error that reports the upstream unreachable; the first one is reported to
    /// [`RelayConfig::on_first_refused`].
    pub fn upstream_refused(&mut self) {
        self.clients.stats.upstream_refused += 1;
        self.config.on_first_refused.take().into_iter().for_each(|tell| tell(self.config.upstream));
    }

    /// Forgets clients that have been silent for [`ClientLimits::idle`](super::ClientLimits::idle).
    pub fn expire(&mut self, now: Timestamp) {
        let turn = self.timers.trigger(TriggerState::HandlerExit, now);
        while let Some(client) = self.timers.next(&turn).map(|fired| fired.event) {
            match self.clients.expire(now, client) {
                Expiry::Later(at) => self.ask_again(now, client, at),
                // Its timer has just fired.
                Expiry::Forgotten(outlet) => self.close(Some(outlet)),
                Expiry::None => {}
            }
        }
    }

    /// Returns when to call [`expire`](Self::expire) next.
    pub fn poll_at(&self) -> Option<Timestamp> {
        self.timers.poll_at()
    }

    /// Returns the number of packets dropped by the receive buffers of the clients' sockets, counted modulo
    /// 2³² for each socket.
    ///
    /// # Cost
    /// A system call for each client.
    pub fn dropped(&self) -> u64 {
        self.dropped + self.clients.outlets().map(|outlet| drops(&outlet.socket)).sum::<u64>()
    }

    fn close(&mut self, outlet: Option<Outlet>) {
        let Some(Outlet { socket, expiry }) = outlet else { return };
        expiry.map(|expiry| self.timers.cancel(expiry));
        self.dropped += drops(&socket);
    }

    /// Schedules the next check of a client, with slack, because the exact time does not matter.
    fn ask_again(&mut self, now: Timestamp, client: ClientId, at: Timestamp) {
        let slack = Slack::within(self.config.clients.idle / 8);
        let expiry = self.timers.schedule_at(now, at, slack, client);
        if let Some(outlet) = self.clients.outlet(client) {
            outlet.expiry = Some(expiry);
        }
    }
}

fn drops(socket: &UdpSocket) -> u64 {
    socket.drops().map_or(0, u64::from)
}

/// Makes a socket connected to the upstream, with the [configuration](RelayConfig)'s settings: non-blocking,
/// with receive times and a count of drops.
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

/// Sets up a socket of either side: non-blocking, with receive times and a count of drops.
///
/// # Errors
/// The system's error.
pub fn prepare(socket: &UdpSocket, config: &RelayConfig) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // The system may grant less. Its drops are counted.
    socket.request_recv_buffer(config.recv_buffer)?;
    socket.set_drop_counter(true)?;
    socket.set_timestamps(true)
}

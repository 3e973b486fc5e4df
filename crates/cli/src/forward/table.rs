//! The clients of the relay, each with a socket towards the upstream: [`Table`].
//!
//! Who may be a client and what it may be answered is [`Clients`]' to decide, which `wan` shares. Here are the sockets,
//! and one descriptor that is readable when any of them is, so that to the poller they are one device.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::event::{Timespec, epoll};
use softtimers::udp::UdpSocket;
use softtimers::{Config, Slack, SoftTimers, TimerId, Timestamp};
use softtimers_wan::udp::{ClientId, Clients, RelayConfig, connected};

/// What is due at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client may have been silent for its time.
    Silent(ClientId),
}

/// The clients there are.
#[derive(Debug)]
pub struct Table {
    /// Who they are.
    pub clients: Clients<Outlet>,
    /// What is due.
    pub timers: SoftTimers<Event>,
    config: RelayConfig,
    /// Watches their sockets.
    epoll: OwnedFd,
    /// What sockets that were closed had dropped.
    dropped: Rc<Cell<u64>>,
}

/// What a client's datagrams leave by.
#[derive(Debug)]
pub struct Outlet {
    /// Its other end is the upstream.
    pub socket: UdpSocket,
    silent: Option<TimerId>,
    dropped: Rc<Cell<u64>>,
}

impl Table {
    /// Nobody yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new(config: RelayConfig) -> io::Result<Self> {
        Ok(Table {
            clients: Clients::new(config.clients),
            timers: SoftTimers::new(Config::default()),
            config,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            dropped: Rc::default(),
        })
    }

    /// The client that `source` is, from now on if it was none; `None` if there is no room, or no socket.
    pub fn client_of(&mut self, now: Timestamp, source: SocketAddr, bytes: usize) -> Option<ClientId> {
        if let Some(known) = self.clients.heard(now, source, bytes) {
            return Some(known);
        }
        if let Some(evicted) = self.clients.make_room(now).ok()? {
            evicted.silent.map(|silent| self.timers.cancel(silent));
        }
        let Ok(socket) = connected(&self.config) else {
            self.clients.no_socket();
            return None;
        };
        let outlet = Outlet { socket, silent: None, dropped: Rc::clone(&self.dropped) };
        let client = self.clients.insert(now, source, bytes, outlet);
        let slot = epoll::EventData::new_u64(client.slot().into());
        let outlet = self.clients.outlet(client)?;
        if epoll::add(&self.epoll, &outlet.socket, slot, epoll::EventFlags::IN).is_err() {
            self.clients.abandon(client);
            return None;
        }
        self.look_again(now, client, now + self.config.clients.idle);
        Some(client)
    }

    /// Forgets a client if it has been silent for its time.
    pub fn expire(&mut self, now: Timestamp, client: ClientId) {
        if let Some(at) = self.clients.expire(now, client) {
            self.look_again(now, client, at);
        }
    }

    /// Adds the slots whose sockets have something to be read, at most [`READY`], in turn.
    ///
    /// # Errors
    /// What the system says.
    pub fn ready(&mut self, slots: &mut impl Extend<u32>) -> io::Result<()> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut room = [const { MaybeUninit::uninit() }; READY];
        match epoll::wait(&self.epoll, &mut room, Some(&at_once)) {
            Ok((events, _)) => slots.extend(events.iter().map(|event| event.data.u64() as u32)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// What the clients' receive buffers had no room for. Of a socket it is counted modulo 2³².
    ///
    /// # Cost
    /// A system call for each client.
    pub fn dropped(&mut self) -> u64 {
        let most = self.config.clients.most;
        let open: u64 = (0..most)
            .filter_map(|slot| Some(self.clients.in_slot(slot)?.1.socket.drops().map_or(0, u64::from)))
            .sum();
        open + self.dropped.get()
    }

    /// When exactly a client is forgotten does not matter, so the timer has slack.
    fn look_again(&mut self, now: Timestamp, client: ClientId, at: Timestamp) {
        let slack = Slack::within(self.config.clients.idle / 8);
        let silent = self.timers.schedule_at(now, at, slack, Event::Silent(client));
        if let Some(outlet) = self.clients.outlet(client) {
            outlet.silent = Some(silent);
        }
    }
}

/// Readable when a client's socket is.
impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Closing the socket ends its registration.
impl Drop for Outlet {
    fn drop(&mut self) {
        let dropped = self.socket.drops().unwrap_or(0);
        self.dropped.set(self.dropped.get() + u64::from(dropped));
    }
}

/// Sockets of which one look tells.
pub const READY: usize = 64;

//! The clients of the relay, each with a socket towards the upstream: [`Table`].
//!
//! [`Sessions`], which `wan` shares, decides who may be a client and what it may be answered, and owns its socket. This
//! module adds one descriptor that is readable when any of the sockets is, so that the poller sees one device.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use softtimers::Timestamp;
use softtimers_net::relay::{ClientId, Sessions};
use softtimers_net::udp::UdpSocket;

/// The relay's clients.
#[derive(Debug)]
pub(crate) struct Table {
    /// The clients and their sockets. Closing a socket ends its registration.
    pub(crate) sessions: Sessions,
    epoll: OwnedFd,
}

impl Table {
    /// Creates a table for these sessions, which have no clients yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn new(sessions: Sessions) -> io::Result<Self> {
        Ok(Table { sessions, epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Returns the client with this `source` address, new if there was none; `None` if there is no socket for it.
    pub(crate) fn client_of(&mut self, now: Timestamp, source: SocketAddr, bytes: usize) -> Option<ClientId> {
        let watch = |socket: &UdpSocket, slot: u32| {
            let slot = epoll::EventData::new_u64(slot.into());
            Ok(epoll::add(&self.epoll, socket, slot, epoll::EventFlags::IN)?)
        };
        self.sessions.client_of(now, source, bytes, watch)
    }

    /// Adds up to 64 slots whose sockets are readable, in turn.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn ready(&mut self, slots: &mut impl Extend<u32>) -> io::Result<()> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut room = [const { MaybeUninit::uninit() }; READY];
        match epoll::wait(&self.epoll, &mut room, Some(&at_once)) {
            Ok((events, _)) => slots.extend(events.iter().map(|event| event.data.u64() as u32)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Readable when a client's socket is.
impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Sockets reported by one poll.
const READY: usize = 64;

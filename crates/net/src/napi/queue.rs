//! [`Queue`]: a receive queue whose interrupts are deferred while it is polled.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use softtimers_core::Timestamp;
use softtimers_linux::sockopt;

use super::{Deferral, netdev};
use crate::rtnetlink::napi::Netdev;

/// A receive queue, with interrupts or polled.
///
/// # Cost
/// A change between the two is two messages to the kernel, some microseconds. A poll that finds nothing costs about one.
#[derive(Debug)]
pub struct Queue {
    netdev: Netdev,
    id: u32,
    /// Shared by all of this process that have the same queue; `None` without the right to change the deferral, which is
    /// as it was set up before then.
    shared: Option<Arc<Shared>>,
    max_delay: Duration,
    polled: bool,
    /// The first look since the CPU was idle.
    busy_since: Option<Timestamp>,
    switches: u64,
}

/// A queue whose deferral this process may change, and no other.
#[derive(Debug)]
struct Shared {
    before: Deferral,
    /// The number of those that poll it now.
    polling: Mutex<u32>,
    /// Its name is taken as long as this process has the queue.
    _alone: UnixDatagram,
}

impl Queue {
    /// Returns the queue that the last packet of `socket` came by, with interrupts. Once it is polled, the kernel receives
    /// by itself what nobody has polled for `max_delay`.
    ///
    /// # Errors
    /// `NotFound` if there was no packet, or it came by no queue: over loopback, or a virtual interface that does not
    /// join packets (GRO). `Unsupported` before Linux 6.13; `PermissionDenied` without `CAP_NET_ADMIN`, unless the queue
    /// was set up before. `ResourceBusy` while another process has the queue: its polls receive the packets of this one.
    pub fn of(socket: &impl AsFd, max_delay: Duration) -> io::Result<Self> {
        let none = || io::Error::new(io::ErrorKind::NotFound, NO_QUEUE);
        let id = sockopt::napi_id(socket.as_fd())?;
        let netdev = if id == 0 { Err(none()) } else { netdev() }?;
        let now = || match netdev.napi(id) {
            Err(Errno::NOENT) => Err(none()),
            other => Ok(other?.deferral),
        };
        let shared = if may_defer(&netdev, now()?.is_on())? { Some(Shared::of(id, now)?) } else { None };
        Ok(Queue { netdev, id, shared, max_delay, polled: false, busy_since: None, switches: 0 })
    }

    /// Says whether this thread's network has queues that this process can poll.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn any() -> io::Result<()> {
        let netdev = netdev()?;
        let queues = netdev.all()?;
        if queues.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, NO_QUEUES));
        }
        may_defer(&netdev, queues.iter().any(|queue| queue.deferral.is_on())).map(drop)
    }

    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns whether it is polled, its interrupts deferred.
    pub fn is_polled(&self) -> bool {
        self.polled
    }

    /// Returns how often that has changed.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Lets receives from `socket` poll its queue if they find nothing: all of them do, not only [`poll`](Self::poll).
    ///
    /// # Errors
    /// The system's error.
    pub fn prepare(socket: &impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd();
        // Without the right a poll ends after 16 packets, and does not defer interrupts anew.
        for outcome in
            [sockopt::set_prefer_busy_poll(socket, true), sockopt::set_busy_poll_budget(socket, BUDGET)]
        {
            match outcome {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
                _ => {}
            }
        }
        sockopt::set_busy_poll(socket, 1)
    }

    /// Polls the queue that `socket`, a [prepared](Self::prepare) one, got its last packet by. Does not poll if that has
    /// something to be received: returns `false` then. An error of the socket, such as a reset, is taken by it: a read
    /// finds the end.
    pub fn poll(socket: &impl AsFd) -> bool {
        let found = recv(socket.as_fd(), &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        found == Err(Errno::AGAIN)
    }

    /// Notes a look at `now` that no idle time preceded. Such looks for a millisecond make the queue a polled one.
    ///
    /// # Errors
    /// `NotFound` if the queue is gone: an interface that goes down, or stops to join packets, loses it, and the next one
    /// has another number. A polled queue is looked for each 100 ms.
    pub fn busy(&mut self, now: Timestamp) -> io::Result<()> {
        let since = *self.busy_since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        if !self.polled && passed >= SATURATED {
            self.set(true)?;
        } else if self.polled && passed >= LOOKED_FOR {
            self.busy_since = Some(now);
            self.netdev.napi(self.id).map_err(gone)?;
        }
        Ok(())
    }

    /// Notes that the CPU is about to be idle, or that interrupts are better for another reason: they are enabled again,
    /// and what came meanwhile is received. `socket` is a prepared one.
    ///
    /// # Errors
    /// `NotFound` if the queue is gone.
    pub fn idle(&mut self, socket: &impl AsFd) -> io::Result<()> {
        self.busy_since = None;
        if self.polled {
            self.set(false)?;
            // The end of a poll enables them; without it, the timer of the last one.
            Queue::poll(socket);
        }
        Ok(())
    }

    fn set(&mut self, polled: bool) -> io::Result<()> {
        // Whatever comes of it.
        self.polled &= polled;
        if let Some(shared) = &self.shared {
            shared.set(polled, |before| {
                let deferred = Deferral { polls: 1, flush: self.max_delay, suspend: Duration::ZERO };
                self.netdev.defer(self.id, before.unwrap_or(&deferred)).map_err(gone)
            })?;
        }
        self.polled = polled;
        self.switches += 1;
        Ok(())
    }
}

/// Restores the queue's deferral. Its interrupts come back at most `max_delay` later.
impl Drop for Queue {
    fn drop(&mut self) {
        if self.polled {
            let _ = self.set(false);
        }
        // The last one gives the name back before another asks for it.
        let _all = QUEUES.lock();
        self.shared = None;
    }
}

impl Shared {
    /// Returns the queue of this process; `now` reads its deferral.
    fn of(id: u32, now: impl Fn() -> io::Result<Deferral>) -> io::Result<Arc<Self>> {
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = queues.get(&id).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        let name = SocketAddr::from_abstract_name(format!("softtimers-napi-{id}"))?;
        let alone = UnixDatagram::bind_addr(&name).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => io::Error::new(io::ErrorKind::ResourceBusy, TAKEN),
            _ => error,
        })?;
        let shared = Arc::new(Shared { before: now()?, polling: Mutex::new(0), _alone: alone });
        queues.insert(id, Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Lets `defer` change the deferral, to what it was before if that is given, for one more or one less who polls.
    fn set(&self, polled: bool, defer: impl FnOnce(Option<&Deferral>) -> io::Result<()>) -> io::Result<()> {
        let mut polling = self.polling.lock().unwrap_or_else(PoisonError::into_inner);
        if polled {
            defer(None)?;
            *polling += 1;
            return Ok(());
        }
        *polling -= 1;
        if *polling > 0 { Ok(()) } else { defer(Some(&self.before)) }
    }
}

/// Says whether this process may change the deferral of queues; if not, it can only poll one that was `set_up` before.
fn may_defer(netdev: &Netdev, set_up: bool) -> io::Result<bool> {
    match netdev.defer(NO_ID, &Deferral::default()) {
        Err(Errno::PERM) if set_up => Ok(false),
        Err(Errno::PERM) => Err(io::Error::new(io::ErrorKind::PermissionDenied, NO_RIGHT)),
        Err(Errno::OPNOTSUPP) => Err(io::Error::new(io::ErrorKind::Unsupported, NO_CALL)),
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(other) => Err(other.into()),
    }
}

fn gone(error: Errno) -> io::Error {
    match error {
        Errno::NOENT => io::Error::new(io::ErrorKind::NotFound, "the queue is gone"),
        error => error.into(),
    }
}

/// The queues of this process.
static QUEUES: Mutex<BTreeMap<u32, Weak<Shared>>> = Mutex::new(BTreeMap::new());
/// No queue has this number: the kernel says whether it would be changed.
const NO_ID: u32 = u32::MAX;
/// Time without idle that counts as saturation: a thousandth of it is what a change costs.
const SATURATED: Duration = Duration::from_millis(1);
/// The most that a kernel's poll takes, of which a receive makes two.
const BUDGET: u16 = 64;
const NO_QUEUE: &str = "its packets come by no queue that can be polled";
const TAKEN: &str = "another process polls its queue";
const NO_QUEUES: &str = "no interface here has a queue that can be polled";
const NO_RIGHT: &str = "interrupts are not deferred, which takes CAP_NET_ADMIN";
const NO_CALL: &str = "the kernel cannot defer the interrupts of one queue, Linux 6.13 can";
/// Between two looks whether a polled queue exists still: packets come without it, and only polls are in vain.
const LOOKED_FOR: Duration = Duration::from_millis(100);

//! The rate alone, without the rights for BPF: [`Supervised`].
//!
//! ```text
//!   CMD, its children: connect, listen, bind ──▶ wait (seccomp's user notification)
//!   this process:      copies the socket, sets SO_MAX_PACING_RATE, lets the call happen
//! ```
//!
//! A connection that is accepted has the pace of the socket that listened. Nothing here sets a window, and nobody says when
//! a connection sends, so the rate is not divided: each connection has all of it as its limit.
//!
//! This process is the one that orphans of the command are given to (a subreaper): a system may allow looks at another
//! process's sockets only to those above it.

use std::cell::{Cell, RefCell};
use std::ffi::c_long;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType, getsockname};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use softtimers::tcp::KnownCapacity;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_bpf::TcpCapacity;
use softtimers_linux::call_watch::{BIND, CONNECT, CallWatch, LISTEN, WaitingCall};
use softtimers_linux::sockopt::pacing_rate;

use super::members;
use super::watch::Members;

/// A command whose sockets are given a pace.
#[derive(Debug)]
pub(super) struct Supervised {
    calls: CallWatch,
    /// The direct child, whose end is awaited elsewhere.
    command: Pid,
    guard: Cell<Option<Pid>>,
    to: Vec<IpNet>,
    rate: RefCell<KnownCapacity>,
    /// Paces that were set before.
    paces: RefCell<Vec<u64>>,
    counts: Cell<SocketCounts>,
    /// When orphans were buried last.
    buried: Cell<Timestamp>,
}

/// Counts of sockets since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SocketCounts {
    /// TCP sockets that connected.
    pub(crate) connected: u64,
    /// TCP sockets that listened.
    pub(crate) listening: u64,
    /// UDP sockets that connected or were bound.
    pub(crate) udp: u64,
    /// The first destination of one.
    pub(crate) udp_to: Option<IpAddr>,
    /// Sockets that could not be copied or set.
    pub(crate) refused: u64,
    /// The number of the last such error.
    pub(crate) last_refusal: u32,
}

impl Supervised {
    /// Starts a command by `start`, whose calls are watched.
    ///
    /// # Errors
    /// `Ok(Err(…))` with those of `start`; `Err(…)` if the system allows no such watch.
    pub(super) fn start(
        capacity: &TcpCapacity,
        start: impl FnOnce() -> io::Result<Child> + Send,
    ) -> io::Result<io::Result<(Self, Child)>> {
        set_child_subreaper(Some(getpid()))?;
        // The filter stays with the thread.
        let started = thread::scope(|scope| {
            let watched = || CallWatch::of_this_thread(CALLS).map(|calls| (calls, start()));
            let thread = thread::Builder::new().name("starts the command".to_owned());
            thread
                .spawn_scoped(scope, watched)?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let (calls, child) = started?;
        let child = match child {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        let networks = capacity.to.iter().filter_map(|&(address, length)| IpNet::new(address, length).ok());
        let supervised = Supervised {
            calls,
            command: Pid::from_child(&child),
            guard: Cell::new(None),
            to: networks.collect(),
            rate: RefCell::new(KnownCapacity::bits_per_second(capacity.rate)),
            paces: RefCell::default(),
            counts: Cell::default(),
            buried: Cell::new(Timestamp::ZERO),
        };
        Ok(Ok((supervised, child)))
    }

    /// Returns what a guard answers the command's calls by, once this process has been killed.
    ///
    /// # Errors
    /// Without a free descriptor.
    pub(super) fn share(&self) -> io::Result<OwnedFd> {
        self.calls.as_fd().try_clone_to_owned()
    }

    /// Says which process is the guard: it is none of the command's.
    pub(super) fn guarded_by(&self, guard: Pid) {
        self.guard.set(Some(guard));
    }

    /// Returns the counts so far.
    pub(super) fn counts(&self) -> SocketCounts {
        self.counts.get()
    }

    /// Changes the rate, also of sockets that have a pace already.
    pub(super) fn set(&self, capacity: &TcpCapacity) {
        self.rate.replace(KnownCapacity::bits_per_second(capacity.rate));
        for process in members::below_this(self.guard.get()) {
            for socket in members::sockets_of(process) {
                // Another pace is the command's own.
                let is_ours =
                    pacing_rate(socket.as_fd()).is_ok_and(|pace| self.paces.borrow().contains(&pace));
                if is_ours {
                    self.record(self.pace(&socket));
                }
            }
        }
    }

    /// Looks at a call, and paces its socket.
    fn look(&self, call: &WaitingCall) {
        let socket = match members::socket_of(call) {
            Ok(socket) => socket,
            // The call will say so.
            Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => return,
            Err(error) => return self.record(Err(error)),
        };
        // By now its thread may have been killed, and the number be another's.
        if !self.calls.waits(call) {
            return;
        }
        let Some((kind, address)) = self.kind_of(call, &socket) else { return };
        let done = self.pace(&socket);
        let mut counts = self.counts.get();
        match (&done, kind) {
            // It was counted before: connect is called again to ask how far it is.
            (Ok(false) | Err(_), _) => {}
            (Ok(true), Kind::Connects) => counts.connected += 1,
            (Ok(true), Kind::Listens) => counts.listening += 1,
            (Ok(true), Kind::Udp) => counts.udp += 1,
        }
        if matches!(kind, Kind::Udp) && call.number == CONNECT {
            counts.udp_to = counts.udp_to.or(Some(address));
        }
        self.counts.set(counts);
        self.record(done);
    }

    /// Returns what a call makes of a socket, and the address of the call; `None` if that is not to be paced.
    fn kind_of(&self, call: &WaitingCall, socket: &OwnedFd) -> Option<(Kind, IpAddr)> {
        let domain = socket_domain(socket).ok()?;
        if domain != AddressFamily::INET && domain != AddressFamily::INET6 {
            return None;
        }
        let kind = match (socket_type(socket).ok()?, call.number) {
            (SocketType::STREAM, CONNECT) => Kind::Connects,
            (SocketType::STREAM, LISTEN) => Kind::Listens,
            (SocketType::DGRAM, CONNECT | BIND) => Kind::Udp,
            _ => return None,
        };
        let address = match call.number {
            LISTEN => SocketAddr::try_from(getsockname(socket).ok()?).ok()?.ip().to_canonical(),
            _ => members::address_of(call)?,
        };
        self.is_meant(address, call.number == CONNECT).then_some((kind, address))
    }

    /// Says whether the rate is that of the path from or to an address. Whose packets come to an own address is not known
    /// before they come.
    fn is_meant(&self, address: IpAddr, is_peer: bool) -> bool {
        match (is_peer || address.is_loopback(), &self.to[..]) {
            (true, []) => !address.is_loopback(),
            (true, to) => to.iter().any(|network| network.contains(&address)),
            (false, _) => true,
        }
    }

    /// Gives a socket its pace; returns whether it had another.
    fn pace(&self, socket: &OwnedFd) -> io::Result<bool> {
        let before = pacing_rate(socket.as_fd())?;
        // Dropped at once, it is the share of this socket alone.
        self.rate.borrow().pace(socket)?;
        let pace = pacing_rate(socket.as_fd())?;
        let mut paces = self.paces.borrow_mut();
        if !paces.contains(&pace) {
            paces.truncate(REMEMBERED_PACES - 1);
            paces.insert(0, pace);
        }
        Ok(before != pace)
    }

    fn record(&self, done: io::Result<bool>) {
        let Err(error) = done else { return };
        let counts = self.counts.get();
        self.counts.set(SocketCounts {
            refused: counts.refused + 1,
            last_refusal: error.raw_os_error().unwrap_or(0).unsigned_abs(),
            ..counts
        });
    }

    /// Buries orphans that have ended, from time to time.
    fn bury(&self) {
        let now = Monotonic.now();
        if now < self.buried.get() + BETWEEN_BURIALS {
            return;
        }
        self.buried.set(now);
        let ours = |id: Pid| id == self.command || Some(id) == self.guard.get();
        for orphan in members::children().into_iter().filter(|&id| !ours(id)) {
            // It may live.
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
    }
}

impl Members for Supervised {
    fn is_populated(&self) -> bool {
        self.bury();
        !self.calls.is_over().unwrap_or(true)
    }

    fn signal(&self, signal: Signal) {
        for process in members::below_this(self.guard.get()) {
            // It may have ended meanwhile.
            let _ = kill_process(process, signal);
        }
    }

    fn events(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.calls.as_fd(), PollFlags::IN)
    }

    fn serve(&self) {
        self.bury();
        if let Ok(Some(call)) = self.calls.next() {
            self.look(&call);
            // An error is that nobody waits any more.
            let _ = self.calls.go_on(&call);
        }
    }
}

/// Ends the processes of a command that was given up: their calls would find nobody.
impl Drop for Supervised {
    fn drop(&mut self) {
        if !self.calls.is_over().unwrap_or(true) {
            self.signal(Signal::KILL);
        }
    }
}

/// Uses of a socket.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Connects,
    Listens,
    Udp,
}

/// Those that say what a socket is for.
const CALLS: &[c_long] = &[CONNECT, LISTEN, BIND];
/// Paces by which a socket is known for one that was paced here.
const REMEMBERED_PACES: usize = 64;
const BETWEEN_BURIALS: Duration = Duration::from_millis(100);

//! Datagrams that leave as frames of an interface (`--driver packet`), bypassing the kernel's UDP and IP: [`Frames`].
//!
//! ```text
//!   engine   due ─▶ number, time, checksum ─▶ packet socket ─▶ queue of the interface
//!              └ once a second, and where the station is not known: by the UDP socket, as ever
//!   thread   netlink: route, neighbour or interface has changed ─▶ asks again ─▶ the next frame goes there
//!              └ and once a second: no notice tells of a path's MTU or of a redirect that the kernel has learnt
//! ```
//!
//! The kernel resolves neighbours, and checks that they are still there, for its own packets only. So one call a second
//! (a datagram, or those due at once) leaves by the UDP socket, which keeps the neighbour's entry alive and reports
//! errors. So does every call without a route for frames: the run goes on as it would without them. The same socket
//! asks the receiver, reads its answers, and owns the source port that frames carry.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{ip_ttl, ipv6_unicast_hops};
use softtimers::{Clock, Monotonic};
use softtimers_core::Timestamp;
use softtimers_measure::failure::Failure;
use softtimers_net::packet::{FrameSender, Interface, Route, RouteWatch};
use softtimers_net::udp::UdpSocket;
use softtimers_net::udp::{SendBatch, SendOutcome};

use crate::dscp::Dscp;
use crate::frame::{Heading, most};

/// The route for frames, opened while the process has the privilege.
#[derive(Debug)]
pub(crate) struct FramePath {
    sender: FrameSender,
    heading: Heading,
    ends: Ends,
}

/// The addresses of a run, and its datagrams' size.
#[derive(Clone, Copy, Debug)]
struct Ends {
    from: SocketAddr,
    to: SocketAddr,
    size: usize,
}

impl FramePath {
    /// Opens it for datagrams of this class and size to the destination of a connected socket.
    ///
    /// # Errors
    /// A usage failure where frames cannot lead, or not of this size; not-possible without `CAP_NET_RAW`.
    pub(crate) fn open(socket: &UdpSocket, to: SocketAddr, dscp: Dscp, size: usize) -> Result<Self, Failure> {
        let no = |why: &dyn std::fmt::Display| Failure::usage(format_args!("--driver packet: {to}: {why}"));
        let plain = |address: SocketAddr| match address {
            SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_none() => address,
            _ => SocketAddr::new(address.ip().to_canonical(), address.port()),
        };
        let from = socket.local_addr().map_err(|error| no(&error))?;
        let ends = Ends { from: plain(from), to: plain(to), size };
        let route = Route::between(ends.from, ends.to).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => no(&format_args!(
                "{error}; frames lead to other machines, over Ethernet; --driver socket sends there"
            )),
            _ => no(&error),
        })?;
        let (name, most) = (route.interface().name(), most(route.mtu(), ends.to));
        if size > most {
            return Err(Failure::usage(format_args!(
                "--size {size}: {name} carries frames of datagrams of at most {most} bytes; --driver socket sends fragments"
            )));
        }
        let hops =
            if ends.to.is_ipv4() { ip_ttl(socket).map(|hops| hops as u8) } else { ipv6_unicast_hops(socket) };
        let sender = FrameSender::on(route.interface()).map_err(|error| {
            let needs = if error.kind() == ErrorKind::PermissionDenied { ", needs CAP_NET_RAW" } else { "" };
            Failure::not_possible(format_args!("--driver packet: a packet socket: {error}{needs}"))
        })?;
        Ok(FramePath {
            sender,
            heading: Heading::new(ends.from, ends.to, (hops.unwrap_or(USUAL_HOPS), dscp), size),
            ends,
        })
    }
}

/// Sends frames, and follows changes of the route.
#[derive(Debug)]
pub(super) struct Frames {
    sender: FrameSender,
    heading: Heading,
    found: Arc<Found>,
    /// The number of changes taken up, and whether there is a route since.
    seen: u32,
    open: bool,
    /// When a datagram must leave by the other socket.
    confirm: Timestamp,
    /// Closed when the run is over.
    over: Option<UnixStream>,
    follower: Option<JoinHandle<()>>,
}

/// The current route, and the number of changes so far.
#[derive(Debug, Default)]
struct Found {
    way: Mutex<Option<Way>>,
    changes: AtomicU32,
}

/// Where frames go.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Way {
    interface: Interface,
    station: [u8; 6],
}

impl Frames {
    /// Follows the route from now on. The thread inherits this one's current settings.
    pub(super) fn begin(path: FramePath) -> io::Result<Self> {
        let FramePath { sender, heading, ends } = path;
        let mut watch = RouteWatch::new()?;
        let found = Arc::<Found>::default();
        let route = found.look(&ends);
        let (over, wait) = UnixStream::pair()?;
        let shared = Arc::clone(&found);
        let following = move || shared.follow(&ends, &mut watch, route, &wait);
        let follower = thread::Builder::new().name("route".to_owned()).spawn(following)?;
        Ok(Frames {
            sender,
            heading,
            found,
            seen: 0,
            open: false,
            confirm: Timestamp::ZERO,
            over: Some(over),
            follower: Some(follower),
        })
    }

    /// Returns the bytes that a frame has in front of its datagram.
    pub(super) fn headroom(&self) -> usize {
        self.heading.len()
    }

    /// Completes a frame that is going to wait.
    pub(super) fn complete(&self, frame: &mut [u8]) {
        self.heading.complete(frame);
    }

    /// Returns how often the route has changed, without the first one.
    pub(super) fn changes(&self) -> u64 {
        u64::from(self.found.changes.load(Ordering::Relaxed).saturating_sub(1))
    }

    /// Sends a datagram, with room in front of it, as a frame; `None` if it must leave by the other socket.
    #[inline]
    pub(super) fn send(&mut self, frame: &mut [u8], now: Timestamp) -> Option<io::Result<()>> {
        self.take_change();
        if !self.is_open(now) {
            return None;
        }
        self.heading.complete(frame);
        Some(self.sender.send(frame))
    }

    /// Sends a batch of such datagrams; `None` if they must leave by the other socket.
    pub(super) fn send_batch(&mut self, batch: &mut SendBatch, now: Timestamp) -> Option<SendOutcome> {
        if self.take_change() {
            batch.edit(|frame| self.heading.redirect(frame));
        }
        if !self.is_open(now) {
            batch.leave_out(self.heading.len());
            return None;
        }
        batch.leave_out(0);
        let outcome = self.sender.send_batch(batch);
        batch.leave_out(self.heading.len());
        Some(outcome)
    }

    /// Takes up changes of the route, and says whether there were any.
    #[inline]
    fn take_change(&mut self) -> bool {
        let changes = self.found.changes.load(Ordering::Acquire);
        let changed = changes != self.seen;
        if changed {
            self.seen = changes;
            self.take();
        }
        changed
    }

    #[cold]
    fn take(&mut self) {
        let way = self.found.way().clone();
        self.open = way.is_some_and(|Way { interface, station }| {
            self.heading.between(interface.hardware_address(), station);
            self.sender.move_to(&interface).is_ok()
        });
    }

    /// Says whether a frame may leave now: there is a route, and the kernel has confirmed it within a second.
    #[inline]
    fn is_open(&mut self, now: Timestamp) -> bool {
        if self.open && now >= self.confirm {
            self.confirm = now + BETWEEN_CONFIRMATIONS;
            return false;
        }
        self.open
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(follower) = self.follower.take() {
            // It returns nothing.
            let _ = follower.join();
        }
    }
}

impl Found {
    fn way(&self) -> std::sync::MutexGuard<'_, Option<Way>> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the current route, and returns it if it has changed.
    fn look(&self, ends: &Ends) -> Option<Route> {
        // The kernel sends datagrams that would have to be fragmented.
        let route = Route::between(ends.from, ends.to).ok();
        let fits = route.as_ref().filter(|route| ends.size <= most(route.mtu(), ends.to));
        let way = fits.filter(|route| route.interface().is_up()).and_then(|route| {
            let station = route.station().ok()??;
            Some(Way { interface: route.interface().clone(), station })
        });
        let mut now = self.way();
        if *now != way {
            *now = way;
            self.changes.fetch_add(1, Ordering::Release);
        }
        route
    }

    /// Checks again whenever the kernel reports a change, and once a second, until the run is over.
    fn follow(&self, ends: &Ends, watch: &mut RouteWatch, mut route: Option<Route>, over: &UnixStream) {
        let mut looked = Monotonic.now();
        loop {
            let wait = (looked + BETWEEN_LOOKS_UNASKED).saturating_duration_since(Monotonic.now());
            let mut waited = [PollFd::new(over, PollFlags::IN), PollFd::new(&*watch, PollFlags::IN)];
            // An interruption or error is handled by the pause below.
            let _ = poll(&mut waited, wait.try_into().ok().as_ref());
            if !waited[0].revents().is_empty() {
                return;
            }
            let is_told = watch.take(route.as_ref()).unwrap_or(true);
            // No notice reports a path's MTU that the kernel has learnt, or a redirect.
            if is_told || Monotonic.now() >= looked + BETWEEN_LOOKS_UNASKED {
                route = self.look(ends);
                looked = Monotonic.now();
            }
            // Tables that change all the time must not take a whole CPU.
            let pause = BETWEEN_LOOKS.try_into().ok();
            if poll(&mut [PollFd::new(over, PollFlags::IN)], pause.as_ref()).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
    }
}

/// By default the kernel considers an entry that it uses valid for at least 15 s.
const BETWEEN_CONFIRMATIONS: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
const BETWEEN_LOOKS_UNASKED: Duration = Duration::from_secs(1);
/// The kernel's usual hop limit, where it does not say.
const USUAL_HOPS: u8 = 64;

//! The state of both interfaces while frames are forwarded between them: [`Links`].
//!
//! A router that does not notice a lowered MTU becomes a black hole: it hands over frames that the interface then
//! drops, and tells no sender. So a thread follows the kernel's notices, and each poller checks before every frame
//! whether something has changed, with one atomic load.
//!
//! ```text
//!   kernel ── notices ─▶ thread ─▶ Links: version + 1 ─▶ each poller, before its next frame
//!                                    └─ waker ─▶ who sleeps through frames
//! ```

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use softtimers_net::packet::{Interface, InterfaceChange, InterfaceWatch};

use crate::forwarder::frames::headers::HEADERS;
use crate::forwarder::frames::link::Link;
use crate::forwarder::notify::Notify;
use crate::forwarder::wake::{Waker, Woken, pair};

/// Both interfaces, for all pollers.
#[derive(Debug)]
pub(crate) struct Links {
    version: AtomicU64,
    now: Mutex<[Link; 2]>,
    /// Wakers of pollers that can sleep while frames pass, and so would not see the version.
    wakers: Mutex<Vec<Waker>>,
}

/// Keeps [`Links`] up to date until it is dropped.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    links: Arc<Links>,
    end: Waker,
    /// The thread's parts, until it has begun.
    prepared: Option<(Watcher, InterfaceWatch, Woken)>,
}

/// One poller's view of both interfaces.
#[derive(Debug)]
pub(crate) struct LinkFollower {
    links: Arc<Links>,
    seen: u64,
}

impl LinkWatch {
    /// Prepares to follow these two interfaces, with frames of at most `room` bytes if that is bounded. The thread
    /// starts at [`begin`](Self::begin): a thread started earlier would keep the privileges with which interfaces are
    /// opened.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub(crate) fn open(interfaces: &[Interface; 2], room: Option<usize>, notify: Notify) -> io::Result<Self> {
        let links = Arc::new(Links::from_interfaces(interfaces));
        let mut watch = InterfaceWatch::new(interfaces.to_vec())?;
        // They may have changed since they were looked up.
        let so_far = watch.all();
        let (end, ended) = pair()?;
        let mut watcher = Watcher { links: Arc::clone(&links), interfaces: interfaces.clone(), room, notify };
        watcher.follow(so_far);
        Ok(LinkWatch { links, end, prepared: Some((watcher, watch, ended)) })
    }

    /// Starts the thread, which also handles the changes since the call of `open`.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if let Some((mut watcher, mut watch, ended)) = self.prepared.take() {
            let run = move || watcher.run(&mut watch, &ended);
            thread::Builder::new().name("links".to_owned()).spawn(run)?;
        }
        Ok(())
    }

    /// The state of both interfaces, shared by all pollers.
    pub(crate) fn links(&self) -> &Arc<Links> {
        &self.links
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        self.end.wake();
    }
}

/// The state of the watching thread.
#[derive(Debug)]
struct Watcher {
    links: Arc<Links>,
    interfaces: [Interface; 2],
    room: Option<usize>,
    notify: Notify,
}

impl Watcher {
    fn run(&mut self, watch: &mut InterfaceWatch, ended: &Woken) {
        loop {
            let mut both = [PollFd::new(&*watch, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
            match poll(&mut both, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => thread::park_timeout(PAUSE),
            }
            if !both[1].revents().is_empty() {
                return;
            }
            let changes = watch.take().unwrap_or_else(|_| {
                // Out of memory for now. Only the state afterwards matters.
                thread::park_timeout(PAUSE);
                watch.all()
            });
            self.follow(changes);
        }
    }

    fn follow(&mut self, changes: Vec<InterfaceChange>) {
        for change in changes {
            let (place, words) = match change {
                InterfaceChange::Now { place, interface } => {
                    let room = self.room;
                    (place, self.links.change(place, |link| link.becomes(&interface, room)))
                }
                InterfaceChange::Addresses { place } => {
                    // If the addresses cannot be read, the old ones stay; the interface may be gone.
                    let Ok(addresses) = self.interfaces[place].addresses() else { continue };
                    (place, self.links.change(place, |link| link.has(addresses)))
                }
                // The device reports this, and ends the run.
                InterfaceChange::Removed { .. } => continue,
            };
            let name = self.interfaces[place].name();
            words.iter().for_each(|words| (self.notify)(format_args!("{name}: {words}")));
        }
    }
}

impl Links {
    /// Creates it from the interfaces' state when they were looked up.
    pub(crate) fn from_interfaces(interfaces: &[Interface; 2]) -> Self {
        Links {
            version: AtomicU64::new(1),
            now: Mutex::new([0, 1].map(|at: usize| Link::from_interface(&interfaces[at]))),
            wakers: Mutex::default(),
        }
    }

    /// Returns a follower for one poller, which has seen no change yet.
    pub(crate) fn follow(links: &Arc<Links>) -> LinkFollower {
        LinkFollower { links: Arc::clone(links), seen: 0 }
    }

    /// Wakes this one at each change from now on.
    pub(crate) fn wake(&self, waker: Waker) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    fn now(&self) -> MutexGuard<'_, [Link; 2]> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut Link) -> Vec<String>) -> Vec<String> {
        let mut now = self.now();
        let Some(link) = now.get_mut(place) else { return Vec::new() };
        let before = link.clone();
        let words = change(link);
        if *link != before {
            self.version.fetch_add(1, Ordering::Release);
            self.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Waker::wake);
        }
        words
    }
}

impl LinkFollower {
    /// Returns the state of both interfaces, if it has changed since the last call.
    #[inline]
    pub(crate) fn changed(&mut self) -> Option<[Link; 2]> {
        let version = self.links.version.load(Ordering::Acquire);
        if version == self.seen {
            return None;
        }
        self.seen = version;
        Some(self.links.now().clone())
    }

    /// Returns how often each was switched off or lost its carrier.
    pub(crate) fn outages(&self) -> [u64; 2] {
        self.links.now().each_ref().map(|link| link.outages)
    }
}

impl Link {
    fn from_interface(interface: &Interface) -> Self {
        Link {
            mtu: interface.mtu(),
            station: interface.hardware_address(),
            addresses: Vec::new(),
            is_on: is_on(interface),
            outages: 0,
        }
    }

    /// Takes over the interface's state, and returns the changes in words.
    fn becomes(&mut self, interface: &Interface, room: Option<usize>) -> Vec<String> {
        let Link { mtu, station, is_on: was_on, .. } = self.clone();
        (self.mtu, self.station, self.is_on) =
            (interface.mtu(), interface.hardware_address(), is_on(interface));
        self.outages += u64::from(was_on && !self.is_on);
        let mut words = Vec::new();
        if self.is_on != was_on {
            words.push(if self.is_on { "up again" } else { "down" }.to_owned());
        }
        if self.mtu != mtu {
            let beyond = room.filter(|&room| self.mtu as usize + HEADERS > room);
            let beyond =
                beyond.map(|room| format!("; longer frames than {room} bytes are lost until a restart"));
            words.push(format!("an MTU of {}, {mtu} before{}", self.mtu, beyond.unwrap_or_default()));
        }
        if self.station != station {
            let shown = self.station.map(|byte| format!("{byte:02x}")).join(":");
            words.push(format!("its own address is {shown} now"));
        }
        words
    }

    /// Takes over these addresses, and returns the changes in words.
    fn has(&mut self, mut addresses: Vec<IpAddr>) -> Vec<String> {
        // Every interface that is up has link-local addresses.
        addresses.retain(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()));
        let before = std::mem::replace(&mut self.addresses, addresses);
        let new = self.addresses.iter().filter(|ip| !before.contains(ip));
        let gone = before.iter().filter(|ip| !self.addresses.contains(ip));
        let words = new.map(|ip| format!("this machine has the address {ip} there"));
        words.chain(gone.map(|ip| format!("this machine has the address {ip} there no more"))).collect()
    }
}

fn is_on(interface: &Interface) -> bool {
    interface.is_up() && interface.has_carrier()
}

/// The pause after a system error.
const PAUSE: Duration = Duration::from_millis(100);
